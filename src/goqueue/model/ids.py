"""The nouns that are numbers or names.

Each has a type of its own, so that an offset cannot be passed where an epoch is meant and a
wall-clock time cannot be compared with a monotonic one.
"""

from typing import NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)  # a record's place in its partition
Epoch = NewType("Epoch", int)  # a leader's term of office
NodeId = NewType("NodeId", int)
NodeEpoch = NewType("NodeEpoch", int)  # counts a node's registrations; Kafka's broker epoch
PartitionId = NewType("PartitionId", int)
PartitionEpoch = NewType("PartitionEpoch", int)  # counts changes of a partition's leader and ISR
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", UUID)
GroupId = NewType("GroupId", str)
ProducerId = NewType("ProducerId", int)
Instant = NewType("Instant", int)  # monotonic nanoseconds; never leaves this process
Timestamp = NewType("Timestamp", int)  # wall-clock milliseconds since 1970; may be written to disk

NO_EPOCH = Epoch(-1)
NO_NODE_EPOCH = NodeEpoch(-1)
NO_TIMESTAMP = Timestamp(-1)
PRODUCER_EPOCH_MAX = 2**15 - 1


class TopicPartition(NamedTuple):
    """One partition of a topic, by the topic's name.

    Equal to the plain pair, and written as one to logs and JSON.  Building it takes longer than
    building the pair, so a lookup on the hot path may use the pair.
    """

    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by its topic's *id*: a topic made again under its old name is another topic."""

    topic_id: TopicId
    partition: int
