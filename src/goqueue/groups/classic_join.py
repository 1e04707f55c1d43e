"""JoinGroup: a member comes, comes back, or comes with other wishes.

no id, dynamic ──▶ MemberIdRequired with a new id ──▶ joins with it
no id, static  ──▶ takes the place of the instance's former process, if there was one
known id       ──▶ in a join phase: waits with the others
                   else, nothing new: is told the present generation (its answer got lost)
                   else: opens a rebalance
"""

import msgspec

from goqueue.groups import embedded
from goqueue.groups.classic import ClassicGroup
from goqueue.groups.classic_phases import (
    check_member,
    complete_if_all_joined,
    dismiss,
    joined,
    prepare,
)
from goqueue.groups.context import Desk
from goqueue.groups.errors import (
    FencedInstance,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.parked_requests import Waiting
from goqueue.groups.pending_change import Draft
from goqueue.groups.records import (
    ClassicMember,
    ClassicMemberReplaced,
    ClassicMemberSaved,
    ClassicState,
    Protocol,
)
from goqueue.groups.replies import Joined, Parked
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import GroupId, Timestamp


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    requires_member_id: bool = True  # the client knows MemberIdRequired (version 4 on)
    skips_assignment: bool = False  # the client knows `skip_assignment` (version 9 on)

    def member(self, member_id: str) -> ClassicMember:
        return ClassicMember(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
        )


def check_request(desk: Desk, request: JoinRequest) -> None:
    config = desk.config
    if not request.group_id:
        raise InvalidGroupId("a group has a name")
    least, most = config.session_timeout_ms_min, config.session_timeout_ms_max
    if not least <= request.session_timeout_ms <= most:
        raise InvalidSessionTimeout(
            f"session of {request.session_timeout_ms} ms, {least} to {most} allowed"
        )
    if not (request.protocol_type and request.protocols):
        raise InconsistentGroupProtocol("a member names a protocol type and its protocols")
    said = sum(len(each.name) + len(each.metadata) for each in request.protocols)
    ids = (request.member_id, request.instance_id, request.client_id, request.protocol_type)
    desk.check_member_bytes(said + sum(len(each or "") for each in ids))


def join(
    desk: Desk, draft: Draft, now: Timestamp, request: JoinRequest, new_member_id: str
) -> Joined | Parked:
    """`new_member_id` is used if the member has none; the caller made it unique."""
    _check_protocols(draft, request)
    if not request.member_id:
        return _join_without_id(desk, draft, now, request, new_member_id)
    room = desk.peek(draft.group_id)
    if request.member_id in room.pending:
        room.pending.discard(request.member_id)
        desk.timers.clear(Timer(TimerKind.PENDING, draft.group_id, request.member_id))
        return _add(desk, draft, now, request, request.member_id)
    if draft.group is None:
        raise UnknownMember(f"no group {draft.group_id!r}")
    check_member(draft.classic, request.member_id, request.instance_id)
    return _rejoin(desk, draft, now, request)


def _check_protocols(draft: Draft, request: JoinRequest) -> None:
    if draft.group is None or draft.classic.is_empty:
        return
    group = draft.classic
    if request.protocol_type != group.protocol_type:
        raise InconsistentGroupProtocol(
            f"protocol type {request.protocol_type!r} in a group of type {group.protocol_type!r}"
        )
    besides = request.member_id or group.static.get(request.instance_id or "")
    names = {protocol.name for protocol in request.protocols}
    if not group.supports(names, besides=besides):
        raise InconsistentGroupProtocol(f"none of {sorted(names)} is known to all other members")


def _join_without_id(
    desk: Desk, draft: Draft, now: Timestamp, request: JoinRequest, new_member_id: str
) -> Joined | Parked:
    if request.instance_id is not None:
        if draft.group is not None and request.instance_id in draft.classic.static:
            return _replace(desk, draft, now, request, new_member_id)
        return _add(desk, draft, now, request, new_member_id)
    if not request.requires_member_id:
        return _add(desk, draft, now, request, new_member_id)
    _check_size(desk, draft)
    desk.room(draft.group_id).pending.add(new_member_id)
    pending = Timer(TimerKind.PENDING, draft.group_id, new_member_id)
    desk.timers.set(pending, Timestamp(now + request.session_timeout_ms))
    raise MemberIdRequired(new_member_id)


def _check_size(desk: Desk, draft: Draft) -> None:
    size = 0 if draft.group is None else len(draft.classic.members)
    size += len(desk.peek(draft.group_id).pending)
    if size >= desk.config.members_max:
        raise GroupMaxSizeReached(f"{size} members, {desk.config.members_max} allowed")


def _add(desk: Desk, draft: Draft, now: Timestamp, request: JoinRequest, member_id: str) -> Parked:
    _check_size(desk, draft)
    draft.write(ClassicMemberSaved(draft.group_id, request.member(member_id)))
    desk.room(draft.group_id).newcomers = True
    return _wait(desk, draft, now, member_id, "member joined")


def _rejoin(desk: Desk, draft: Draft, now: Timestamp, request: JoinRequest) -> Joined | Parked:
    group = draft.classic
    before = group.members[request.member_id]
    after = request.member(request.member_id)
    unchanged = before.protocols == after.protocols
    match group.state:
        case ClassicState.COMPLETING if unchanged:
            return _answer_now(desk, draft, now, after)
        case ClassicState.STABLE if unchanged and group.leader != request.member_id:
            return _answer_now(desk, draft, now, after)
        case _:
            reason = "leader rejoined" if unchanged else "member changed"
            if before != after:
                draft.write(ClassicMemberSaved(draft.group_id, after))
            return _wait(desk, draft, now, request.member_id, reason)


def _answer_now(desk: Desk, draft: Draft, now: Timestamp, member: ClassicMember) -> Joined:
    desk.touch(draft.group_id, member.member_id, member.session_timeout_ms, now)
    return joined(draft.classic, member)


def _wait(desk: Desk, draft: Draft, now: Timestamp, member_id: str, reason: str) -> Parked:
    """Park the joiner, then see whether that was the last one."""
    dismiss(desk, draft, member_id, RebalanceInProgress("asked again by a later request"))
    parked = desk.park(draft.group_id, member_id, Waiting.JOIN)
    if draft.classic.state is ClassicState.PREPARING:
        complete_if_all_joined(desk, draft, now)
    else:
        prepare(desk, draft, now, reason)
    return parked


def _replace(
    desk: Desk, draft: Draft, now: Timestamp, request: JoinRequest, new_member_id: str
) -> Joined | Parked:
    """A static member restarted.  If it wants the same, the group need not notice."""
    group = draft.classic
    old = group.members[group.static[request.instance_id or ""]]
    new = request.member(new_member_id)
    was_leader = group.leader == old.member_id
    dismiss(desk, draft, old.member_id, FencedInstance(f"restarted as {new_member_id!r}"))
    desk.timers.clear(Timer(TimerKind.SESSION, draft.group_id, old.member_id))
    room = desk.room(draft.group_id)
    if old.member_id in room.unsynced:
        room.unsynced.remove(old.member_id)
        room.unsynced.add(new_member_id)
    draft.write(ClassicMemberReplaced(draft.group_id, old.member_id, new))
    if group.state is not ClassicState.STABLE or not _wants_the_same(draft.classic, old, new):
        return _wait(desk, draft, now, new_member_id, "static member changed")
    desk.touch(draft.group_id, new_member_id, new.session_timeout_ms, now)
    answer = joined(draft.classic, new, skip_assignment=was_leader)
    if was_leader and not request.skips_assignment:
        # An old client that hears it leads would divide anew and be refused: let it follow.
        return msgspec.structs.replace(
            answer, leader=old.member_id, members=(), skip_assignment=False
        )
    return answer


def _wants_the_same(group: ClassicGroup, old: ClassicMember, new: ClassicMember) -> bool:
    """Same protocol after a vote, and, where the bytes can be read, the same topics.

    The bytes themselves differ after every restart: they carry what the process owned.
    """
    if group.elect_protocol() != group.protocol:
        return False
    if group.protocol_type != embedded.PROTOCOL_TYPE:
        return old.metadata(group.protocol) == new.metadata(group.protocol)
    try:
        topics = [
            set(embedded.read_subscription(member.metadata(group.protocol)).topics)
            for member in (old, new)
        ]
    except InconsistentGroupProtocol:
        return old.metadata(group.protocol) == new.metadata(group.protocol)
    return topics[0] == topics[1]
