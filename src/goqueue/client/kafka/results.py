"""What the Kafka client gives back."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.fetch import AbortedTransaction

LATEST: Final = -1
EARLIEST: Final = -2
"""Times that `list_offsets` takes for the two ends of a log."""


class Node(NamedTuple):
    """A broker, as its metadata names it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TopicLayout(msgspec.Struct, frozen=True):
    """A topic and who leads its partitions; a partition without a leader has none listed."""

    name: str
    partition_count: int
    is_internal: bool
    leaders: Mapping[int, Node]
    topic_id: UUID = UUID(int=0)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(TopicName(self.name), index) for index in range(self.partition_count)
        ]


class OffsetFound(msgspec.Struct, frozen=True, gc=False):
    """The answer to a time; both are -1 where no record is that young."""

    offset: int
    timestamp: int


class Fetched(msgspec.Struct, frozen=True, gc=False):
    """Whole record batches as the log has them (the last one may be cut off), and where it ends."""

    records: memoryview
    aborted: tuple[AbortedTransaction, ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class ProducerId(msgspec.Struct, frozen=True, gc=False):
    """Who an idempotent or transactional producer is."""

    producer_id: int
    epoch: int


class Produced(msgspec.Struct, frozen=True, gc=False):
    """Where batches went; -1 for ones that the partition had already and remembers no place of."""

    base_offset: int
