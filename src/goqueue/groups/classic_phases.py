"""How a classic group goes from phase to phase, and who is woken on the way.

`prepare_rebalance` opens a join phase, `complete_join` ends it with a new generation,
`remove_members` removes members.  Every request and every deadline of the classic protocol is one
of these plus its own checks.
"""

from collections.abc import Iterable

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.context import CoordinatorContext
from goqueue.groups.errors import (
    FencedInstance,
    GroupError,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.parked_requests import ParkedRequest, Waiting
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import (
    ClassicMember,
    ClassicMemberRemoved,
    ClassicPhaseChanged,
    ClassicState,
)
from goqueue.groups.replies import Joined, JoinedMember
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import Timestamp


def prepare_rebalance(
    context: CoordinatorContext, change: PendingChange, now: Timestamp, reason: str
) -> None:
    """Open the join phase, unless it is open; end it at once if everybody is there."""
    group = change.classic
    if group.state is not ClassicState.PREPARING:
        was_empty = group.state is ClassicState.EMPTY
        context.statistics.rebalance_started(change.group_id, reason, now)
        _reject_syncing(context, change, now, RebalanceInProgress("a member came or went"))
        change.write(group.phase_record(ClassicState.PREPARING, now))
        context.timers.clear(Timer(TimerKind.SYNC, change.group_id))
        context.waiters(change.group_id).unsynced.clear()
        _set_join_deadline(context, change, now, was_empty=was_empty)
    complete_if_all_joined(context, change, now)


def _set_join_deadline(
    context: CoordinatorContext, change: PendingChange, now: Timestamp, *, was_empty: bool
) -> None:
    """A group that was empty waits a little, since its members likely start together."""
    waiters = context.waiters(change.group_id)
    timeout_ms = change.classic.rebalance_timeout_ms
    delay_ms = min(context.config.initial_rebalance_delay_ms, timeout_ms) if was_empty else 0
    waiters.newcomers = False
    waiters.delay_ends_at = Timestamp(now + timeout_ms if delay_ms else 0)
    join = Timer(TimerKind.JOIN, change.group_id)
    context.timers.set(join, Timestamp(now + (delay_ms or timeout_ms)))


def on_join_deadline(context: CoordinatorContext, change: PendingChange, now: Timestamp) -> None:
    """Time is up: go on without those that did not come, or grant the initial delay once more."""
    if not is_preparing(change):
        return
    waiters = context.waiters(change.group_id)
    left_ms = waiters.delay_ends_at - now
    if waiters.newcomers and left_ms > 0:
        waiters.newcomers = False
        again_ms = min(context.config.initial_rebalance_delay_ms, left_ms)
        context.timers.set(Timer(TimerKind.JOIN, change.group_id), Timestamp(now + again_ms))
    else:
        waiters.delay_ends_at = Timestamp(0)
        complete_join(context, change, now)


def on_sync_deadline(context: CoordinatorContext, change: PendingChange, now: Timestamp) -> None:
    """Members that joined and never asked for their assignment are dropped."""
    if not isinstance(change.group, ClassicGroup):
        return
    silent = [
        member_id for member_id in change.group.members if _is_silent(context, change, member_id)
    ]
    if silent:
        remove_members(context, change, silent, now, UnknownMember("did not sync in time"))
        prepare_rebalance(context, change, now, "sync timed out")


def _is_silent(context: CoordinatorContext, change: PendingChange, member_id: str) -> bool:
    return member_id in context.waiters(change.group_id).unsynced


def is_preparing(change: PendingChange) -> bool:
    group = change.group
    return isinstance(group, ClassicGroup) and group.state is ClassicState.PREPARING


def complete_if_all_joined(
    context: CoordinatorContext, change: PendingChange, now: Timestamp
) -> None:
    """The initial delay is waited out even when all known members are there."""
    waiters = context.waiters(change.group_id)
    group = change.classic
    all_joined = len(waiters.joining) == len(group.members) and not waiters.pending
    if group.is_empty or (all_joined and not waiters.delay_ends_at):
        complete_join(context, change, now)


def complete_join(context: CoordinatorContext, change: PendingChange, now: Timestamp) -> None:
    """End the join phase: drop who did not come, begin the next generation, let the joiners go."""
    waiters = context.waiters(change.group_id)
    absent = [
        member.member_id
        for member in change.classic.members.values()
        if member.instance_id is None and member.member_id not in waiters.joining
    ]
    remove_members(context, change, absent, now, UnknownMember("did not join in time"))
    group = change.classic
    join = Timer(TimerKind.JOIN, change.group_id)
    if group.is_empty:
        context.timers.clear(join)
        become_empty(context, change, now)
    elif not waiters.joining:  # only static members, all away: give them another round
        context.timers.set(join, Timestamp(now + group.rebalance_timeout_ms))
    else:
        context.timers.clear(join)
        _begin_generation(context, change, now)


def become_empty(context: CoordinatorContext, change: PendingChange, now: Timestamp) -> None:
    group = change.classic
    change.write(
        ClassicPhaseChanged(
            change.group_id,
            ClassicState.EMPTY,
            group.generation + 1,
            group.protocol_type,
            "",
            "",
            now,
        )
    )
    context.waiters(change.group_id).unsynced.clear()
    context.statistics.rebalance_finished(change.group_id, now)
    context.check_offsets_later(change.group_id, now)


def _begin_generation(context: CoordinatorContext, change: PendingChange, now: Timestamp) -> None:
    waiters = context.waiters(change.group_id)
    group = change.classic
    leader = group.leader
    if leader not in waiters.joining:
        leader = next(member_id for member_id in group.members if member_id in waiters.joining)
    change.write(
        ClassicPhaseChanged(
            change.group_id,
            ClassicState.COMPLETING,
            group.generation + 1,
            group.protocol_type,
            group.elect_protocol(),
            leader,
            now,
        )
    )
    group = change.classic
    waiters.unsynced = set(group.members)
    context.timers.set(
        Timer(TimerKind.SYNC, change.group_id), Timestamp(now + group.rebalance_timeout_ms)
    )
    for parked in context.parked_requests.waiting_in(change.group_id, Waiting.JOIN):
        member = group.members[parked.member_id]
        change.wake(context.parked_requests.leave(parked), join_response(group, member))
        context.restart_session(change.group_id, member.member_id, member.session_timeout_ms, now)
    for member in group.members.values():  # static members that are away
        session = Timer(TimerKind.SESSION, change.group_id, member.member_id)
        if session not in context.timers:
            context.restart_session(
                change.group_id, member.member_id, member.session_timeout_ms, now
            )


def join_response(
    group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False
) -> Joined:
    """The answer to a join in the group's present generation."""
    others: tuple[JoinedMember, ...] = ()
    if member.member_id == group.leader:
        others = tuple(
            JoinedMember(other.member_id, other.instance_id, other.metadata(group.protocol))
            for other in group.members.values()
        )
    return Joined(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        members=others,
        skip_assignment=skip_assignment,
    )


def remove_members(
    context: CoordinatorContext,
    change: PendingChange,
    member_ids: Iterable[str],
    now: Timestamp,
    why: GroupError,
) -> None:
    """Take members out and tell their waiting callers why; the caller then opens a rebalance."""
    for member_id in member_ids:
        reject_parked(context, change, member_id, why)
        context.timers.clear(Timer(TimerKind.SESSION, change.group_id, member_id))
        context.waiters(change.group_id).unsynced.discard(member_id)
        change.write(ClassicMemberRemoved(change.group_id, member_id))


def reject_parked(
    context: CoordinatorContext, change: PendingChange, member_id: str, why: GroupError
) -> None:
    """Wake whatever calls of this member are parked."""
    for waiting in Waiting:
        change.wake(
            context.parked_requests.leave(ParkedRequest(change.group_id, member_id, waiting)), why
        )


def _reject_syncing(
    context: CoordinatorContext, change: PendingChange, now: Timestamp, why: GroupError
) -> None:
    for parked in context.parked_requests.waiting_in(change.group_id, Waiting.SYNC):
        change.wake(context.parked_requests.leave(parked), why)
        member = change.classic.members[parked.member_id]
        context.restart_session(change.group_id, member.member_id, member.session_timeout_ms, now)


def rebalance_after_removal(
    context: CoordinatorContext, change: PendingChange, now: Timestamp, reason: str
) -> None:
    """What follows when members went, whatever the phase."""
    group = change.classic
    if group.state is ClassicState.PREPARING:
        complete_if_all_joined(context, change, now)
    elif group.state is not ClassicState.EMPTY:
        prepare_rebalance(context, change, now, reason)


def expire(
    context: CoordinatorContext, change: PendingChange, member_ids: Iterable[str], now: Timestamp
) -> None:
    """Members whose session ended; one whose call is parked is known to be alive."""
    waiters = context.waiters(change.group_id)
    silent = [
        member_id
        for member_id in member_ids
        if member_id in change.classic.members and not waiters.is_waiting(member_id)
    ]
    if silent:
        for _ in silent:
            context.statistics.session_expired(change.group_id)
        remove_members(context, change, silent, now, UnknownMember("session expired"))
        rebalance_after_removal(context, change, now, "session expired")


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> ClassicMember:
    """The member that speaks, or the reason why it is none."""
    if instance_id is not None:
        known = group.static.get(instance_id)
        if known is None:
            raise UnknownMember(f"no instance {instance_id!r} in group {group.group_id!r}")
        if known != member_id:
            raise FencedInstance(f"{known!r} has joined as instance {instance_id!r} since")
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMember(f"no member {member_id!r} in group {group.group_id!r}")
    return member
