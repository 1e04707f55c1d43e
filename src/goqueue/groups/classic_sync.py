"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol."""

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.classic_phases import (
    check_member,
    is_preparing,
    rebalance_after_removal,
    remove,
)
from goqueue.groups.context import Desk
from goqueue.groups.errors import (
    FencedInstance,
    GroupError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.parked_requests import Place, Waiting
from goqueue.groups.pending_change import Draft
from goqueue.groups.records import ClassicAssigned, ClassicMember, ClassicState
from goqueue.groups.replies import Left, Parked, Synced
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import GroupId, Timestamp


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None  # None: the client is too old to say
    protocol: str | None = None
    assignments: Mapping[str, bytes] = msgspec.field(default_factory=dict)  # from the leader


class MemberIdentity(msgspec.Struct, frozen=True):
    """Who leaves: by member id, or by instance id (an administrator knows only that)."""

    member_id: str = ""
    instance_id: str | None = None


def sync(desk: Desk, draft: Draft, now: Timestamp, request: SyncRequest) -> Synced | Parked:
    group = draft.classic
    member = check_speaker(group, request.member_id, request.instance_id, request.generation)
    _check_protocol(group, request)
    desk.check_member_bytes(max(map(len, request.assignments.values()), default=0))
    match group.state:
        case ClassicState.COMPLETING:
            return _sync_completing(desk, draft, now, request)
        case ClassicState.STABLE:
            desk.room(draft.group_id).unsynced.discard(member.member_id)
            desk.touch(draft.group_id, member.member_id, member.session_timeout_ms, now)
            return _synced(group, member.member_id)
        case ClassicState.PREPARING:
            raise RebalanceInProgress("the group waits for its members to join again")
        case ClassicState.EMPTY:
            raise UnknownMember(f"group {draft.group_id!r} is empty")


def _check_protocol(group: ClassicGroup, request: SyncRequest) -> None:
    for said, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol, group.protocol),
    ):
        if said is not None and said != known:
            raise InconsistentGroupProtocol(f"{said!r} in a group that uses {known!r}")


def _sync_completing(
    desk: Desk, draft: Draft, now: Timestamp, request: SyncRequest
) -> Synced | Parked:
    group = draft.classic
    member_id = request.member_id
    desk.room(draft.group_id).unsynced.discard(member_id)
    if member_id != group.leader:
        place = Place(draft.group_id, member_id, Waiting.SYNC)
        draft.wake(desk.lobby.leave(place), RebalanceInProgress("asked again"))
        return desk.park(draft.group_id, member_id, Waiting.SYNC)
    given = {known: request.assignments.get(known, b"") for known in group.members}
    draft.write(ClassicAssigned(draft.group_id, given, now))
    group = draft.classic
    for place in desk.lobby.waiting_in(draft.group_id, Waiting.SYNC):
        draft.wake(desk.lobby.leave(place), _synced(group, place.member_id))
        _touch(desk, group.members[place.member_id], draft.group_id, now)
    _touch(desk, group.members[member_id], draft.group_id, now)
    desk.statistics.rebalance_finished(draft.group_id, now)
    return _synced(group, member_id)


def _synced(group: ClassicGroup, member_id: str) -> Synced:
    return Synced(group.protocol_type, group.protocol, group.assignments.get(member_id, b""))


def _touch(desk: Desk, member: ClassicMember, group_id: GroupId, now: Timestamp) -> None:
    desk.touch(group_id, member.member_id, member.session_timeout_ms, now)


def heartbeat(
    desk: Desk,
    group: ClassicGroup,
    now: Timestamp,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> None:
    """Prolong the session; raises `RebalanceInProgress` when the member has to join again."""
    member = check_speaker(group, member_id, instance_id, generation)
    if not desk.peek(group.group_id).is_waiting(member_id):
        _touch(desk, member, group.group_id, now)
    if group.state is ClassicState.PREPARING:
        raise RebalanceInProgress("the group waits for its members to join again")


def check_speaker(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> ClassicMember:
    member = check_member(group, member_id, instance_id)
    if generation != group.generation:
        raise IllegalGeneration(
            f"generation {generation} of group {group.group_id!r}, which is at {group.generation}"
        )
    return member


def leave(
    desk: Desk, draft: Draft, now: Timestamp, leavers: Sequence[MemberIdentity]
) -> tuple[Left, ...]:
    """Each leaver's own result; one rebalance for all that went."""
    results = tuple(_leave_one(desk, draft, now, leaver) for leaver in leavers)
    if draft.records or is_preparing(draft):  # an id given back may be the one all waited for
        rebalance_after_removal(desk, draft, now, "member left")
    return results


def _leave_one(desk: Desk, draft: Draft, now: Timestamp, leaver: MemberIdentity) -> Left:
    room = desk.peek(draft.group_id)
    if leaver.member_id in room.pending:
        room.pending.discard(leaver.member_id)
        desk.timers.clear(Timer(TimerKind.PENDING, draft.group_id, leaver.member_id))
        return Left(leaver.member_id, leaver.instance_id)
    try:
        member_id = _find(draft.classic, leaver) if draft.group else _nobody(leaver)
    except GroupError as error:
        return Left(leaver.member_id, leaver.instance_id, error)
    remove(desk, draft, [member_id], now, UnknownMember("left the group"))
    return Left(leaver.member_id, leaver.instance_id)


def _find(group: ClassicGroup, leaver: MemberIdentity) -> str:
    if leaver.instance_id is None:
        return leaver.member_id if leaver.member_id in group.members else _nobody(leaver)
    known = group.static.get(leaver.instance_id)
    if known is None:
        return _nobody(leaver)
    if leaver.member_id and leaver.member_id != known:
        raise FencedInstance(f"{known!r} has joined as instance {leaver.instance_id!r} since")
    return known


def _nobody(leaver: MemberIdentity) -> str:
    raise UnknownMember(f"no member {leaver.member_id or leaver.instance_id!r}")
