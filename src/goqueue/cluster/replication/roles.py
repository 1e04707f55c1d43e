"""What this node is to a partition: its leader, a follower, or neither.

A role is a value that is replaced whole: whoever looked at one decides by what was true together.
A broker without peers leads all its partitions, and is their only replica: `Leader.alone`.
"""

import msgspec

from goqueue.model.ids import Epoch, NodeId, PartitionEpoch


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """This node takes the partition's writes, and decides what is committed."""

    node: NodeId  # this one
    epoch: Epoch
    partition_epoch: PartitionEpoch = PartitionEpoch(0)  # of the ISR; a proposal names it
    replicas: tuple[NodeId, ...]  # in the order in which they are preferred as leaders
    isr: frozenset[NodeId]  # invariant: granted, and this node is one of them
    joining: frozenset[NodeId] = frozenset()  # proposed since; may be granted for all we know

    @classmethod
    def alone(cls, node: NodeId, epoch: Epoch) -> "Leader":
        """Of a partition that has no other replica."""
        return cls(node=node, epoch=epoch, replicas=(node,), isr=frozenset((node,)))

    def has_enough_replicas(self, min_insync_replicas: int) -> bool:
        """Whether the granted ISR is large enough to commit anything."""
        return len(self.isr) >= effective_min_insync(min_insync_replicas, len(self.replicas))


class Follower(msgspec.Struct, frozen=True):
    """This node copies what the leader has."""

    leader: NodeId
    epoch: Epoch


class Offline(msgspec.Struct, frozen=True):
    """This node may have the partition's files, and neither serves nor changes them."""

    reason: str
    epoch: Epoch
    leader: NodeId | None = None  # of a partition that other nodes have


Role = Leader | Follower | Offline


def effective_min_insync(min_insync_replicas: int, replication_factor: int) -> int:
    """As in Kafka: a server-wide default of 2 does not stop a topic that has one replica."""
    return min(min_insync_replicas, replication_factor)
