"""Keys land where Kafka's own producers put them."""

import aiokafka.partitioner
import kafka.partitioner.default
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import InvalidSetting
from goqueue.model.murmur import murmur2, murmur3
from goqueue.model.partitioner import murmur2_partition, murmur3_partition, partitioner


def as_signed(hashed: int) -> int:
    return hashed - 2**32 if hashed >= 2**31 else hashed


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # from the tests of Kafka's Java client
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_java(key: bytes, hashed: int):
    assert as_signed(murmur2(key)) == hashed


@given(st.binary(max_size=100))
def test_murmur2_is_that_of_other_clients(key: bytes):
    assert murmur2(key) & 0x7FFF_FFFF == aiokafka.partitioner.murmur2(key) & 0x7FFF_FFFF
    assert murmur2(key) & 0x7FFF_FFFF == kafka.partitioner.default.murmur2(key) & 0x7FFF_FFFF


@given(st.binary(max_size=50), st.integers(1, 200))
def test_a_key_meets_the_one_another_client_sent(key: bytes, partition_count: int):
    theirs = aiokafka.partitioner.DefaultPartitioner()
    partitions = list(range(partition_count))
    assert murmur2_partition(key, partition_count) == theirs(key, partitions, partitions)


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # published vectors of MurmurHash3_x86_32, seed 0
        (b"", 0),
        (b"\xff\xff\xff\xff", 0x76293B50),
        (b"\x21\x43\x65\x87", 0xF55B516B),
        (b"\x21\x43\x65", 0x7E4A8634),
        (b"\x21\x43", 0xA0F7B07A),
        (b"\x21", 0x72661CF4),
        (b"\x00\x00\x00\x00", 0x2362F9DE),
        (b"test", 0xBA6BD213),
        (b"Hello, world!", 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_murmur3_is_the_published_one(key: bytes, hashed: int):
    assert murmur3(key) == hashed
    assert murmur3_partition(key, 7) == hashed % 7


def test_a_partitioner_is_found_by_name():
    assert partitioner("murmur2") is murmur2_partition
    assert partitioner("murmur3") is murmur3_partition
    with pytest.raises(InvalidSetting, match="murmur2 or murmur3"):
        partitioner("md5")
