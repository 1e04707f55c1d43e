"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol."""

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.classic_phases import (
    check_member,
    is_preparing,
    rebalance_after_removal,
    remove_members,
)
from goqueue.groups.errors import (
    FencedInstance,
    GroupError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.parked_requests import ParkedRequest, Waiting
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import ClassicAssigned, ClassicMember, ClassicState
from goqueue.groups.replies import Left, Parked, Synced
from goqueue.groups.timers import TimerKind
from goqueue.model.ids import GroupId


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


def sync(change: PendingChange, request: SyncRequest) -> Synced | Parked:
    group = change.classic
    member = check_speaker(group, request.member_id, request.instance_id, request.generation)
    _check_protocol(group, request)
    change.context.check_member_bytes(max(map(len, request.assignments.values()), default=0))
    match group.state:
        case ClassicState.COMPLETING:
            return _sync_completing(change, request)
        case ClassicState.STABLE:
            change.waiters.unsynced.discard(member.member_id)
            change.restart_session(member.member_id, member.session_timeout_ms)
            return _sync_response(group, member.member_id)
        case ClassicState.PREPARING:
            raise RebalanceInProgress("the group waits for its members to join again")
        case ClassicState.EMPTY:
            raise UnknownMember(f"group {change.group_id!r} is empty")


def _check_protocol(group: ClassicGroup, request: SyncRequest) -> None:
    for said, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol, group.protocol),
    ):
        if said is not None and said != known:
            raise InconsistentGroupProtocol(f"{said!r} in a group that uses {known!r}")


def _sync_completing(change: PendingChange, request: SyncRequest) -> Synced | Parked:
    group = change.classic
    member_id = request.member_id
    change.waiters.unsynced.discard(member_id)
    if member_id != group.leader:
        parked = ParkedRequest(change.group_id, member_id, Waiting.SYNC)
        change.answer(parked, RebalanceInProgress("asked again"))
        return change.park(member_id, Waiting.SYNC)
    given = {known: request.assignments.get(known, b"") for known in group.members}
    change.write(ClassicAssigned(change.group_id, given, change.now))
    group = change.classic
    for parked in change.list_parked(Waiting.SYNC):
        change.answer(parked, _sync_response(group, parked.member_id))
        _restart_session(change, group.members[parked.member_id])
    _restart_session(change, group.members[member_id])
    change.note_rebalance_finished()
    return _sync_response(group, member_id)


def _sync_response(group: ClassicGroup, member_id: str) -> Synced:
    return Synced(group.protocol_type, group.protocol, group.assignments.get(member_id, b""))


def _restart_session(change: PendingChange, member: ClassicMember) -> None:
    change.restart_session(member.member_id, member.session_timeout_ms)


def heartbeat(
    change: PendingChange, member_id: str, instance_id: str | None, generation: int
) -> None:
    """Prolong the session; raises `RebalanceInProgress` when the member has to join again."""
    member = check_speaker(change.classic, member_id, instance_id, generation)
    if not change.peek_waiters().is_waiting(member_id):
        _restart_session(change, member)
    if change.classic.state is ClassicState.PREPARING:
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
    change: PendingChange,
    leavers: Sequence[MemberIdentity],
) -> tuple[Left, ...]:
    """A result for each member; one rebalance for all that left."""
    results = tuple(_leave_one(change, leaver) for leaver in leavers)
    if change.records or is_preparing(change):  # an id given back may be the one all waited for
        rebalance_after_removal(change, "member left")
    return results


def _leave_one(change: PendingChange, leaver: MemberIdentity) -> Left:
    waiters = change.peek_waiters()
    if leaver.member_id in waiters.pending:
        waiters.pending.discard(leaver.member_id)
        change.clear_timer(TimerKind.PENDING, leaver.member_id)
        return Left(leaver.member_id, leaver.instance_id)
    try:
        member_id = _find(change.classic, leaver) if change.group else _raise_unknown_member(leaver)
    except GroupError as error:
        return Left(leaver.member_id, leaver.instance_id, error)
    remove_members(change, [member_id], UnknownMember("left the group"))
    return Left(leaver.member_id, leaver.instance_id)


def _find(group: ClassicGroup, leaver: MemberIdentity) -> str:
    if leaver.instance_id is None:
        return (
            leaver.member_id if leaver.member_id in group.members else _raise_unknown_member(leaver)
        )
    known = group.static.get(leaver.instance_id)
    if known is None:
        return _raise_unknown_member(leaver)
    if leaver.member_id and leaver.member_id != known:
        raise FencedInstance(f"{known!r} has joined as instance {leaver.instance_id!r} since")
    return known


def _raise_unknown_member(leaver: MemberIdentity) -> str:
    raise UnknownMember(f"no member {leaver.member_id or leaver.instance_id!r}")
