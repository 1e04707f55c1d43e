"""ConsumerGroupHeartbeat: the one request of the consumer protocol.

epoch  0: join (or start over)     epoch -1: leave     epoch -2: a static member pauses
epoch >0: I am here; this is what I own, if it changed; this is what I want, if it changed
"""

import msgspec

from goqueue.groups.assignors import check_assignor
from goqueue.groups.config import GroupsConfig
from goqueue.groups.consumer import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    Current,
)
from goqueue.groups.consumer_members import (
    check_size,
    find_member,
    move_member,
    remove_members,
    replace_static_member,
    restart_session,
)
from goqueue.groups.context import CoordinatorContext
from goqueue.groups.conversion import make_consumer
from goqueue.groups.errors import (
    InvalidGroupId,
    InvalidGroupRequest,
    InvalidSessionTimeout,
    UnknownMember,
    UnreleasedInstance,
)
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.reconcile import check_epoch, next_step
from goqueue.groups.records import (
    ConsumerMember,
    ConsumerMemberSaved,
    MemberState,
    ReaderTraits,
)
from goqueue.groups.replies import HeartbeatResponse
from goqueue.groups.targets import note_if_settled, retarget
from goqueue.groups.topics import Viewer
from goqueue.model.ids import GroupId, TopicName

HEARTBEAT_MS_A_MEMBER = 10  # a hundred heartbeats a second, however large the group


class HeartbeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """None (and -1) say "as before"; a join names everything."""

    group_id: GroupId
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_names: tuple[TopicName, ...] | None = None
    subscribed_regex: str | None = None
    assignor: str | None = None
    owned: PartitionSet | None = None
    reader: ReaderTraits | None = None  # said at the join, and only there
    viewer: Viewer | None = None  # who subscribes by a regular expression


def check_request(context: CoordinatorContext, request: HeartbeatRequest) -> None:
    if not request.group_id:
        raise InvalidGroupId("a group has a name")
    if not request.member_id:
        raise InvalidGroupRequest("a member has an id; it makes one up before it joins")
    if request.member_epoch < STATIC_LEAVE_EPOCH:
        raise InvalidGroupRequest(f"member epoch {request.member_epoch}")
    if request.instance_id == "":
        raise InvalidGroupRequest("an instance id is not empty")
    if request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise InvalidGroupRequest("only a static member can pause; it names its instance id")
    ids = (request.member_id, request.instance_id, request.rack_id, request.client_id)
    said = (*ids, request.subscribed_regex, *(request.subscribed_names or ()))
    context.check_member_bytes(sum(len(each or "") for each in said))
    if request.assignor:
        check_assignor(request.assignor)
    if request.subscribed_regex:
        context.topics.match(request.subscribed_regex, request.viewer)  # raises if it is none
    if request.member_epoch == JOIN_EPOCH:
        _check_join(context, request)


def _check_join(context: CoordinatorContext, request: HeartbeatRequest) -> None:
    shortest, longest = context.config.session_timeout_ms_min, context.config.session_timeout_ms_max
    if request.reader and not shortest <= request.reader.session_timeout_ms <= longest:
        raise InvalidSessionTimeout(
            f"session of {request.reader.session_timeout_ms} ms, {shortest} to {longest} allowed"
        )
    if request.owned:
        raise InvalidGroupRequest("a member that joins owns nothing yet")
    if request.subscribed_names is None and not request.subscribed_regex:
        raise InvalidGroupRequest("a member that joins says what it subscribes to")


def heartbeat(change: PendingChange, request: HeartbeatRequest) -> HeartbeatResponse:
    if request.member_epoch == LEAVE_EPOCH:
        return _leave(change, request)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        return _pause(change, request)
    if request.member_epoch == JOIN_EPOCH:
        return _join(change, request)
    return _continue(change, request)


def _join(change: PendingChange, request: HeartbeatRequest) -> HeartbeatResponse:
    _check_size(change, request)
    make_consumer(change)
    before = _admit(change, request)
    after = _update_member(change.context.config, before, request)
    if before is None or before != after:
        change.write(ConsumerMemberSaved(change.group_id, after))
    if before is None:
        retarget(change, "member joined")
    elif _changes_subscription(before, after):
        retarget(change, "subscription changed")
    return _reconcile(change, request.member_id, NO_PARTITIONS, tell=True)


def _check_size(change: PendingChange, request: HeartbeatRequest) -> None:
    """Checked before anything else: a refused join must not wake parked requests."""
    group = change.group
    if group is None or request.member_id in group.members or request.instance_id in group.static:
        return
    check_size(change)


