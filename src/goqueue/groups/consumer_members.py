"""What happens to members of a consumer group, whichever protocol they speak."""

from collections.abc import Iterable

import msgspec

from goqueue.groups.consumer import JOIN_EPOCH, ConsumerGroup, Current
from goqueue.groups.context import CoordinatorContext
from goqueue.groups.conversion import make_classic
from goqueue.groups.errors import FencedInstance, GroupMaxSizeReached, UnknownMember
from goqueue.groups.partition_sets import NO_PARTITIONS
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import (
    ConsumerMember,
    ConsumerMemberRemoved,
    ConsumerMemberSaved,
    MemberState,
)
from goqueue.groups.targets import retarget
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import Timestamp


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that speaks, or the reason why it is none."""
    if instance_id is not None:
        holder = group.static.get(instance_id)
        if holder is None:
            raise UnknownMember(f"no instance {instance_id!r} in group {group.group_id!r}")
        if holder != member_id:
            raise FencedInstance(f"{holder!r} has joined as instance {instance_id!r} since")
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMember(f"no member {member_id!r} in group {group.group_id!r}")
    return member


def check_size(context: CoordinatorContext, change: PendingChange) -> None:
    size = 0 if change.group is None else len(change.consumer.members)
    if size >= context.config.members_max:
        raise GroupMaxSizeReached(f"{size} members, {context.config.members_max} allowed")


def restart_session(
    context: CoordinatorContext, group: ConsumerGroup, member_id: str, now: Timestamp
) -> None:
    member = group.members[member_id]
    traits = member.classic or member.reader
    if traits is not None:
        timeout_ms = traits.session_timeout_ms
    else:
        timeout_ms = context.settings_of(group.group_id).session_ms(context.config)
    context.restart_session(group.group_id, member_id, timeout_ms, now)


def move_member(
    context: CoordinatorContext,
    change: PendingChange,
    now: Timestamp,
    member_id: str,
    after: Current,
) -> None:
    """Write the member's step; a member that has to give up partitions gets a deadline for it."""
    group = change.consumer
    before = group.current[member_id]
    change.write(group.move_record(member_id, after))
    context.statistics.moved(
        change.group_id,
        assigned=len(after.assigned - before.owned),
        revoked=len(before.owned - after.owned),
    )
    revocation = Timer(TimerKind.REVOCATION, change.group_id, member_id)
    if after.state is not MemberState.REVOKING:
        context.timers.clear(revocation)
    elif after.revoking != before.revoking:
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        context.timers.set(revocation, Timestamp(now + timeout_ms))


def replace_static_member(
    context: CoordinatorContext,
    change: PendingChange,
    now: Timestamp,
    old_member_id: str,
    new_member_id: str,
) -> None:
    """The new process of a static member takes over subscription, target and partitions."""
    group = change.consumer
    member = msgspec.structs.replace(group.members[old_member_id], member_id=new_member_id)
    target = group.targets.get(old_member_id, NO_PARTITIONS)
    assigned = group.current[old_member_id].assigned
    forget_timers(context, change, old_member_id)
    change.write(ConsumerMemberRemoved(change.group_id, old_member_id))
    change.write(ConsumerMemberSaved(change.group_id, member))
    group = change.consumer
    change.write(group.target_record(group.target_epoch, group.assignor, {new_member_id: target}))
    seat = Current(JOIN_EPOCH, JOIN_EPOCH, MemberState.STABLE, assigned)
    change.write(change.consumer.move_record(new_member_id, seat))


def forget_timers(context: CoordinatorContext, change: PendingChange, member_id: str) -> None:
    for kind in (TimerKind.SESSION, TimerKind.REVOCATION):
        context.timers.clear(Timer(kind, change.group_id, member_id))


def remove_members(
    context: CoordinatorContext,
    change: PendingChange,
    member_ids: Iterable[str],
    now: Timestamp,
    reason: str,
) -> None:
    """Take members out; what they owned is free from here on.

    If only classic members are left, the group becomes classic again.
    """
    for member_id in member_ids:
        forget_timers(context, change, member_id)
        released = len(change.consumer.current[member_id].owned)
        context.statistics.moved(change.group_id, assigned=0, revoked=released)
        change.write(ConsumerMemberRemoved(change.group_id, member_id))
    group = change.consumer
    if group.members and group.classic_count == len(group.members):
        make_classic(context, change, now)
    else:
        retarget(context, change, now, reason)
