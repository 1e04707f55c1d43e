"""How far the followers of a partition are behind its leader, as the leader knows."""

import asyncio

import msgspec

from goqueue.broker.storage.bundle import DATA, Bundle
from goqueue.broker.storage.partition import Partition
from goqueue.cluster.replication import Leader, ReplicaProgress
from goqueue.model.ids import Instant, NodeId, Offset


class FollowerLag(msgspec.Struct, frozen=True, kw_only=True):
    """Of one follower; bytes are of all logs of the partition, offsets of its messages."""

    node_id: NodeId
    is_in_sync: bool
    offset: Offset  # what is before it is on the follower's disk
    end_offset: Offset  # of the leader
    lag_ms: int  # since it had all that the leader had
    bytes_left: int
    bytes_in_all: int
    bytes_per_second: float  # of the last seconds; 0 for whoever is in sync

    @property
    def offsets_left(self) -> int:
        return max(0, self.end_offset - self.offset)


def follower_lags(bundle: Bundle) -> list[FollowerLag]:
    """None where the partition is not led."""
    role, data = bundle.role, bundle.find(DATA)
    if not isinstance(role, Leader) or data is None or not data.leads:
        return []
    now = Instant(int(asyncio.get_running_loop().time() * 1e9))
    return [_lag_of(bundle, data, role, each, now) for each in data.followers]


def _lag_of(
    bundle: Bundle, data: Partition, role: Leader, progress: ReplicaProgress, now: Instant
) -> FollowerLag:
    node, log = progress.node, data.log
    copies = [(each, own) for each in bundle for own in each.followers if own.node == node]
    has_all = all(own.synced_offset >= each.log.end_offset for each, own in copies)
    since = min(own.caught_up_at for _, own in copies)
    rates = [own.copy_rate for _, own in copies if own.copy_rate is not None]
    return FollowerLag(
        node_id=node,
        is_in_sync=node in role.isr,
        offset=max(progress.synced_offset, log.start_offset),
        end_offset=log.end_offset,
        lag_ms=0 if has_all else (now - since) // 1_000_000,
        bytes_left=sum(each.log.bytes_from(own.synced_offset) for each, own in copies),
        bytes_in_all=sum(each.log.size for each, _ in copies),
        bytes_per_second=sum(rate.bytes_per_second(now) for rate in rates),
    )
