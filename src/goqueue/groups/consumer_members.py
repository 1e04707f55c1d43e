"""Changes of members of a consumer group, of either protocol."""

from collections.abc import Iterable

import msgspec

from goqueue.groups.consumer import JOIN_EPOCH, ConsumerGroup, Current
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
from goqueue.groups.timers import TimerKind


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that sent the request; raises if there is none."""
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


def check_size(change: PendingChange) -> None:
    size = 0 if change.group is None else len(change.group.members)
    most = change.context.config.members_max
    if size >= most:
        raise GroupMaxSizeReached(f"{size} members, {most} allowed")


def restart_session(change: PendingChange, member_id: str) -> None:
    member = change.consumer.members[member_id]
    traits = member.classic or member.reader
    if traits is not None:
        timeout_ms = traits.session_timeout_ms
    else:
        context = change.context
        timeout_ms = context.settings_of(change.group_id).session_ms(context.config)
    change.restart_session(member_id, timeout_ms)


def move_member(
    change: PendingChange,
    member_id: str,
    after: Current,
) -> None:
    """Write the member's step; a member that has to give up partitions gets a deadline for it."""
    group = change.consumer
    before = group.current[member_id]
    change.write(group.move_record(member_id, after))
    change.context.statistics.count_moved(
        change.group_id,
        assigned=len(after.assigned - before.owned),
        revoked=len(before.owned - after.owned),
    )
    if after.state is not MemberState.REVOKING:
        change.clear_timer(TimerKind.REVOCATION, member_id)
    elif after.revoking != before.revoking:
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        change.set_timer(TimerKind.REVOCATION, timeout_ms, member_id)


def replace_static_member(
    change: PendingChange,
    old_member_id: str,
    new_member_id: str,
) -> None:
    """The new process of a static member takes over subscription, target and partitions."""
    group = change.consumer
    member = msgspec.structs.replace(group.members[old_member_id], member_id=new_member_id)
    target = group.targets.get(old_member_id, NO_PARTITIONS)
    assigned = group.current[old_member_id].assigned
    forget_timers(change, old_member_id)
    change.write(ConsumerMemberRemoved(change.group_id, old_member_id))
    change.write(ConsumerMemberSaved(change.group_id, member))
    group = change.consumer
    change.write(group.target_record(group.target_epoch, group.assignor, {new_member_id: target}))
    seat = Current(JOIN_EPOCH, JOIN_EPOCH, MemberState.STABLE, assigned)
    change.write(change.consumer.move_record(new_member_id, seat))


def forget_timers(change: PendingChange, member_id: str) -> None:
    for kind in (TimerKind.SESSION, TimerKind.REVOCATION):
        change.clear_timer(kind, member_id)


def remove_members(change: PendingChange, member_ids: Iterable[str], reason: str) -> None:
    """Remove members; their partitions are free from here on.

    If only classic members are left, the group becomes classic again.
    """
    for member_id in member_ids:
        forget_timers(change, member_id)
        released = len(change.consumer.current[member_id].owned)
        change.context.statistics.count_moved(change.group_id, assigned=0, revoked=released)
        change.write(ConsumerMemberRemoved(change.group_id, member_id))
    group = change.consumer
    if group.members and group.classic_count == len(group.members):
        make_classic(change)
    else:
        retarget(change, reason)
