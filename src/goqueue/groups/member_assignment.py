"""The assignment of one member of a consumer group, and which members need reconciliation.

For a broker that reads on behalf of members (see `goqueue.broker.groups.http_members`): it
reconciles them as a client of the consumer protocol does, and need not wait for a heartbeat
interval.
"""

import msgspec

from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.context import CoordinatorContext, Group
from goqueue.groups.errors import UnknownMember
from goqueue.groups.partition_sets import PartitionSet
from goqueue.groups.reconcile import must_rejoin
from goqueue.groups.records import ConsumerMember, GroupDeleted, GroupRecord, MemberState, TargetSet
from goqueue.model.ids import GroupId


class MemberAssignment(msgspec.Struct, frozen=True):
    member: ConsumerMember
    epoch: int
    previous_epoch: int
    target_epoch: int
    state: MemberState
    assigned: PartitionSet
    revoking: PartitionSet


def find_assignment(
    context: CoordinatorContext, group_id: GroupId, member_id: str
) -> MemberAssignment:
    group = context.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or member_id not in group.members:
        raise UnknownMember(f"no member {member_id!r} in group {group_id!r}: join again")
    current = group.current[member_id]
    return MemberAssignment(
        group.members[member_id],
        current.epoch,
        current.previous_epoch,
        group.target_epoch,
        current.state,
        current.assigned,
        current.revoking,
    )


def static_member(
    context: CoordinatorContext, group_id: GroupId, instance_id: str
) -> ConsumerMember | None:
    """The member that has this instance id."""
    group = context.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return None
    member_id = group.static.get(instance_id)
    return None if member_id is None else group.members[member_id]


def needs_reconciliation(context: CoordinatorContext, group_id: GroupId, member_id: str) -> bool:
    """Would a heartbeat that reports nothing change the assignment, or be refused?"""
    group = context.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or member_id not in group.members:
        return True
    if group.current[member_id].state is MemberState.REVOKING:
        return False
    return must_rejoin(group, member_id)


class Changes(msgspec.Struct):
    """What happened to consumer groups since somebody last asked; kept in memory only."""

    retargeted: set[GroupId] = msgspec.field(default_factory=set)
    """Every member needs reconciliation."""
    released: set[GroupId] = msgspec.field(default_factory=set)
    """Members that wait for a partition may find it free."""

    def __bool__(self) -> bool:
        return bool(self.retargeted or self.released)

    def note(self, record: GroupRecord, released_before: int, group: Group | None) -> None:
        """`record` was applied, and `group` is what it made."""
        if isinstance(record, TargetSet | GroupDeleted):
            self.retargeted.add(record.group_id)
        elif isinstance(group, ConsumerGroup) and group.released_count != released_before:
            self.released.add(group.group_id)


def released_count(group: Group | None) -> int:
    return group.released_count if isinstance(group, ConsumerGroup) else 0
