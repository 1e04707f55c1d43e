"""The group machine: every verb, every deadline, one log.

    verb(now, request) ──▶ Decision(records, Outcome(reply, wakeups))      reads state
    apply(record)                                                          changes it
    next_deadline() / on_deadline(now)                                     time passes

Durable: members, assignments, epochs, offsets.  Beside them, forgotten by a restart: sessions and
other deadlines, parked callers, counters.  After a replay the machine is asleep; the first verb or
deadline wakes it, and gives every member a whole new session from then on.  The same happens when
a decision's records could not be written (they were never applied): the next call notices.
"""

import contextlib
import itertools
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from goqueue.groups import (
    classic_in_consumer,
    classic_join,
    classic_sync,
    commits,
    consumer_heartbeat,
    deadlines,
    descriptions,
    member_assignment,
    share,
    share_heartbeat,
)
from goqueue.groups.classic import ClassicGroup
from goqueue.groups.classic_join import JoinRequest
from goqueue.groups.classic_sync import MemberIdentity, SyncRequest
from goqueue.groups.commits import (
    CommitRequest,
    FetchedOffsets,
    FetchRequest,
    PartitionResult,
)
from goqueue.groups.config import AssignmentPace, GroupsConfig
from goqueue.groups.consumer import JOIN_EPOCH, ConsumerGroup
from goqueue.groups.consumer_heartbeat import HeartbeatRequest
from goqueue.groups.context import CoordinatorContext, Group
from goqueue.groups.descriptions import GroupDescription, GroupListing
from goqueue.groups.errors import (
    GroupModeConflict,
    GroupNotEmpty,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.member_assignment import Changes, MemberAssignment
from goqueue.groups.pending_change import PendingChange, step
from goqueue.groups.pending_offsets import PendingOffsets
from goqueue.groups.records import (
    CommittedOffset,
    ConsumerMember,
    GroupConfigured,
    GroupDeleted,
    GroupRecord,
    OffsetRecord,
    ShareEpochSet,
    ShareGroupDeleted,
    ShareMember,
    ShareMemberSaved,
    ShareMembersTakenOver,
    ShareRecord,
    TransactionCoordinatorSeen,
    decode,
    encode,
)
from goqueue.groups.replies import (
    GroupDecision,
    HeartbeatResponse,
    Joined,
    Left,
    Outcome,
    Parked,
    ShareHeartbeatResponse,
    Synced,
    Token,
    Wakeup,
)
from goqueue.groups.settings import UNSET, GroupSettings, SettingsOf
from goqueue.groups.share import ShareGroup
from goqueue.groups.share_heartbeat import ShareHeartbeatRequest
from goqueue.groups.statistics import Statistics
from goqueue.groups.targets import retarget, topics_differ
from goqueue.groups.timers import Timer, TimerKind
from goqueue.groups.topics import Topics, TopicsView
from goqueue.model.ids import GroupId, Timestamp, TopicName, TopicPartition
from goqueue.model.machine import Decision
from goqueue.model.markers import Marker
from goqueue.model.snapshots import Walk

ReplyT = TypeVar("ReplyT")
ASLEEP = Timestamp(0)  # a deadline long past: "call on_deadline at once"


class GroupMachine:
    """All groups of a shard.  Handlers raise `GroupError` to refuse; then nothing is written."""

    def __init__(
        self,
        config: GroupsConfig | None = None,
        topics: TopicsView | None = None,
        pace: AssignmentPace | None = None,
        settings_of: SettingsOf = lambda _: UNSET,
        share_settings_of: SettingsOf = lambda _: UNSET,
        statistics: Statistics | None = None,
    ) -> None:
        """`statistics` are those of several machines."""
        self._context = CoordinatorContext(
            config or GroupsConfig(),
            topics or Topics(),
            pace or AssignmentPace(),
            settings_of,
            share_settings_of,
        )
        if statistics is not None:
            self._context.statistics = statistics
        self._former_settings: dict[GroupId, GroupSettings] = {}  # of a log that kept them itself
        self._is_awake = False
        self._unapplied = 0  # records of the last decision that were not applied
        self._last: Outcome[Any] = Outcome(None)
        self._changes = Changes()
        self._walk: Walk[GroupId, Iterable[GroupRecord]] | None = None  # of a snapshot
        self._share_walk: Walk[GroupId, Iterable[GroupRecord]] | None = None
        self._share_members_taken_over = False
        # The newest epoch of each transaction coordinator, by its markers.
        self._coordinator_epochs: dict[int, int] = {}
        self._lost: list[Token] = []  # whose wake-up went with a decision that was not written

    # --- classic protocol -------------------------------------------------------------------------

    def join(
        self, now: Timestamp, request: JoinRequest, new_member_id: str
    ) -> GroupDecision[Joined | Parked]:
        """JoinGroup.  `new_member_id` is a fresh unique id, used if the member has none."""
        self._refuse_queue(request.group_id)
        change = self._begin(now, request.group_id)
        classic_join.check_request(self._context, request)
        if isinstance(change.group, ConsumerGroup):
            if not change.group.is_empty:
                return self._finish(
                    change, classic_in_consumer.join(change, request, new_member_id)
                )
            change.write(GroupDeleted(request.group_id))
        return self._finish(change, classic_join.join(change, request, new_member_id))

    def sync(self, now: Timestamp, request: SyncRequest) -> GroupDecision[Synced | Parked]:
        """SyncGroup."""
        change = self._begin(now, request.group_id)
        match change.group:
            case ClassicGroup():
                return self._finish(change, classic_sync.sync(change, request))
            case ConsumerGroup():
                return self._finish(change, classic_in_consumer.sync(change, request))
            case None:
                raise UnknownMember(f"no group {request.group_id!r}")

    def heartbeat(
        self,
        now: Timestamp,
        group_id: GroupId,
        member_id: str,
        *,
        generation: int,
        instance_id: str | None = None,
    ) -> GroupDecision[None]:
        """Heartbeat of a classic member; raises `RebalanceInProgress` to make it join again."""
        change = self._begin(now, group_id)
        match change.group:
            case ClassicGroup():
                classic_sync.heartbeat(change, member_id, instance_id, generation)
            case ConsumerGroup():
                classic_in_consumer.heartbeat(change, member_id, instance_id, generation)
            case None:
                raise UnknownMember(f"no group {group_id!r}")
        return _reply(None)

    def leave(
        self, now: Timestamp, group_id: GroupId, leavers: Sequence[MemberIdentity]
    ) -> GroupDecision[tuple[Left, ...]]:
        """LeaveGroup, for several members at once; each has its own result."""
        change = self._begin(now, group_id)
        if isinstance(change.group, ConsumerGroup):
            return self._finish(change, classic_in_consumer.leave(change, leavers))
        return self._finish(change, classic_sync.leave(change, leavers))

    def abandon(self, now: Timestamp, token: Token) -> None:
        """The client of this parked request is gone; no wake-up will come for it."""
        parked = self._context.parked_requests.abandon(token)
        group = self._context.groups.get(parked.group_id) if parked else None
        if parked and isinstance(group, ClassicGroup) and parked.member_id in group.members:
            timeout_ms = group.members[parked.member_id].session_timeout_ms
            change = PendingChange(self._context, parked.group_id, now)
            change.restart_session(parked.member_id, timeout_ms)

    # --- consumer protocol, and HTTP --------------------------------------------------------------

    def consumer_heartbeat(
        self, now: Timestamp, request: HeartbeatRequest
    ) -> GroupDecision[HeartbeatResponse]:
        """ConsumerGroupHeartbeat: join, stay, leave."""
        if request.member_epoch == JOIN_EPOCH:
            self._refuse_queue(request.group_id)
        change = self._begin(now, request.group_id)
        consumer_heartbeat.check_request(self._context, request)
        return self._finish(change, consumer_heartbeat.heartbeat(change, request))

    def member_assignment(self, group_id: GroupId, member_id: str) -> MemberAssignment:
        """The assignment of a member of a consumer group; raises `UnknownMember`."""
        return member_assignment.find_assignment(self._context, group_id, member_id)

    def static_member(self, group_id: GroupId, instance_id: str) -> ConsumerMember | None:
        """The member of a consumer group that has this instance id."""
        return member_assignment.static_member(self._context, group_id, instance_id)

    def needs_reconciliation(self, group_id: GroupId, member_id: str) -> bool:
        """Would a heartbeat change the member's assignment?"""
        return member_assignment.needs_reconciliation(self._context, group_id, member_id)

    def take_changes(self) -> Changes:
        """What happened to consumer groups since the last call."""
        if not self._changes:
            return self._changes
        changes, self._changes = self._changes, Changes()
        return changes

    # --- share groups, and workers over HTTP ------------------------------------------------------

    def share_heartbeat(
        self, now: Timestamp, request: ShareHeartbeatRequest
    ) -> GroupDecision[ShareHeartbeatResponse]:
        """ShareGroupHeartbeat: join, stay, leave."""
        self._wake(now)
        if request.member_epoch == JOIN_EPOCH:
            self.refuse_streams(request.group_id)
        records, response = share_heartbeat.heartbeat(self._context, now, request)
        return self._decide(Decision(records, Outcome(response)))

    def share_groups(self) -> Mapping[GroupId, ShareGroup]:
        return self._context.shares

    def begin_share_poll(self, now: Timestamp, group_id: GroupId, member_id: str) -> None:
        """The member is there until `end_share_poll`, and a session longer; or it is unknown."""
        self.keep_share_session(now, group_id, member_id)
        self._context.share_polls[group_id, member_id] += 1

    def end_share_poll(self, now: Timestamp, group_id: GroupId, member_id: str) -> None:
        polls, key = self._context.share_polls, (group_id, member_id)
        polls[key] -= 1
        if not polls[key]:
            del polls[key]
        with contextlib.suppress(UnknownMember):  # it left meanwhile
            self.keep_share_session(now, group_id, member_id)

    def keep_share_session(self, now: Timestamp, group_id: GroupId, member_id: str) -> None:
        """The member is heard of; raises `UnknownMember`."""
        self._wake(now)
        member = share_heartbeat.find_member(self._context, group_id, member_id)
        share_heartbeat.restart_session(self._context, now, group_id, member)

    def delete_share_group(self, now: Timestamp, group_id: GroupId) -> GroupDecision[None]:
        """One without members, if there is such a one."""
        self._wake(now)
        group = self._context.shares.get(group_id)
        if group is not None and group.members:
            raise GroupNotEmpty(f"group {group_id!r} has {len(group.members)} members")
        self._context.statistics.forget(group_id)
        records = () if group is None else (ShareGroupDeleted(group_id),)
        return self._decide(Decision(records, Outcome(None)))

    def take_over_share_members(
        self, epochs: dict[GroupId, int], members: tuple[tuple[GroupId, ShareMember], ...]
    ) -> GroupDecision[None]:
        """Those of a log that kept them itself; only the first time, for they do not change."""
        if self._share_members_taken_over or not epochs:
            return _reply(None)
        return self._decide(Decision((ShareMembersTakenOver(epochs, members),), Outcome(None)))

    def refuse_streams(self, group_id: GroupId) -> None:
        """Raise if the group has members that read its topics as streams."""
        if self.has_members(group_id):
            raise GroupModeConflict(
                f"the members of group {group_id!r} read its topics as streams: take another group"
                " to consume them as queues, or stop those members first"
            )

    def _refuse_queue(self, group_id: GroupId) -> None:
        """For who joins to read the group's topics as streams."""
        group = self._context.shares.get(group_id)
        if group is not None and group.members:
            raise GroupModeConflict(
                f"group {group_id!r} consumes its topics as queues, with {len(group.members)}"
                " members: take another group to read them as streams, or stop those members first"
            )

    # --- topics -----------------------------------------------------------------------------------

    def show_topics(self, topics: TopicsView) -> None:
        """The view of a machine that nobody has asked yet."""
        self._context.topics = topics

    def topics_changed(self, now: Timestamp, topics: TopicsView) -> GroupDecision[None]:
        """The view from now on; groups whose topics changed get a new target."""
        self._wake(now)
        self._context.topics = topics
        records: list[GroupRecord] = []
        for group_id, group in self._context.groups.items():
            if isinstance(group, ConsumerGroup) and topics_differ(self._context, group):
                change = PendingChange(self._context, group_id, now)
                retarget(change, "topics changed")
                records.extend(change.records)
        return self._decide(Decision(tuple(records), Outcome(None)))

    def topics_deleted(self, now: Timestamp, names: Iterable[TopicName]) -> GroupDecision[None]:
        """Forget the offsets in these topics.

        Apart from `topics_changed`, so that a view which is merely incomplete loses nothing.
        """
        self._wake(now)
        records = commits.topics_deleted(self._context, frozenset(names))
        return self._decide(Decision(records, Outcome(None)))

    # --- offsets ----------------------------------------------------------------------------------

    def commit(
        self, now: Timestamp, request: CommitRequest
    ) -> GroupDecision[tuple[PartitionResult, ...]]:
        """OffsetCommit and TxnOffsetCommit, fenced by generation or epoch."""
        change = self._begin(now, request.group_id)
        return self._finish(change, commits.commit(change, request))

    def end_transaction(
        self, now: Timestamp, group_id: GroupId, marker: Marker
    ) -> GroupDecision[int]:
        """Commit or drop the offsets that waited for this; gives how many were committed.

        Raises `TransactionCoordinatorFenced` when there was a marker of a newer coordinator: one
        that is late must not end the producer's next transaction.
        """
        newest_epoch = self._coordinator_epochs.get(marker.coordinator, 0)
        marker.check_coordinator(newest_epoch)
        change = self._begin(now, group_id)
        decision = change.decide(commits.end_transaction(change, marker))
        if marker.coordinator_epoch > newest_epoch:
            seen = TransactionCoordinatorSeen(marker.coordinator_epoch, marker.coordinator)
            decision = Decision((*decision.records, seen), decision.reply)
        return self._decide(decision)

    @property
    def pending_offsets(self) -> PendingOffsets:
        """Those that wait for the end of a transaction."""
        return self._context.offsets.pending

    def fetch(self, requests: Sequence[FetchRequest]) -> GroupDecision[tuple[FetchedOffsets, ...]]:
        """OffsetFetch, for several groups; None where nothing is committed."""
        return _reply(commits.fetch(self._context, requests))

    def committed_offsets(self, group_id: GroupId) -> Mapping[TopicPartition, CommittedOffset]:
        """All that the group has committed, as it is now."""
        return self._context.offsets.of(group_id)

    def delete_offsets(
        self, now: Timestamp, group_id: GroupId, partitions: Sequence[TopicPartition]
    ) -> GroupDecision[tuple[PartitionResult, ...]]:
        """OffsetDelete."""
        change = self._begin(now, group_id)
        return self._finish(change, commits.delete(change, partitions))

    # --- administration ---------------------------------------------------------------------------

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> GroupDecision[tuple[GroupListing, ...]]:
        return _reply(descriptions.list_groups(self._context, frozenset(states), frozenset(types)))

    def describe(self, group_id: GroupId) -> GroupDecision[GroupDescription]:
        """DescribeGroups and ConsumerGroupDescribe."""
        return _reply(descriptions.describe(self._context, group_id))

    def has_group(self, group_id: GroupId) -> bool:
        """Whether there is such a group, or offsets of it."""
        return group_id in self._context.groups or bool(self.committed_offsets(group_id))

    def has_members(self, group_id: GroupId) -> bool:
        group = self._context.groups.get(group_id)
        return group is not None and not group.is_empty

    def delete_group(self, now: Timestamp, group_id: GroupId) -> GroupDecision[None]:
        """DeleteGroups: only an empty one, with its offsets."""
        change = self._begin(now, group_id)
        descriptions.delete(change)
        return self._finish(change, None)

    def take_former_settings(self) -> dict[GroupId, GroupSettings]:
        """What the log said of settings, when it kept them; a snapshot has them up to this call."""
        taken, self._former_settings = self._former_settings, {}
        return taken

    @property
    def group_count(self) -> int:
        """Groups that have members or offsets."""
        context = self._context
        return len({*context.groups, *context.shares, *context.offsets.groups()})

    @property
    def statistics(self) -> Statistics:
        """Rebalances by reason, partitions moved, durations; for metrics."""
        return self._context.statistics

    @property
    def parked_count(self) -> int:
        return len(self._context.parked_requests)

    # --- the log ----------------------------------------------------------------------------------

    def apply(self, record: GroupRecord) -> None:
        self._unapplied = max(0, self._unapplied - 1)
        if isinstance(record, OffsetRecord):
            self._context.offsets.apply(record)
            return
        if isinstance(record, GroupConfigured):
            self._former_settings[record.group_id] = record.settings
            return
        if isinstance(record, ShareMembersTakenOver):
            self._take_over_share_members(record)
            return
        if isinstance(record, TransactionCoordinatorSeen):
            self._coordinator_epochs[record.coordinator] = record.epoch
            return
        if isinstance(record, ShareRecord):
            self._apply_share(record)
            return
        if self._walk is not None:
            self._walk.keep(record.group_id)
        before = self._context.groups.get(record.group_id)
        released_before = member_assignment.released_count(before)
        group = step(before, record)
        self._changes.note(record, released_before, group)
        if group is None:
            self._context.groups.pop(record.group_id, None)
        else:
            self._context.groups[record.group_id] = group

    def _apply_share(self, record: ShareRecord) -> None:
        if self._share_walk is not None:
            self._share_walk.keep(record.group_id)
        share.step(self._context.shares, record)

    def _take_over_share_members(self, record: ShareMembersTakenOver) -> None:
        self._share_members_taken_over = True
        for group_id, member in record.members:
            self._apply_share(ShareMemberSaved(group_id, member))
        for group_id, epoch in record.epochs.items():
            self._apply_share(ShareEpochSet(group_id, epoch))

    def snapshot(self) -> Generator[GroupRecord, None, None]:
        """Records that rebuild this state in a new machine."""
        groups, shares = self._context.groups, self._context.shares
        walk = self._walk = Walk(list(groups), lambda group_id: _copy(groups.get(group_id)))
        share_walk = self._share_walk = Walk(
            list(shares), lambda group_id: share.copy_records(shares.get(group_id))
        )
        head: list[GroupRecord] = [
            GroupConfigured(group_id, each) for group_id, each in self._former_settings.items()
        ]
        if self._share_members_taken_over:
            head.append(ShareMembersTakenOver({}, ()))
        for coordinator, epoch in self._coordinator_epochs.items():
            head.append(TransactionCoordinatorSeen(epoch, coordinator))
        return self._snapshot(head, walk, share_walk, self._context.offsets.snapshot())

    def _snapshot(
        self,
        head: list[GroupRecord],
        walk: Walk[GroupId, Iterable[GroupRecord]],
        share_walk: Walk[GroupId, Iterable[GroupRecord]],
        offsets: Iterable[GroupRecord],
    ) -> Generator[GroupRecord, None, None]:
        try:
            yield from head
            for records in itertools.chain(walk, share_walk):
                yield from records
            yield from offsets
        finally:
            if walk is self._walk:
                self._walk = self._share_walk = None
                self._context.offsets.end_snapshot()

    def encode(self, record: GroupRecord) -> bytes:
        return encode(record)

    def decode(self, data: bytes) -> GroupRecord:
        return decode(data)

    # --- time -------------------------------------------------------------------------------------

    def next_deadline(self) -> Timestamp | None:
        context = self._context
        has_state = context.groups or context.shares or any(context.offsets.groups())
        if self._unapplied or self._lost or (has_state and not self._is_awake):
            return ASLEEP
        return context.timers.next_due()

    def on_deadline(self, now: Timestamp) -> GroupDecision[None]:
        """All that is due, group by group: many members that expire together cost one rebalance."""
        self._wake(now)
        due: dict[GroupId, list[Timer]] = {}
        silent: list[Timer] = []
        for timer in self._context.timers.take_due(now):
            if timer.kind is TimerKind.SHARE_SESSION:
                silent.append(timer)
            else:
                due.setdefault(timer.group_id, []).append(timer)
        records: list[GroupRecord] = []
        removed, lost = share_heartbeat.expire(self._context, now, silent)
        records.extend(removed)
        wakeups = [Wakeup(token, RebalanceInProgress("ask again")) for token in self._lost]
        self._lost.clear()
        for group_id, timers in due.items():
            change = PendingChange(self._context, group_id, now)
            deadlines.on_timers(change, timers)
            records.extend(change.records)
            wakeups.extend(change.wakeups)
        outcome = Outcome(None, tuple(wakeups), tuple(lost))
        return self._decide(Decision(tuple(records), outcome))

    def _begin(self, now: Timestamp, group_id: GroupId) -> PendingChange:
        """What every request does first."""
        self._wake(now)
        return PendingChange(self._context, group_id, now)

    def _finish(self, change: PendingChange, reply: ReplyT) -> GroupDecision[ReplyT]:
        return self._decide(change.decide(reply))

    def _decide(self, decision: GroupDecision[ReplyT]) -> GroupDecision[ReplyT]:
        self._unapplied = len(decision.records)
        self._last = decision.reply
        return decision

    def _wake(self, now: Timestamp) -> None:
        """Make memory and log agree: timers start again after a restart or a failed write."""
        if self._unapplied:
            self._discard_unwritten(now)
        if self._is_awake:
            return
        self._is_awake = True
        for group_id in self._context.groups:
            deadlines.restart_timers(PendingChange(self._context, group_id, now))
        for group_id, group in self._context.shares.items():
            for member in group.members.values():
                share_heartbeat.restart_session(self._context, now, group_id, member)
        for group_id in self._context.offsets.groups():
            self._context.check_offsets_later(group_id, now)

    def _discard_unwritten(self, now: Timestamp) -> None:
        """The last decision was not written, but what is in memory only has followed it already.

        So it is built again, as after a restart; parked requests are told to retry.
        """
        tokens = self._context.forget()
        tokens.extend(wakeup.token for wakeup in self._last.wakeups)
        own = self._last.reply.token if isinstance(self._last.reply, Parked) else None
        self._lost.extend(token for token in tokens if token != own)
        self._unapplied = 0
        self._is_awake = False
        for group_id, group in self._context.groups.items():  # the view may be newer than they are
            if isinstance(group, ConsumerGroup) and topics_differ(self._context, group):
                self._context.timers.set(Timer(TimerKind.TARGET, group_id), now)


def _copy(group: Group | None) -> Iterable[GroupRecord]:
    """Its records; they stay as they are, whatever becomes of the group."""
    return () if group is None else group.copy().snapshot()


def _reply(reply: ReplyT) -> GroupDecision[ReplyT]:
    return Decision((), Outcome(reply))
