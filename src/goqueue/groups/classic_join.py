"""JoinGroup: a member joins, joins again, or joins with another subscription.

no id, dynamic ──▶ MemberIdRequired with a new id ──▶ joins with it
no id, static  ──▶ replaces the instance's former process, if there was one
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
    join_response,
    prepare_rebalance,
)
from goqueue.groups.context import CoordinatorContext
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
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import (
    ClassicMember,
    ClassicMemberReplaced,
    ClassicMemberSaved,
    ClassicState,
    Protocol,
)
from goqueue.groups.replies import Joined, Parked
from goqueue.groups.timers import TimerKind
from goqueue.model.ids import GroupId


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


def check_request(context: CoordinatorContext, request: JoinRequest) -> None:
    config = context.config
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
    context.check_member_bytes(said + sum(len(each or "") for each in ids))


def join(
    change: PendingChange,
    request: JoinRequest,
    new_member_id: str,
) -> Joined | Parked:
    """`new_member_id` is used if the member has none; the caller made it unique."""
    _check_protocols(change, request)
    if not request.member_id:
        return _join_without_id(change, request, new_member_id)
    waiters = change.peek_waiters()
    if request.member_id in waiters.pending:
        waiters.pending.discard(request.member_id)
        change.clear_timer(TimerKind.PENDING, request.member_id)
        return _add(change, request, request.member_id)
    if change.group is None:
        raise UnknownMember(f"no group {change.group_id!r}")
    check_member(change.classic, request.member_id, request.instance_id)
    return _rejoin(change, request)


def _check_protocols(change: PendingChange, request: JoinRequest) -> None:
    if change.group is None or change.classic.is_empty:
        return
    group = change.classic
    if request.protocol_type != group.protocol_type:
        raise InconsistentGroupProtocol(
            f"protocol type {request.protocol_type!r} in a group of type {group.protocol_type!r}"
        )
    besides = request.member_id or group.static.get(request.instance_id or "")
    names = {protocol.name for protocol in request.protocols}
    if not group.supports(names, besides=besides):
        raise InconsistentGroupProtocol(f"none of {sorted(names)} is known to all other members")


def _join_without_id(
    change: PendingChange,
    request: JoinRequest,
    new_member_id: str,
) -> Joined | Parked:
    if request.instance_id is not None:
        if change.group is not None and request.instance_id in change.classic.static:
            return _replace(change, request, new_member_id)
        return _add(change, request, new_member_id)
    if not request.requires_member_id:
        return _add(change, request, new_member_id)
    _check_size(change)
    change.waiters.pending.add(new_member_id)
    change.set_timer(TimerKind.PENDING, request.session_timeout_ms, new_member_id)
    raise MemberIdRequired(new_member_id)


def _check_size(change: PendingChange) -> None:
    size = 0 if change.group is None else len(change.classic.members)
    size += len(change.peek_waiters().pending)
    most = change.context.config.members_max
    if size >= most:
        raise GroupMaxSizeReached(f"{size} members, {most} allowed")


def _add(
    change: PendingChange,
    request: JoinRequest,
    member_id: str,
) -> Parked:
    _check_size(change)
    change.write(ClassicMemberSaved(change.group_id, request.member(member_id)))
    change.waiters.newcomers = True
    return _wait(change, member_id, "member joined")


def _rejoin(change: PendingChange, request: JoinRequest) -> Joined | Parked:
    group = change.classic
    before = group.members[request.member_id]
    after = request.member(request.member_id)
    unchanged = before.protocols == after.protocols
    match group.state:
        case ClassicState.COMPLETING if unchanged:
            return _answer_now(change, after)
        case ClassicState.STABLE if unchanged and group.leader != request.member_id:
            return _answer_now(change, after)
        case _:
            reason = "leader rejoined" if unchanged else "member changed"
            if before != after:
                change.write(ClassicMemberSaved(change.group_id, after))
            return _wait(change, request.member_id, reason)


def _answer_now(change: PendingChange, member: ClassicMember) -> Joined:
    change.restart_session(member.member_id, member.session_timeout_ms)
    return join_response(change.classic, member)


def _wait(change: PendingChange, member_id: str, reason: str) -> Parked:
    """Park the request, then end the join phase if it was the last one."""
    change.reject_parked(member_id, RebalanceInProgress("asked again by a later request"))
    parked = change.park(member_id, Waiting.JOIN)
    if change.classic.state is ClassicState.PREPARING:
        complete_if_all_joined(change)
    else:
        prepare_rebalance(change, reason)
    return parked


def _replace(
    change: PendingChange,
    request: JoinRequest,
    new_member_id: str,
) -> Joined | Parked:
    """A static member restarted.  With the same subscription there is no rebalance."""
    group = change.classic
    old = group.members[group.static[request.instance_id or ""]]
    new = request.member(new_member_id)
    was_leader = group.leader == old.member_id
    change.reject_parked(old.member_id, FencedInstance(f"restarted as {new_member_id!r}"))
    change.clear_timer(TimerKind.SESSION, old.member_id)
    waiters = change.waiters
    if old.member_id in waiters.unsynced:
        waiters.unsynced.remove(old.member_id)
        waiters.unsynced.add(new_member_id)
    change.write(ClassicMemberReplaced(change.group_id, old.member_id, new))
    if group.state is not ClassicState.STABLE or not _keeps_subscription(change.classic, old, new):
        return _wait(change, new_member_id, "static member changed")
    change.restart_session(new_member_id, new.session_timeout_ms)
    answer = join_response(change.classic, new, skip_assignment=was_leader)
    if was_leader and not request.skips_assignment:
        # An old client that is told that it leads would assign again and be refused: let it follow.
        return msgspec.structs.replace(
            answer, leader=old.member_id, members=(), skip_assignment=False
        )
    return answer


def _keeps_subscription(group: ClassicGroup, old: ClassicMember, new: ClassicMember) -> bool:
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
