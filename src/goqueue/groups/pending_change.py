"""A decision in the making, about one group.

A request often needs to know what the group will look like after the records it is about to write:
"if this member was the last to join, then…".  A pending change applies them to a copy, with the
very code that will apply them for good.  The copy is made at the first write, so a heartbeat that
changes nothing costs nothing.

It also has the time of the request and the timers, parked requests and counters of its group, so
that every step of every protocol takes one argument, the change.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.context import CoordinatorContext, Group
from goqueue.groups.errors import GroupError
from goqueue.groups.parked_requests import GroupWaiters, ParkedRequest, Waiting
from goqueue.groups.records import (
    ClassicRecord,
    ConsumerRecord,
    GroupDeleted,
    GroupRecord,
    OffsetRecord,
)
from goqueue.groups.replies import GroupDecision, Outcome, Parked, WakeReply, Wakeup
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import GroupId, Timestamp
from goqueue.model.machine import Decision

ReplyT = TypeVar("ReplyT")
StateRecord = ClassicRecord | ConsumerRecord | GroupDeleted


def step(group: Group | None, record: StateRecord) -> Group | None:
    """The group after `record`: changed in place, made, or gone."""
    if isinstance(record, GroupDeleted):
        return None
    if isinstance(record, ClassicRecord):
        classic = ClassicGroup(record.group_id) if group is None else group
        assert isinstance(classic, ClassicGroup), f"{record} for a consumer group"
        classic.apply(record)
        return classic
    consumer = ConsumerGroup(record.group_id) if group is None else group
    assert isinstance(consumer, ConsumerGroup), f"{record} for a classic group"
    consumer.apply(record)
    return consumer


class PendingChange:
    def __init__(self, context: CoordinatorContext, group_id: GroupId, now: Timestamp) -> None:
        self.context = context
        self.group_id = group_id
        self.now = now
        self.group = context.groups.get(group_id)
        self._is_copy = False
        self._records: list[GroupRecord] = []
        self._wakeups: list[Wakeup] = []

    @property
    def classic(self) -> ClassicGroup:
        assert isinstance(self.group, ClassicGroup)
        return self.group

    @property
    def consumer(self) -> ConsumerGroup:
        assert isinstance(self.group, ConsumerGroup)
        return self.group

    # --- what is decided --------------------------------------------------------------------------

    def write(self, record: StateRecord | OffsetRecord) -> None:
        self._records.append(record)
        if isinstance(record, OffsetRecord):
            return
        if not self._is_copy:
            self.group = self.group.copy() if self.group is not None else None
            self._is_copy = True
        self.group = step(self.group, record)

    @property
    def records(self) -> Sequence[GroupRecord]:
        return self._records

    @property
    def wakeups(self) -> Sequence[Wakeup]:
        return self._wakeups

    def decide(self, reply: ReplyT) -> GroupDecision[ReplyT]:
        return Decision(tuple(self._records), Outcome(reply, tuple(self._wakeups)))

    # --- parked requests --------------------------------------------------------------------------

    @property
    def waiters(self) -> GroupWaiters:
        return self.context.parked_requests.waiters(self.group_id)

    def peek_waiters(self) -> GroupWaiters:
        """To read only: a question about a group that does not exist must not cost memory."""
        return self.context.parked_requests.peek_waiters(self.group_id)

    def list_parked(self, waiting: Waiting) -> Iterator[ParkedRequest]:
        return self.context.parked_requests.waiting_in(self.group_id, waiting)

    def park(self, member_id: str, waiting: Waiting) -> Parked:
        """Let the member's request wait; its session does not run meanwhile."""
        self.clear_timer(TimerKind.SESSION, member_id)
        request = ParkedRequest(self.group_id, member_id, waiting)
        return Parked(self.context.parked_requests.park(request))

    def answer(self, parked: ParkedRequest, reply: WakeReply) -> None:
        """End the wait of this request, if there is such a one."""
        token = self.context.parked_requests.leave(parked)
        if token is not None:
            self._wakeups.append(Wakeup(token, reply))

    def reject_parked(self, member_id: str, why: GroupError) -> None:
        """End the waits of all requests of this member."""
        for waiting in Waiting:
            self.answer(ParkedRequest(self.group_id, member_id, waiting), why)

    # --- time -------------------------------------------------------------------------------------

    def set_timer(self, kind: TimerKind, delay_ms: int, member_id: str = "") -> None:
        timer = Timer(kind, self.group_id, member_id)
        self.context.timers.set(timer, Timestamp(self.now + delay_ms))

    def clear_timer(self, kind: TimerKind, member_id: str = "") -> None:
        self.context.timers.clear(Timer(kind, self.group_id, member_id))

    def has_timer(self, kind: TimerKind, member_id: str = "") -> bool:
        return Timer(kind, self.group_id, member_id) in self.context.timers

    def restart_session(self, member_id: str, timeout_ms: int) -> None:
        self.set_timer(TimerKind.SESSION, timeout_ms, member_id)

    def check_offsets_later(self) -> None:
        self.context.check_offsets_later(self.group_id, self.now)

    # --- statistics -------------------------------------------------------------------------------

    def note_rebalance_started(self, reason: str) -> None:
        self.context.statistics.start_rebalance(self.group_id, reason, self.now)

    def note_rebalance_finished(self) -> None:
        self.context.statistics.finish_rebalance(self.group_id, self.now)
