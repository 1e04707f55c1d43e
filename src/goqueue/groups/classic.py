"""A group whose members divide the partitions themselves (Kafka's classic protocol).

    Empty ──join──▶ PreparingRebalance ──all joined, or time-out──▶ CompletingRebalance
      ▲                ▲      ▲                                        │        │
      │                │      └──────── join, leave, expiry ───────────┘        │ leader syncs
      └─ nobody left ──┤                                                        ▼
                       └───────────── join, leave, expiry, leader rejoins ──  Stable

PreparingRebalance waits until every member has joined again; those that do not are dropped.
CompletingRebalance has a new generation and a leader, and waits for the leader's assignment.
Requests with another generation are refused.  A deleted group does not exist ("Dead" in a
description).

This module is the state alone; `classic_join` and `classic_sync` are what members ask of it.
"""

from collections.abc import Iterator

from goqueue.groups.records import (
    ClassicAssigned,
    ClassicMember,
    ClassicMemberRemoved,
    ClassicMemberReplaced,
    ClassicMemberSaved,
    ClassicPhaseChanged,
    ClassicRecord,
    ClassicState,
    GroupRecord,
)
from goqueue.model.ids import GroupId, Timestamp


class ClassicGroup:
    """Only `apply` changes it."""

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.changed_at = Timestamp(0)  # of the state
        self.members: dict[str, ClassicMember] = {}  # in order of coming
        self.assignments: dict[str, bytes] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self._support: dict[str, int] = {}  # protocol -> members that know it

    def copy(self) -> "ClassicGroup":
        twin = ClassicGroup.__new__(ClassicGroup)
        twin.__dict__.update(self.__dict__)
        twin.members = self.members.copy()
        twin.assignments = self.assignments.copy()
        twin.static = self.static.copy()
        twin._support = self._support.copy()
        return twin

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, names: set[str], *, besides: str | None = None) -> bool:
        """Would a member that knows `names` share a protocol with all others?

        `besides` is a member not to count: the one whose protocols these are to replace.
        """
        others = len(self.members)
        excluded: set[str] = set()
        if besides in self.members:
            others -= 1
            excluded = {protocol.name for protocol in self.members[besides].protocols}
        return others == 0 or any(
            self._support.get(name, 0) - (name in excluded) == others for name in names
        )

    def elect_protocol(self) -> str:
        """The protocol most members prefer, of those all know; ties go to the first one's order."""
        votes = dict.fromkeys(self._shared_protocols(), 0)
        for member in self.members.values():
            votes[next(known.name for known in member.protocols if known.name in votes)] += 1
        return max(votes, key=lambda name: votes[name])

    def _shared_protocols(self) -> list[str]:
        first = next(iter(self.members.values()))
        everyone = len(self.members)
        return [known.name for known in first.protocols if self._support[known.name] == everyone]

    # --- the only writer --------------------------------------------------------------------------

    def apply(self, record: ClassicRecord) -> None:
        match record:
            case ClassicMemberSaved(member=member):
                self._save(member)
            case ClassicMemberReplaced(old_member_id=old_member_id, member=member):
                self._replace(old_member_id, member)
            case ClassicMemberRemoved(member_id=member_id):
                self._remove(member_id)
            case ClassicPhaseChanged():
                self._change_phase(record)
            case ClassicAssigned(assignments=assignments, at=at):
                self.assignments = dict(assignments)
                self.state = ClassicState.STABLE
                self.changed_at = at

    def _save(self, member: ClassicMember) -> None:
        if member.member_id in self.members:
            self._count(self.members[member.member_id], -1)
        self.members[member.member_id] = member
        self._count(member, +1)
        self.protocol_type = member.protocol_type
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def _replace(self, old_member_id: str, member: ClassicMember) -> None:
        assignment = self.assignments.get(old_member_id)
        was_leader = self.leader == old_member_id
        self._remove(old_member_id)
        self._save(member)
        if assignment is not None:
            self.assignments[member.member_id] = assignment
        if was_leader:
            self.leader = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._count(member, -1)
        self.assignments.pop(member_id, None)
        if member.instance_id is not None:
            del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), "")

    def _change_phase(self, record: ClassicPhaseChanged) -> None:
        self.state = record.state
        self.generation = record.generation
        self.protocol_type = record.protocol_type
        self.protocol = record.protocol
        self.leader = record.leader
        self.changed_at = record.at
        if record.state in (ClassicState.EMPTY, ClassicState.COMPLETING):
            self.assignments.clear()

    def _count(self, member: ClassicMember, step: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self._support[name] = self._support.get(name, 0) + step
            if not self._support[name]:
                del self._support[name]

    # --- records ----------------------------------------------------------------------------------

    def phase_record(self, state: ClassicState, now: Timestamp) -> ClassicPhaseChanged:
        """The record that moves to `state` and leaves all else as it is."""
        return ClassicPhaseChanged(
            self.group_id,
            state,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            now,
        )

    def snapshot(self) -> Iterator[GroupRecord]:
        for member in self.members.values():
            yield ClassicMemberSaved(self.group_id, member)
        if self.assignments:
            yield ClassicAssigned(self.group_id, dict(self.assignments), self.changed_at)
        yield self.phase_record(self.state, self.changed_at)
