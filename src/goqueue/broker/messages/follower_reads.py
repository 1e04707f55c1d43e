"""Consumers that read from a follower in their own rack (KIP-392).

    consumer of rack b ── Fetch ──> leader in rack a     "read from node 2", and no records
             └─────────── Fetch ──> node 2 in rack b     records up to the watermark that it knows

A follower serves a consumer while the metadata says that it is in sync.  Else it refuses as a node
that is neither leader nor follower does, and the consumer goes back to the leader.  So it does when
the follower's log ends before the offset: that says nothing of the leader's (`OffsetNotAvailable`).
Between its watermark and its end the follower has nothing to show yet: the fetch waits.

Consumers without a rack are served by leaders only.  One that asks a follower has old metadata: it
may have asked the leader for the end of the log, and would take the follower's for it.
"""

from goqueue.broker.broker import Broker
from goqueue.broker.storage.partition import Partition, not_leader
from goqueue.cluster.replication import Follower
from goqueue.model.errors import FencedLeaderEpoch, OffsetNotAvailable, UnknownLeaderEpoch
from goqueue.model.ids import NodeId, Offset

ANY_EPOCH = -1


class FollowerReads:
    """Of one fetch, whose client says where it stands."""

    def __init__(self, broker: Broker, rack: str) -> None:
        self._metadata = broker.metadata
        self._node_id = broker.node_id
        self._in_rack = self._metadata.nodes.in_rack(rack)

    def check(self, partition: Partition, epoch: int, offset: Offset) -> None:
        """Raise what keeps this node from serving the consumer."""
        role = partition.role
        if not isinstance(role, Follower):
            check_epoch(partition, epoch)
            return
        compare_epochs(partition, epoch)
        if not self._is_in_sync(partition):
            raise not_leader(f"{partition}, which is not in sync here", role)
        if offset > partition.log.end_offset:
            raise OffsetNotAvailable(
                f"offset {offset} of {partition}: this follower has it up to"
                f" {partition.log.end_offset}, ask node {role.leader}, which leads it"
            )

    def choose_replica(self, partition: Partition, offset: Offset) -> NodeId | None:
        """Whom the consumer should read from instead; None: this node."""
        if not self._in_rack or offset < partition.log.start_offset:
            return None
        return partition.choose_read_replica(offset, self._in_rack)

    def _is_in_sync(self, partition: Partition) -> bool:
        topic_id = partition.topic_id
        if topic_id is None:
            return False
        state = self._metadata.partitions.find(topic_id, partition.index)
        return state is not None and self._node_id in state.isr


def check_epoch(partition: Partition, epoch: int) -> None:
    """Refuse a client that takes this node for a leader that it is not, or not yet."""
    partition.check_leader()
    compare_epochs(partition, epoch)


def compare_epochs(partition: Partition, epoch: int) -> None:
    """Refuse a client whose metadata is older or newer than this node's."""
    if epoch in (ANY_EPOCH, partition.leader_epoch):
        return
    if epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(f"leader epoch {epoch}, it is {partition.leader_epoch} now")
    raise UnknownLeaderEpoch(f"leader epoch {epoch}, it is still {partition.leader_epoch} here")
