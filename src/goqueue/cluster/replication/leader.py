"""What a leader knows of its partition's replicas, and what follows: commit, and who is in sync.

    high watermark = the least offset that every replica of the ISR has on its disk
                     (in its memory, with flush=interval or never),
                     while the ISR is not smaller than `min.insync.replicas`;  it never falls

A change of the ISR is proposed here, granted by the controller, and known from the new role.  Until
then both count: whoever would leave still has to acknowledge, and whoever would join already has
to (KIP-497's maximal ISR).  So whatever the controller made of the proposal, each replica that it
may elect has all that was committed.

That a proposal was refused changes nothing: a copy of it may still be on its way, and be granted
when the reason is gone.  Only a newer partition epoch makes it void, so one is asked for.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Final

import msgspec

from goqueue.cluster.replication.lag import (
    MS,
    AckTimes,
    LagLimits,
    is_calm,
    is_slow,
    upper_median_of,
)
from goqueue.cluster.replication.progress import LostData, ReplicaProgress
from goqueue.cluster.replication.roles import Leader
from goqueue.model.errors import NotLeader
from goqueue.model.ids import (
    NO_NODE_EPOCH,
    Epoch,
    Instant,
    NodeEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
)

LIMITS: Final = LagLimits()

Medians = Mapping[NodeId, float]  # in milliseconds, of those that acknowledged anything lately


class FollowerFetch(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a follower's Fetch that says what it has."""

    node: NodeId
    node_epoch: NodeEpoch
    number: int = -1  # of this request; see `Replicas.ack`
    synced_offset: Offset  # the offset it asks for
    end_offset: Offset
    has_room: bool = True  # on its disk, for more


class IsrMember(msgspec.Struct, frozen=True, gc=False):
    """With its node's epoch: one that lost its disk since must not slip in (KIP-903)."""

    node: NodeId
    node_epoch: NodeEpoch


class IsrProposal(msgspec.Struct, frozen=True):
    """For the controller, which grants it only if `partition_epoch` is still the newest."""

    leader_epoch: Epoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrMember, ...]
    role: Leader  # to be taken before it is sent: those who join count from then on
    slow: frozenset[NodeId] = frozenset()  # that leave for their slowness alone


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """How the replicas of one log do; `propose_isr` makes a proposal of those of all logs."""

    role: Leader
    min_insync_replicas: int
    entering: frozenset[NodeId]  # that could join
    lagging: frozenset[NodeId]  # that must leave
    slow: frozenset[NodeId]  # that had better leave
    node_epochs: dict[NodeId, NodeEpoch]


