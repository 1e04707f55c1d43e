"""The phases of a classic group, and the parked requests that end with them.

`prepare_rebalance` opens a join phase, `complete_join` ends it with a new generation,
`remove_members` removes members.  Every request and every deadline of the classic protocol is one
of these plus its own checks.
"""

from collections.abc import Iterable

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.errors import (
    FencedInstance,
    GroupError,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.parked_requests import Waiting
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import (
    ClassicMember,
    ClassicMemberRemoved,
    ClassicPhaseChanged,
    ClassicState,
)
from goqueue.groups.replies import Joined, JoinedMember
from goqueue.groups.timers import TimerKind
from goqueue.model.ids import Timestamp


def prepare_rebalance(change: PendingChange, reason: str) -> None:
    """Open the join phase, unless it is open; end it at once if all members have joined."""
    group = change.classic
    if group.state is not ClassicState.PREPARING:
        was_empty = group.state is ClassicState.EMPTY
        change.note_rebalance_started(reason)
        _reject_syncing(change, RebalanceInProgress("a member came or went"))
        change.write(group.phase_record(ClassicState.PREPARING, change.now))
        change.clear_timer(TimerKind.SYNC)
        change.waiters.unsynced.clear()
        _set_join_deadline(change, was_empty=was_empty)
    complete_if_all_joined(change)


def _set_join_deadline(change: PendingChange, *, was_empty: bool) -> None:
    """A group that was empty waits a little, since its members likely start together."""
    waiters = change.waiters
    timeout_ms = change.classic.rebalance_timeout_ms
    delay_ms = min(_initial_delay_ms(change), timeout_ms) if was_empty else 0
    waiters.newcomers = False
    waiters.delay_ends_at = Timestamp(change.now + timeout_ms if delay_ms else 0)
    change.set_timer(TimerKind.JOIN, delay_ms or timeout_ms)


def _initial_delay_ms(change: PendingChange) -> int:
    return change.context.config.initial_rebalance_delay_ms


def on_join_deadline(change: PendingChange) -> None:
    """End the join phase without the missing members, or prolong the initial delay."""
    if not is_preparing(change):
        return
    waiters = change.waiters
    left_ms = waiters.delay_ends_at - change.now
    if waiters.newcomers and left_ms > 0:
        waiters.newcomers = False
        change.set_timer(TimerKind.JOIN, min(_initial_delay_ms(change), left_ms))
    else:
        waiters.delay_ends_at = Timestamp(0)
        complete_join(change)


def on_sync_deadline(change: PendingChange) -> None:
    """Remove members that joined and sent no SyncGroup."""
    if not isinstance(change.group, ClassicGroup):
        return
    silent = [member_id for member_id in change.group.members if _is_silent(change, member_id)]
    if silent:
        remove_members(change, silent, UnknownMember("did not sync in time"))
        prepare_rebalance(change, "sync timed out")


def _is_silent(change: PendingChange, member_id: str) -> bool:
    return member_id in change.waiters.unsynced


def is_preparing(change: PendingChange) -> bool:
    group = change.group
    return isinstance(group, ClassicGroup) and group.state is ClassicState.PREPARING


def complete_if_all_joined(change: PendingChange) -> None:
    """The initial delay is waited for even when all known members have joined."""
    waiters = change.waiters
    group = change.classic
    all_joined = len(waiters.joining) == len(group.members) and not waiters.pending
    if group.is_empty or (all_joined and not waiters.delay_ends_at):
        complete_join(change)


def complete_join(change: PendingChange) -> None:
    """End the join phase: remove missing members, begin a generation, answer the requests."""
    waiters = change.waiters
    absent = [
        member.member_id
        for member in change.classic.members.values()
        if member.instance_id is None and member.member_id not in waiters.joining
    ]
    remove_members(change, absent, UnknownMember("did not join in time"))
    group = change.classic
    if group.is_empty:
        change.clear_timer(TimerKind.JOIN)
        become_empty(change)
    elif not waiters.joining:  # only static members, all away: give them another round
        change.set_timer(TimerKind.JOIN, group.rebalance_timeout_ms)
    else:
        change.clear_timer(TimerKind.JOIN)
        _begin_generation(change)


def become_empty(change: PendingChange) -> None:
    group = change.classic
    change.write(
        ClassicPhaseChanged(
            change.group_id,
            ClassicState.EMPTY,
            group.generation + 1,
            group.protocol_type,
            "",
            "",
            change.now,
        )
    )
    change.waiters.unsynced.clear()
    change.note_rebalance_finished()
    change.check_offsets_later()


def _begin_generation(change: PendingChange) -> None:
    waiters = change.waiters
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
            change.now,
        )
    )
    group = change.classic
    waiters.unsynced = set(group.members)
    change.set_timer(TimerKind.SYNC, group.rebalance_timeout_ms)
    for parked in change.list_parked(Waiting.JOIN):
        member = group.members[parked.member_id]
        change.answer(parked, join_response(group, member))
        change.restart_session(member.member_id, member.session_timeout_ms)
    for member in group.members.values():  # static members that are away
        if not change.has_timer(TimerKind.SESSION, member.member_id):
            change.restart_session(member.member_id, member.session_timeout_ms)


def join_response(
    group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False
) -> Joined:
    """The response to a join in the group's present generation."""
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


def remove_members(change: PendingChange, member_ids: Iterable[str], why: GroupError) -> None:
    """Remove members and reject their parked requests; the caller then opens a rebalance."""
    for member_id in member_ids:
        change.reject_parked(member_id, why)
        change.clear_timer(TimerKind.SESSION, member_id)
        change.waiters.unsynced.discard(member_id)
        change.write(ClassicMemberRemoved(change.group_id, member_id))


def _reject_syncing(change: PendingChange, why: GroupError) -> None:
    for parked in change.list_parked(Waiting.SYNC):
        change.answer(parked, why)
        member = change.classic.members[parked.member_id]
        change.restart_session(member.member_id, member.session_timeout_ms)


def rebalance_after_removal(change: PendingChange, reason: str) -> None:
    """Go on after members were removed, whatever the phase."""
    group = change.classic
    if group.state is ClassicState.PREPARING:
        complete_if_all_joined(change)
    elif group.state is not ClassicState.EMPTY:
        prepare_rebalance(change, reason)


def expire(change: PendingChange, member_ids: Iterable[str]) -> None:
    """Remove members whose session expired; one with a parked request is alive."""
    waiters = change.waiters
    silent = [
        member_id
        for member_id in member_ids
        if member_id in change.classic.members and not waiters.is_waiting(member_id)
    ]
    if silent:
        for _ in silent:
            change.context.statistics.count_expired_session(change.group_id)
        remove_members(change, silent, UnknownMember("session expired"))
        rebalance_after_removal(change, "session expired")


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> ClassicMember:
    """The member that sent the request; raises if there is none."""
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
