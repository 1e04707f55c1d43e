"""What replicas that are not in sync may copy, at one side: from this node, or to it.

Both ends count for themselves: a leader that sends to many nodes, and a node that copies from many
leaders.  Which copies are slowed down, and to which rate, is the metadata's word.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

from goqueue.broker.storage.partition import Partition
from goqueue.cluster.replication import ReplicationQuota
from goqueue.cluster.throttles import Copy
from goqueue.model.ids import NodeId
from goqueue.runtime import Clock

CHUNK_BYTES_MIN: Final = 4096  # of a partition, in one answer

FindCopy = Callable[[str, int, NodeId], Copy]  # of a topic's partition, by the node that follows


class CatchUpQuota:
    def __init__(self, clock: Clock, find_copy: FindCopy = lambda *_: Copy()) -> None:
        self._clock = clock
        self._find_copy = find_copy
        self._quotas: defaultdict[str, ReplicationQuota] = defaultdict(ReplicationQuota)
        self.reassigned_bytes = 0  # that were copied by replicas which a reassignment adds

    def delay_seconds(self, partition: Partition, follower: NodeId) -> float:
        """How long the follower may copy nothing of the partition; 0 for whoever is in sync."""
        throttle = self._find_copy(partition.topic, partition.index, follower).throttle
        if throttle is None:
            return 0.0
        quota = self._quotas[throttle.name]
        return quota.delay_seconds(throttle.bytes_per_second, self._clock.instant())

    def chunk_bytes(self, partition: Partition, follower: NodeId, limit: int) -> int:
        """How much to copy at once, so that a low rate does not come in large pieces."""
        throttle = self._find_copy(partition.topic, partition.index, follower).throttle
        if throttle is None:
            return limit
        return min(limit, max(CHUNK_BYTES_MIN, throttle.bytes_per_second // 4))

    def note(self, partition: Partition, follower: NodeId, size: int) -> None:
        copy = self._find_copy(partition.topic, partition.index, follower)
        if copy.is_reassigned:
            self.reassigned_bytes += size
        if copy.throttle is not None:
            quota = self._quotas[copy.throttle.name]
            quota.note(size, copy.throttle.bytes_per_second, self._clock.instant())
