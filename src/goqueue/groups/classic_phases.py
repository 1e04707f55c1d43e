"""How a classic group goes from phase to phase, and who is woken on the way.

`prepare` opens a join phase, `complete` ends it with a new generation, `remove` takes members out.
Every verb and every deadline of the classic protocol is one of these plus its own checks.
"""

from collections.abc import Iterable

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.context import Desk
from goqueue.groups.errors import (
    FencedInstance,
    GroupError,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.parked_requests import Place, Waiting
from goqueue.groups.pending_change import Draft
from goqueue.groups.records import (
    ClassicMember,
    ClassicMemberRemoved,
    ClassicPhaseChanged,
    ClassicState,
)
from goqueue.groups.replies import Joined, JoinedMember
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import Timestamp


def prepare(desk: Desk, draft: Draft, now: Timestamp, reason: str) -> None:
    """Open the join phase, unless it is open; end it at once if everybody is there."""
    group = draft.classic
    if group.state is not ClassicState.PREPARING:
        was_empty = group.state is ClassicState.EMPTY
        desk.statistics.rebalance_started(draft.group_id, reason, now)
        _let_syncing_go(desk, draft, now, RebalanceInProgress("a member came or went"))
        draft.write(group.phase(ClassicState.PREPARING, now))
        desk.timers.clear(Timer(TimerKind.SYNC, draft.group_id))
        desk.room(draft.group_id).unsynced.clear()
        _set_join_deadline(desk, draft, now, was_empty=was_empty)
    complete_if_all_joined(desk, draft, now)


def _set_join_deadline(desk: Desk, draft: Draft, now: Timestamp, *, was_empty: bool) -> None:
    """A group that was empty waits a little, since its members likely start together."""
    room = desk.room(draft.group_id)
    timeout_ms = draft.classic.rebalance_timeout_ms
    delay_ms = min(desk.config.initial_rebalance_delay_ms, timeout_ms) if was_empty else 0
    room.newcomers = False
    room.delay_ends_at = Timestamp(now + timeout_ms if delay_ms else 0)
    join = Timer(TimerKind.JOIN, draft.group_id)
    desk.timers.set(join, Timestamp(now + (delay_ms or timeout_ms)))


def on_join_deadline(desk: Desk, draft: Draft, now: Timestamp) -> None:
    """Time is up: go on without those that did not come, or grant the initial delay once more."""
    if not is_preparing(draft):
        return
    room = desk.room(draft.group_id)
    left_ms = room.delay_ends_at - now
    if room.newcomers and left_ms > 0:
        room.newcomers = False
        again_ms = min(desk.config.initial_rebalance_delay_ms, left_ms)
        desk.timers.set(Timer(TimerKind.JOIN, draft.group_id), Timestamp(now + again_ms))
    else:
        room.delay_ends_at = Timestamp(0)
        complete(desk, draft, now)


def on_sync_deadline(desk: Desk, draft: Draft, now: Timestamp) -> None:
    """Members that joined and never asked for their assignment are dropped."""
    if not isinstance(draft.group, ClassicGroup):
        return
    silent = [member_id for member_id in draft.group.members if _is_silent(desk, draft, member_id)]
    if silent:
        remove(desk, draft, silent, now, UnknownMember("did not sync in time"))
        prepare(desk, draft, now, "sync timed out")


def _is_silent(desk: Desk, draft: Draft, member_id: str) -> bool:
    return member_id in desk.room(draft.group_id).unsynced


def is_preparing(draft: Draft) -> bool:
    group = draft.group
    return isinstance(group, ClassicGroup) and group.state is ClassicState.PREPARING


def complete_if_all_joined(desk: Desk, draft: Draft, now: Timestamp) -> None:
    """The initial delay is waited out even when all known members are there."""
    room = desk.room(draft.group_id)
    group = draft.classic
    all_joined = len(room.joining) == len(group.members) and not room.pending
    if group.is_empty or (all_joined and not room.delay_ends_at):
        complete(desk, draft, now)


def complete(desk: Desk, draft: Draft, now: Timestamp) -> None:
    """End the join phase: drop who did not come, begin the next generation, let the joiners go."""
    room = desk.room(draft.group_id)
    absent = [
        member.member_id
        for member in draft.classic.members.values()
        if member.instance_id is None and member.member_id not in room.joining
    ]
    remove(desk, draft, absent, now, UnknownMember("did not join in time"))
    group = draft.classic
    join = Timer(TimerKind.JOIN, draft.group_id)
    if group.is_empty:
        desk.timers.clear(join)
        become_empty(desk, draft, now)
    elif not room.joining:  # only static members, all away: give them another round
        desk.timers.set(join, Timestamp(now + group.rebalance_timeout_ms))
    else:
        desk.timers.clear(join)
        _begin_generation(desk, draft, now)


def become_empty(desk: Desk, draft: Draft, now: Timestamp) -> None:
    group = draft.classic
    draft.write(
        ClassicPhaseChanged(
            draft.group_id,
            ClassicState.EMPTY,
            group.generation + 1,
            group.protocol_type,
            "",
            "",
            now,
        )
    )
    desk.room(draft.group_id).unsynced.clear()
    desk.statistics.rebalance_finished(draft.group_id, now)
    desk.check_offsets_later(draft.group_id, now)


def _begin_generation(desk: Desk, draft: Draft, now: Timestamp) -> None:
    room = desk.room(draft.group_id)
    group = draft.classic
    leader = group.leader
    if leader not in room.joining:
        leader = next(member_id for member_id in group.members if member_id in room.joining)
    draft.write(
        ClassicPhaseChanged(
            draft.group_id,
            ClassicState.COMPLETING,
            group.generation + 1,
            group.protocol_type,
            group.elect_protocol(),
            leader,
            now,
        )
    )
    group = draft.classic
    room.unsynced = set(group.members)
    desk.timers.set(
        Timer(TimerKind.SYNC, draft.group_id), Timestamp(now + group.rebalance_timeout_ms)
    )
    for place in desk.lobby.waiting_in(draft.group_id, Waiting.JOIN):
        member = group.members[place.member_id]
        draft.wake(desk.lobby.leave(place), joined(group, member))
        desk.touch(draft.group_id, member.member_id, member.session_timeout_ms, now)
    for member in group.members.values():  # static members that are away
        session = Timer(TimerKind.SESSION, draft.group_id, member.member_id)
        if session not in desk.timers:
            desk.touch(draft.group_id, member.member_id, member.session_timeout_ms, now)


def joined(group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False) -> Joined:
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


def remove(
    desk: Desk, draft: Draft, member_ids: Iterable[str], now: Timestamp, why: GroupError
) -> None:
    """Take members out and tell their waiting callers why; the caller then opens a rebalance."""
    for member_id in member_ids:
        dismiss(desk, draft, member_id, why)
        desk.timers.clear(Timer(TimerKind.SESSION, draft.group_id, member_id))
        desk.room(draft.group_id).unsynced.discard(member_id)
        draft.write(ClassicMemberRemoved(draft.group_id, member_id))


def dismiss(desk: Desk, draft: Draft, member_id: str, why: GroupError) -> None:
    """Wake whatever calls of this member are parked."""
    for waiting in Waiting:
        draft.wake(desk.lobby.leave(Place(draft.group_id, member_id, waiting)), why)


def _let_syncing_go(desk: Desk, draft: Draft, now: Timestamp, why: GroupError) -> None:
    for place in desk.lobby.waiting_in(draft.group_id, Waiting.SYNC):
        draft.wake(desk.lobby.leave(place), why)
        member = draft.classic.members[place.member_id]
        desk.touch(draft.group_id, member.member_id, member.session_timeout_ms, now)


def rebalance_after_removal(desk: Desk, draft: Draft, now: Timestamp, reason: str) -> None:
    """What follows when members went, whatever the phase."""
    group = draft.classic
    if group.state is ClassicState.PREPARING:
        complete_if_all_joined(desk, draft, now)
    elif group.state is not ClassicState.EMPTY:
        prepare(desk, draft, now, reason)


def expire(desk: Desk, draft: Draft, member_ids: Iterable[str], now: Timestamp) -> None:
    """Members whose session ended; one whose call is parked is known to be alive."""
    room = desk.room(draft.group_id)
    silent = [
        member_id
        for member_id in member_ids
        if member_id in draft.classic.members and not room.is_waiting(member_id)
    ]
    if silent:
        for _ in silent:
            desk.statistics.session_expired(draft.group_id)
        remove(desk, draft, silent, now, UnknownMember("session expired"))
        rebalance_after_removal(desk, draft, now, "session expired")


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