def _admit(change: PendingChange, request: HeartbeatRequest) -> ConsumerMember | None:
    """The member as it was, at epoch 0; None if it is new."""
    if change.group is None:
        return None
    group = change.consumer
    holder = group.static.get(request.instance_id) if request.instance_id else None
    if holder is not None and holder != request.member_id:
        in_use = group.current[holder].epoch != STATIC_LEAVE_EPOCH
        if in_use and group.members[holder].classic is None:  # classic ones restart without leave
            raise UnreleasedInstance(f"instance {request.instance_id!r} is held by {holder!r}")
        replace_static_member(change, holder, request.member_id)
        return change.consumer.members[request.member_id]
    member = group.members.get(request.member_id)
    if member is None:
        return None
    current = group.current[request.member_id]
    start_over = msgspec.structs.replace(current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    change.write(group.move_record(request.member_id, start_over))
    return member


def _continue(change: PendingChange, request: HeartbeatRequest) -> HeartbeatResponse:
    group = _consumer_group(change, request)
    before = find_member(group, request.member_id, request.instance_id)
    current = group.current[request.member_id]
    check_epoch(current, request.member_epoch, request.owned, request.member_id)
    after = _update_member(change.context.config, before, request)
    if before != after:
        change.write(ConsumerMemberSaved(change.group_id, after))
        if _changes_subscription(before, after):
            retarget(change, "subscription changed")
    behind = request.member_epoch < current.epoch  # it never heard our last answer
    return _reconcile(
        change,
        request.member_id,
        request.owned,
        tell=behind or request.owned is not None,
    )


def _consumer_group(change: PendingChange, request: HeartbeatRequest) -> ConsumerGroup:
    """A member of a group that is gone, or is classic by now, is told to join again."""
    if not isinstance(change.group, ConsumerGroup):
        raise UnknownMember(f"no member {request.member_id!r} in group {request.group_id!r}")
    return change.group


def _update_member(
    config: GroupsConfig, before: ConsumerMember | None, request: HeartbeatRequest
) -> ConsumerMember:
    """The member with what the request changes."""
    timeout_ms = request.rebalance_timeout_ms
    if before is None:
        before = ConsumerMember(
            member_id=request.member_id,
            instance_id=request.instance_id,
            rack_id=None,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            subscribed_names=(),
            subscribed_regex=None,
            assignor=None,
        )
    names, regex = request.subscribed_names, request.subscribed_regex
    return ConsumerMember(
        member_id=request.member_id,
        instance_id=before.instance_id,
        rack_id=request.rack_id or before.rack_id,
        client_id=request.client_id or before.client_id,
        client_host=request.client_host or before.client_host,
        rebalance_timeout_ms=timeout_ms if timeout_ms > 0 else before.rebalance_timeout_ms,
        subscribed_names=before.subscribed_names if names is None else tuple(sorted(set(names))),
        subscribed_regex=before.subscribed_regex if regex is None else regex or None,
        assignor=request.assignor or before.assignor,
        reader=request.reader if request.member_epoch == JOIN_EPOCH else before.reader,
        viewer=before.viewer if regex is None else request.viewer or msgspec.UNSET,
    )


def _changes_subscription(before: ConsumerMember, after: ConsumerMember) -> bool:
    return (
        before.subscribed_names != after.subscribed_names
        or before.subscribed_regex != after.subscribed_regex
        or before.viewer != after.viewer
        or before.assignor != after.assignor
    )


def _reconcile(
    change: PendingChange,
    member_id: str,
    reported: PartitionSet | None,
    *,
    tell: bool,
) -> HeartbeatResponse:
    """Take the member a step towards its target; the response to its heartbeat."""
    group = change.consumer
    before = group.current[member_id]
    after = next_step(group, member_id, reported)
    if after is not before:
        move_member(change, member_id, after)
        note_if_settled(change)
    restart_session(change, member_id)
    tell = tell or after.assigned != before.assigned
    return HeartbeatResponse(
        member_id,
        after.epoch,
        _heartbeat_interval_ms(change.context, group),
        after.assigned if tell else None,
    )


def _heartbeat_interval_ms(context: CoordinatorContext, group: ConsumerGroup) -> int:
    """Short for a small group, since a rebalance is only noticed at the next heartbeat."""
    given = context.settings_of(group.group_id).heartbeat_interval_ms
    if given is not None:
        return given
    wanted = len(group.members) * HEARTBEAT_MS_A_MEMBER
    wanted = max(context.config.heartbeat_interval_ms_min, wanted)
    return min(context.config.heartbeat_interval_ms, wanted)


def _leave(change: PendingChange, request: HeartbeatRequest) -> HeartbeatResponse:
    group = _consumer_group(change, request)
    find_member(group, request.member_id, request.instance_id)
    remove_members(change, [request.member_id], "member left")
    return HeartbeatResponse(request.member_id, LEAVE_EPOCH, 0)


def _pause(change: PendingChange, request: HeartbeatRequest) -> HeartbeatResponse:
    """Keep member and partitions until the session ends, for the next process."""
    group = _consumer_group(change, request)
    find_member(group, request.member_id, request.instance_id)
    assigned = group.current[request.member_id].assigned
    paused = Current(STATIC_LEAVE_EPOCH, JOIN_EPOCH, MemberState.STABLE, assigned)
    move_member(change, request.member_id, paused)
    restart_session(change, request.member_id)
    return HeartbeatResponse(request.member_id, STATIC_LEAVE_EPOCH, 0)
