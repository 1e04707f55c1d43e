"""A decision in the making, about one group.

A verb often needs to know what the group will look like after the records it is about to write:
"if this member was the last to join, then…".  A pending change applies them to a copy, with the
very code that will apply them for good.  The copy is made at the first write, so a heartbeat that
changes nothing costs nothing.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.records import (
    ClassicRecord,
    ConsumerRecord,
    GroupDeleted,
    GroupRecord,
)
from goqueue.groups.replies import GroupDecision, Outcome, Token, WakeReply, Wakeup
from goqueue.model.ids import GroupId
from goqueue.model.machine import Decision

ReplyT = TypeVar("ReplyT")
Group = ClassicGroup | ConsumerGroup
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
    def __init__(self, groups: Mapping[GroupId, Group], group_id: GroupId) -> None:
        self.group_id = group_id
        self.group = groups.get(group_id)
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

    def write(self, record: StateRecord) -> None:
        if not self._is_copy:
            self.group = self.group.copy() if self.group is not None else None
            self._is_copy = True
        self.group = step(self.group, record)
        self._records.append(record)

    def wake(self, token: Token | None, reply: WakeReply) -> None:
        if token is not None:
            self._wakeups.append(Wakeup(token, reply))

    @property
    def records(self) -> Sequence[GroupRecord]:
        return self._records

    @property
    def wakeups(self) -> Sequence[Wakeup]:
        return self._wakeups

    def decide(self, reply: ReplyT) -> GroupDecision[ReplyT]:
        return Decision(tuple(self._records), Outcome(reply, tuple(self._wakeups)))
