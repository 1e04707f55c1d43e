"""Which partition a key belongs to.

The choice is a promise: a key must land in the same partition whoever sends it.  `murmur2` is
what Kafka's own producers do, so keys sent over HTTP and by a Java client meet; `murmur3` is for
producers that hash that way.  A change of the partition count moves keys, as in Kafka.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from goqueue.model.errors import InvalidSetting
from goqueue.model.ids import PartitionId
from goqueue.model.murmur import murmur2, murmur3

Partitioner = Callable[[bytes, int], PartitionId]

_POSITIVE = 0x7FFF_FFFF  # Kafka drops the hash's sign bit before it divides


def murmur2_partition(key: bytes, partition_count: int) -> PartitionId:
    """Where Kafka's default partitioner puts `key`."""
    return PartitionId((murmur2(key) & _POSITIVE) % partition_count)


def murmur3_partition(key: bytes, partition_count: int) -> PartitionId:
    """Where a producer that takes the whole unsigned MurmurHash3 modulo the count puts `key`."""
    return PartitionId(murmur3(key) % partition_count)


PARTITIONERS: Mapping[str, Partitioner] = MappingProxyType(
    {"murmur2": murmur2_partition, "murmur3": murmur3_partition}
)


def partitioner(name: str) -> Partitioner:
    """The partitioner that settings call `name`; raises `InvalidSetting`."""
    found = PARTITIONERS.get(name)
    if found is None:
        raise InvalidSetting(f"partitioner {name!r} is unknown: use {' or '.join(PARTITIONERS)}")
    return found