class Replicas:
    """Of one log, in one epoch of its leader."""

    __slots__ = (
        "_counted",
        "_epoch_start",
        "_limits",
        "_min_insync_replicas",
        "_node_epoch",
        "_sync_times",
        "followers",
        "has_enough",
        "role",
    )

    def __init__(
        self,
        role: Leader,
        *,
        min_insync_replicas: int,
        node_epoch: NodeEpoch = NO_NODE_EPOCH,
        epoch_start: Offset,
        now: Instant,
        limits: LagLimits = LIMITS,
    ) -> None:
        self.role = role
        self.followers: dict[NodeId, ReplicaProgress] = {}
        self._node_epoch = node_epoch  # the leader's own
        self._epoch_start = epoch_start
        self._limits = limits
        self._sync_times: AckTimes | None = None  # the leader's own; None before there is any
        self._min_insync_replicas = min_insync_replicas
        self._count(role, now)

    def take_role(self, role: Leader, now: Instant) -> None:
        """Newer replicas or ISR, granted or proposed, in the same epoch."""
        assert role.epoch == self.role.epoch, "another epoch has replicas of its own"
        assert role.partition_epoch >= self.role.partition_epoch
        self.role = role
        self._count(role, now)

    def knows_committed(self, high_watermark: Offset) -> bool:
        """Whether that is no less than what any leader before this one has shown (KIP-207)."""
        return high_watermark >= self._epoch_start

    def set_min_insync_replicas(self, count: int) -> None:
        self._min_insync_replicas = count
        self.has_enough = self.role.has_enough_replicas(count)

    def _count(self, role: Leader, now: Instant) -> None:
        assert role.node in role.isr
        counted = role.isr | role.joining
        self.followers = {
            node: self.followers.get(node) or ReplicaProgress(node, now)
            for node in role.replicas
            if node != role.node
        }
        for node in self.followers.keys() - counted:
            self.followers[node].has_lost_data = False  # it may come back when it has caught up
        self._counted = tuple(each for node, each in self.followers.items() if node in counted)
        self.has_enough = role.has_enough_replicas(self._min_insync_replicas)

    # --- commit -----------------------------------------------------------------------------------

    def high_watermark(self, own: Offset, at_least: Offset, counts_synced: bool) -> Offset:
        """By the leader's own offset, synced or written as `counts_synced` says, and the others'.

        `at_least` is what it was.
        """
        if not self.has_enough:
            return at_least
        for each in self._counted:
            offset = each.synced_offset if counts_synced else each.end_offset
            own = min(own, offset)
        return own if own > at_least else at_least  # cheaper than max(), and each sync asks

    def ack(self, fetch: FollowerFetch, *, leader_end: Offset, now: Instant) -> LostData | None:
        """Take in what a follower has; its log is known not to differ (`find_divergence`).

        Raises `NotLeader` for a node that holds no replica, or has registered again since; and for
        a request that a later one has overtaken, on another connection.  It may name less than the
        later one did, which is no loss of data.
        """
        progress = self.followers.get(fetch.node)
        if progress is None:
            raise NotLeader(f"node {fetch.node} has no replica of this partition")
        if fetch.node_epoch < progress.node_epoch:
            raise NotLeader(
                f"node {fetch.node} with epoch {fetch.node_epoch}, it is {progress.node_epoch} now"
            )
        if fetch.node_epoch == progress.node_epoch and fetch.number < progress.fetch_number:
            raise NotLeader(
                f"fetch {fetch.number} of node {fetch.node}, it has sent fetch"
                f" {progress.fetch_number} since"
            )
        return progress.ack(
            node_epoch=fetch.node_epoch,
            fetch_number=fetch.number,
            synced_offset=fetch.synced_offset,
            end_offset=fetch.end_offset,
            leader_end=leader_end,
            now=now,
            has_room=fetch.has_room,
        )

    def note_served(self, node: NodeId, now: Instant) -> None:
        progress = self.followers.get(node)
        if progress is not None:
            progress.note_served(now)

    def note_copied(self, node: NodeId, size: int, now: Instant) -> None:
        """See `ReplicaProgress.note_copied`."""
        progress = self.followers.get(node)
        if progress is not None and node not in self.role.isr:
            progress.note_copied(size, now)

    def note_append(self, end_before: Offset, now: Instant) -> None:
        for each in self._counted:
            each.note_append(end_before, now)

    def note_own_sync(self, took_ns: int, now: Instant) -> None:
        if self._sync_times is None:
            self._sync_times = AckTimes()
        self._sync_times.add(now, took_ns)

    # --- who is in sync ---------------------------------------------------------------------------

    def propose(
        self,
        *,
        high_watermark: Offset,
        leader_end: Offset,
        now: Instant,
        ineligible: Container[NodeId] = frozenset(),
    ) -> IsrProposal | None:
        """A better ISR, if there is one; or the same, to end what was proposed and not granted.

        For a partition of one log (else see `assess`), and for a shell that waits for one answer
        before it asks again.  `ineligible` are nodes that are fenced or draining: the controller
        would refuse them.
        """
        return propose_isr(
            [
                self.assess(
                    high_watermark=high_watermark,
                    leader_end=leader_end,
                    now=now,
                    ineligible=ineligible,
                )
            ]
        )

    def assess(
        self,
        *,
        high_watermark: Offset,
        leader_end: Offset,
        now: Instant,
        ineligible: Container[NodeId] = frozenset(),
    ) -> Assessment:
        """As `propose`, for a partition of several logs."""
        medians = self._medians(now)
        lagging = self._lagging(leader_end, now)
        return Assessment(
            role=self.role,
            min_insync_replicas=self._min_insync_replicas,
            entering=self._entering(medians, high_watermark, now, ineligible),
            lagging=lagging,
            slow=self._slow(medians, self.role.isr - lagging, now),
            node_epochs={node: self._epoch_of(node) for node in self.role.replicas},
        )

    def note_left_out(self, slow: frozenset[NodeId], now: Instant) -> None:
        """A proposal was granted: its slow ones stay out for a while."""
        for node in slow & self.followers.keys():
            self.followers[node].hold.begin(now, self._limits)

    def _epoch_of(self, node: NodeId) -> NodeEpoch:
        return self._node_epoch if node == self.role.node else self.followers[node].node_epoch

    def _medians(self, now: Instant) -> Medians:
        """How long each replica's syncs and acks take; the leader's own are among them."""
        window_ms = self._limits.window_ms
        medians = {
            each.node: each.ack_times.median_ms(now, window_ms) for each in self.followers.values()
        }
        if self._sync_times is not None:
            medians[self.role.node] = self._sync_times.median_ms(now, window_ms)
        return {node: median for node, median in medians.items() if median is not None}

    def _lagging(self, leader_end: Offset, now: Instant) -> frozenset[NodeId]:
        lag = self._limits.lag_ms * MS
        return frozenset(
            each.node
            for each in self._counted
            if each.has_lost_data
            or (
                each.synced_offset < leader_end
                and (now - each.caught_up_at > lag or not each.has_room)
            )
        )

    def _slow(
        self, medians: Medians, in_sync: frozenset[NodeId], now: Instant
    ) -> frozenset[NodeId]:
        """The slowest follower, if the others are much faster for a while, and enough without."""
        node = self._slowest(medians, in_sync)
        for each in self.followers.values():
            if each.node != node:
                each.slow_since = None
        if node is None:
            return frozenset()
        found = self.followers[node]
        if found.slow_since is None:
            found.slow_since = now
        is_for_long = now - found.slow_since >= self._limits.slow_for_ms * MS
        return frozenset((node,)) if is_for_long else frozenset()

    def _slowest(self, medians: Medians, in_sync: frozenset[NodeId]) -> NodeId | None:
        times = [(medians[node], node) for node in in_sync & medians.keys() - {self.role.node}]
        if not times:
            return None
        median, node = max(times)
        others = in_sync - {node}
        without = msgspec.structs.replace(self.role, isr=others)
        is_needed = not without.has_enough_replicas(self._min_insync_replicas)
        if is_needed or not is_slow(median, _median_of(medians, others), self._limits):
            return None
        return node

    def _entering(
        self,
        medians: Medians,
        high_watermark: Offset,
        now: Instant,
        ineligible: Container[NodeId],
    ) -> frozenset[NodeId]:
        needed = max(high_watermark, self._epoch_start)
        others = _median_of(medians, self.role.isr)
        return frozenset(
            node
            for node, each in self.followers.items()
            if node not in self.role.isr
            and (
                each.hold.look(
                    now, self._limits, calm=is_calm(medians.get(node), others, self._limits)
                )
                or not self.has_enough  # a slow one is better than none
            )
            and each.synced_offset >= needed
            and each.has_room  # else the next record would wait for it
            and node not in ineligible
        )


