"""How often groups rebalance, why, how long it takes and how much moves.

Kept in memory only, for metrics: the host reads them, a restart resets them.
"""

import bisect
from collections.abc import Iterable

import msgspec

from goqueue.model.ids import GroupId, Timestamp

SMOOTHING = 0.3  # weight of the newest duration in the moving average
DURATION_MS_BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)


class RebalanceStatistics(msgspec.Struct):
    """Counters of one group, or of all."""

    started: int = 0
    finished: int = 0
    partitions_assigned: int = 0
    partitions_revoked: int = 0
    revocation_timeouts: int = 0
    sessions_expired: int = 0
    last_duration_ms: int | None = None
    average_duration_ms: float | None = None
    last_finished_at: Timestamp | None = None
    by_reason: dict[str, int] = msgspec.field(default_factory=dict)

    def _finish(self, duration_ms: int, now: Timestamp) -> None:
        self.finished += 1
        self.last_duration_ms = duration_ms
        self.last_finished_at = now
        before = self.average_duration_ms
        self.average_duration_ms = (
            float(duration_ms) if before is None else before + SMOOTHING * (duration_ms - before)
        )


def add_up(counted: Iterable[RebalanceStatistics]) -> RebalanceStatistics:
    """The sum of what several coordinators counted; durations are of the newest, or weighed."""
    total, newest, weighed = RebalanceStatistics(), -1, 0.0
    for each in counted:
        total.started += each.started
        total.finished += each.finished
        total.partitions_assigned += each.partitions_assigned
        total.partitions_revoked += each.partitions_revoked
        total.revocation_timeouts += each.revocation_timeouts
        total.sessions_expired += each.sessions_expired
        weighed += (each.average_duration_ms or 0.0) * each.finished
        for reason, count in each.by_reason.items():
            total.by_reason[reason] = total.by_reason.get(reason, 0) + count
        if each.last_finished_at is not None and each.last_finished_at > newest:
            newest = total.last_finished_at = each.last_finished_at
            total.last_duration_ms = each.last_duration_ms
    if total.finished:
        total.average_duration_ms = weighed / total.finished
    return total


class Durations:
    """How many rebalances took how long."""

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_MS_BOUNDS) + 1)  # up to each bound, and beyond them
        self.sum_ms = 0

    def add(self, duration_ms: int) -> None:
        self.counts[bisect.bisect_left(DURATION_MS_BOUNDS, duration_ms)] += 1
        self.sum_ms += duration_ms


class Statistics:
    """The counters of every group, and their sum in `total`."""

    def __init__(self) -> None:
        self.total = RebalanceStatistics()
        self.groups: dict[GroupId, RebalanceStatistics] = {}
        self.durations = Durations()
        self._since: dict[GroupId, Timestamp] = {}  # rebalances under way

    def start_rebalance(self, group_id: GroupId, reason: str, now: Timestamp) -> None:
        """Count a cause; causes that come while a rebalance runs prolong it."""
        for counters in self._of(group_id):
            counters.by_reason[reason] = counters.by_reason.get(reason, 0) + 1
            counters.started += group_id not in self._since
        self._since.setdefault(group_id, now)

    def finish_rebalance(self, group_id: GroupId, now: Timestamp) -> None:
        since = self._since.pop(group_id, None)
        if since is not None:
            self.durations.add(now - since)
            for counters in self._of(group_id):
                counters._finish(now - since, now)

    def count_moved(self, group_id: GroupId, *, assigned: int, revoked: int) -> None:
        for counters in self._of(group_id):
            counters.partitions_assigned += assigned
            counters.partitions_revoked += revoked

    def count_expired_session(self, group_id: GroupId) -> None:
        for counters in self._of(group_id):
            counters.sessions_expired += 1

    def count_late_revocation(self, group_id: GroupId) -> None:
        for counters in self._of(group_id):
            counters.revocation_timeouts += 1

    def forget(self, group_id: GroupId) -> None:
        self.groups.pop(group_id, None)
        self._since.pop(group_id, None)

    def _of(self, group_id: GroupId) -> tuple[RebalanceStatistics, RebalanceStatistics]:
        return self.total, self.groups.setdefault(group_id, RebalanceStatistics())
