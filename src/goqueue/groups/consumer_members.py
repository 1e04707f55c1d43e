"""What happens to members of a consumer group, whichever protocol they speak."""

from collections.abc import Iterable

import msgspec

from goqueue.groups.consumer import JOIN_EPOCH, ConsumerGroup, Current
from goqueue.groups.context import Desk
from goqueue.groups.conversion import make_classic
from goqueue.groups.errors import FencedInstance, GroupMaxSizeReached, UnknownMember
from goqueue.groups.partition_sets import NO_PARTITIONS
from goqueue.groups.pending_change import Draft
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


def check_size(desk: Desk, draft: Draft) -> None:
    size = 0 if draft.group is None else len(draft.consumer.members)
    if size >= desk.config.members_max:
        raise GroupMaxSizeReached(f"{size} members, {desk.config.members_max} allowed")


def touch(desk: Desk, group: ConsumerGroup, member_id: str, now: Timestamp) -> None:
    member = group.members[member_id]
    traits = member.classic or member.reader
    if traits is not None:
        timeout_ms = traits.session_timeout_ms
    else:
        timeout_ms = desk.settings_of(group.group_id).session_ms(desk.config)
    desk.touch(group.group_id, member_id, timeout_ms, now)


def move(desk: Desk, draft: Draft, now: Timestamp, member_id: str, after: Current) -> None:
    """Write the member's step; a member that has to give up partitions gets a deadline for it."""
    group = draft.consumer
    before = group.current[member_id]
    draft.write(group.moved(member_id, after))
    desk.statistics.moved(
        draft.group_id,
        assigned=len(after.assigned - before.owned),
        revoked=len(before.owned - after.owned),
    )
    revocation = Timer(TimerKind.REVOCATION, draft.group_id, member_id)
    if after.state is not MemberState.REVOKING:
        desk.timers.clear(revocation)
    elif after.revoking != before.revoking:
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        desk.timers.set(revocation, Timestamp(now + timeout_ms))


def replace_static(
    desk: Desk, draft: Draft, now: Timestamp, old_member_id: str, new_member_id: str
) -> None:
    """A static member's next process takes its seat: wishes, target and partitions, at epoch 0."""
    group = draft.consumer
    member = msgspec.structs.replace(group.members[old_member_id], member_id=new_member_id)
    target = group.targets.get(old_member_id, NO_PARTITIONS)
    assigned = group.current[old_member_id].assigned
    forget_timers(desk, draft, old_member_id)
    draft.write(ConsumerMemberRemoved(draft.group_id, old_member_id))
    draft.write(ConsumerMemberSaved(draft.group_id, member))
    group = draft.consumer
    draft.write(group.target_set(group.target_epoch, group.assignor, {new_member_id: target}))
    seat = Current(JOIN_EPOCH, JOIN_EPOCH, MemberState.STABLE, assigned)
    draft.write(draft.consumer.moved(new_member_id, seat))


def forget_timers(desk: Desk, draft: Draft, member_id: str) -> None:
    for kind in (TimerKind.SESSION, TimerKind.REVOCATION):
        desk.timers.clear(Timer(kind, draft.group_id, member_id))


def expel(desk: Desk, draft: Draft, member_ids: Iterable[str], now: Timestamp, reason: str) -> None:
    """Take members out; what they owned is free from here on.

    If only classic members are left, the group becomes classic again.
    """
    for member_id in member_ids:
        forget_timers(desk, draft, member_id)
        released = len(draft.consumer.current[member_id].owned)
        desk.statistics.moved(draft.group_id, assigned=0, revoked=released)
        draft.write(ConsumerMemberRemoved(draft.group_id, member_id))
    group = draft.consumer
    if group.members and group.classic_count == len(group.members):
        make_classic(desk, draft, now)
    else:
        retarget(desk, draft, now, reason)
