"""Codecs: round trips, other people's bytes, damage, and bombs that do not go off."""

import gzip
import io
import tracemalloc
from collections.abc import Callable

import aiokafka.codec
import cramjam
import kafka.codec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.compression import CODEC_NAMES, Codec, codec_id, compress, decompress
from goqueue.model.errors import BatchTooLarge, CorruptBatch, InvalidSetting, UnsupportedBatch

MIB = 2**20
XERIAL_HEADER_BYTES = 16
PAYLOADS = [b"", b"x", bytes(range(256)) * 3, b"abcd" * 20_000, bytes(300_000)]
PACKED = [codec for codec in Codec if codec is not Codec.NONE]

payloads = st.binary() | st.tuples(st.binary(max_size=50), st.integers(0, 4000)).map(
    lambda pair: pair[0] * pair[1]
)


def zstd_without_size(data: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    return bytes(compressor.finish())


def gzip_in_two_members(data: bytes) -> bytes:
    middle = len(data) // 2
    return gzip.compress(data[:middle]) + gzip.compress(data[middle:])


def gzip_with_a_file_name(data: bytes) -> bytes:
    output = io.BytesIO()
    with gzip.GzipFile("records", "wb", fileobj=output) as file:
        file.write(data)
    return output.getvalue()


ANY_WRITER: list[tuple[Codec, Callable[[bytes], bytes]]] = [
    (Codec.GZIP, aiokafka.codec.gzip_encode),
    (Codec.GZIP, kafka.codec.gzip_encode),
    (Codec.GZIP, gzip_in_two_members),
    (Codec.GZIP, gzip_with_a_file_name),
    (Codec.SNAPPY, aiokafka.codec.snappy_encode),
    (Codec.SNAPPY, lambda data: bytes(aiokafka.codec.snappy_encode(data, xerial_compatible=False))),
    (Codec.LZ4, aiokafka.codec.lz4_encode),
    (Codec.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),  # blocks refer to earlier ones
    (Codec.ZSTD, aiokafka.codec.zstd_encode),
    (Codec.ZSTD, zstd_without_size),
]
ANY_READER: list[tuple[Codec, Callable[[bytes], bytes]]] = [
    (Codec.GZIP, gzip.decompress),
    (Codec.GZIP, aiokafka.codec.gzip_decode),
    (Codec.GZIP, kafka.codec.gzip_decode),
    (Codec.SNAPPY, aiokafka.codec.snappy_decode),
    (Codec.LZ4, aiokafka.codec.lz4_decode),
    (Codec.ZSTD, aiokafka.codec.zstd_decode),
]


@pytest.mark.parametrize("codec", Codec)
@given(data=payloads)
def test_what_is_compressed_is_decompressed(codec: Codec, data: bytes):
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize(("codec", "encode"), ANY_WRITER)
@pytest.mark.parametrize("data", PAYLOADS, ids=len)
def test_what_strangers_compress_is_decompressed(
    codec: Codec, encode: Callable[[bytes], bytes], data: bytes
):
    assert decompress(codec, encode(data), MIB) == data


@pytest.mark.parametrize(("codec", "decode"), ANY_READER)
@pytest.mark.parametrize("data", PAYLOADS, ids=len)
def test_strangers_decompress_what_is_compressed(
    codec: Codec, decode: Callable[[bytes], bytes], data: bytes
):
    assert bytes(decode(compress(codec, data))) == data


def test_lz4_blocks_stand_alone_as_java_wants_them():
    flags = compress(Codec.LZ4, b"abcd" * 50_000)[4]
    assert flags & 0x20


def test_snappy_is_framed_as_java_frames_it():
    assert compress(Codec.SNAPPY, b"a").startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\0\0\0\3")


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("wrap", [bytearray, memoryview])
def test_any_buffer_is_taken(codec: Codec, wrap: Callable[[bytes], bytes]):
    packed = compress(codec, wrap(b"abcd" * 20))
    assert decompress(codec, wrap(packed), 80) == b"abcd" * 20


# --- bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", PAYLOADS[1:], ids=len)
def test_the_limit_is_exact(codec: Codec, data: bytes):
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    with pytest.raises(BatchTooLarge, match=f"{len(data) - 1} allowed"):
        decompress(codec, packed, len(data) - 1)


@pytest.mark.parametrize(
    ("codec", "encode"),
    [*((codec, lambda data, codec=codec: compress(codec, data)) for codec in PACKED), *ANY_WRITER],
)
def test_a_bomb_stops_at_the_limit(codec: Codec, encode: Callable[[bytes], bytes]):
    """Counts Python's own buffers; what cramjam allocates inside is not seen here."""
    bomb = encode(bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLarge):
            decompress(codec, bomb, MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * MIB


def test_a_large_declared_size_costs_nothing():
    claim = b"\xff\xff\xff\x7f" + b"\0" * 10  # a snappy block that says 256 MiB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="cannot hold"):
            decompress(Codec.SNAPPY, claim, 2**30)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


def test_a_declared_size_that_is_too_small_is_not_believed():
    two_frames = compress(Codec.ZSTD, b"a") + compress(Codec.ZSTD, b"b" * 100_000)
    assert decompress(Codec.ZSTD, two_frames, MIB) == b"a" + b"b" * 100_000


# --- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", PACKED)
def test_every_truncation_is_refused(codec: Codec):
    packed = compress(codec, b"some bytes, some more bytes" * 3)
    for cut in range(len(packed)):
        if codec is Codec.SNAPPY and cut == XERIAL_HEADER_BYTES:
            continue  # a framing without blocks: nothing, and well-formed
        with pytest.raises((CorruptBatch, BatchTooLarge)):
            decompress(codec, packed[:cut], MIB)


@pytest.mark.parametrize("codec", PACKED)
def test_every_changed_byte_is_read_or_refused(codec: Codec):
    packed = compress(codec, b"some bytes, some more bytes" * 3)
    for position in range(len(packed)):
        for byte in range(256):
            read_or_refused(codec, packed[:position] + bytes((byte,)) + packed[position + 1 :])


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize(
    "opening", [b"", b"\x1f\x8b\x08\0", b"\x82SNAPPY\0", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"]
)
@given(rest=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(codec: Codec, opening: bytes, rest: bytes):
    read_or_refused(codec, opening + rest)


def read_or_refused(codec: Codec, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, MIB)) <= MIB
    except (CorruptBatch, BatchTooLarge):
        return


# --- names ------------------------------------------------------------------------------------


def test_codecs_have_kafkas_names_and_ids():
    assert CODEC_NAMES == ("none", "gzip", "snappy", "lz4", "zstd")
    assert [codec_id(name) for name in CODEC_NAMES] == list(range(5))


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_an_unknown_codec_is_unsupported(codec: int):
    for use in (
        lambda: compress(codec, b""),
        lambda: decompress(codec, b"", 1),
    ):
        with pytest.raises(UnsupportedBatch, match=f"codec {codec} is unknown"):
            use()


def test_an_unknown_name_is_an_invalid_setting():
    with pytest.raises(InvalidSetting, match="one of none, gzip, snappy, lz4, zstd"):
        codec_id("brotli")