def propose_isr(logs: Sequence[Assessment]) -> IsrProposal | None:
    """For all logs of a partition: who joins is in sync on each, who lags on one leaves."""
    if not logs:
        return None
    role, min_insync_replicas = logs[0].role, logs[0].min_insync_replicas
    entering = frozenset.intersection(*(log.entering for log in logs))
    staying = role.isr.difference(*(log.lagging for log in logs))
    slow = frozenset[NodeId]()
    for log in logs:
        some = slow | (log.slow & staying)
        without = msgspec.structs.replace(role, isr=staying - some)
        if without.has_enough_replicas(min_insync_replicas):
            slow = some
    isr = (staying - slow) | entering
    if isr == role.isr and not role.joining:
        return None
    return IsrProposal(
        role.epoch,
        role.partition_epoch,
        tuple(IsrMember(node, max(log.node_epochs[node] for log in logs)) for node in sorted(isr)),
        msgspec.structs.replace(role, joining=role.joining | entering),
        slow,
    )


def _median_of(medians: Medians, nodes: Container[NodeId]) -> float | None:
    """The higher one of two in the middle.

    Of a leader and a follower that is the follower's, mostly: its acks cross the network and wait
    for two event loops.  By the leader's own syncs, every follower of a busy machine is slow.
    """
    return upper_median_of([median for node, median in medians.items() if node in nodes])
