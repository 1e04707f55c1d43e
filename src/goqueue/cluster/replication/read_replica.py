"""Which replica a consumer should read: a follower in its own rack (KIP-392).

Only one that is in sync, and has all before the offset that is asked for: another would answer
later than the leader, or not at all (KAFKA-14372).
"""

from collections.abc import Container

from goqueue.cluster.replication.leader import Replicas
from goqueue.cluster.replication.progress import ReplicaProgress
from goqueue.model.ids import Instant, NodeId, Offset


def choose_read_replica(
    replicas: Replicas, *, offset: Offset, in_rack: Container[NodeId]
) -> NodeId | None:
    """The one that has most of the log; None: the leader serves the consumer itself."""
    role = replicas.role
    if role.node in in_rack:
        return None
    fitting = [
        each
        for node, each in replicas.followers.items()
        if node in role.isr and node in in_rack and each.synced_offset >= offset
    ]
    return max(fitting, key=_progress).node if fitting else None


def _progress(replica: ReplicaProgress) -> tuple[Offset, Instant, int]:
    return replica.synced_offset, replica.caught_up_at, -replica.node
