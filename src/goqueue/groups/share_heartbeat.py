"""Members of share groups: they join, stay, leave, or are silent for too long.

A member's session does not end while it polls.
"""

from collections.abc import Iterable

import msgspec

from goqueue.groups.consumer import JOIN_EPOCH, LEAVE_EPOCH
from goqueue.groups.context import CoordinatorContext
from goqueue.groups.errors import (
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidGroupRequest,
    InvalidSessionTimeout,
    UnknownMember,
)
from goqueue.groups.records import ShareMember, ShareMemberRemoved, ShareMemberSaved, ShareRecord
from goqueue.groups.replies import Assignment, LostMember, ShareHeartbeatResponse
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import GroupId, Timestamp, TopicName
from goqueue.model.names import is_internal


class ShareHeartbeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """None says "as before"; a join names its topics."""

    group_id: GroupId
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_names: tuple[TopicName, ...] | None = None
    session_timeout_ms: int | None = None  # of a worker over HTTP, said when it joins


Answer = tuple[tuple[ShareRecord, ...], ShareHeartbeatResponse]


def heartbeat(
    context: CoordinatorContext, now: Timestamp, request: ShareHeartbeatRequest
) -> Answer:
    """What to write, and what to answer."""
    if not request.member_id:
        raise InvalidGroupRequest("a member of a share group names itself")
    if request.member_epoch == JOIN_EPOCH:
        return _join(context, now, request)
    before = find_member(context, request.group_id, request.member_id)
    if request.member_epoch == LEAVE_EPOCH:
        _forget(context, request.group_id, request.member_id)
        left = ShareMemberRemoved(request.group_id, request.member_id)
        return (left,), ShareHeartbeatResponse(request.member_id, LEAVE_EPOCH, 0)
    epoch = context.shares[request.group_id].epoch
    if not before.epoch <= request.member_epoch <= epoch:
        raise FencedMemberEpoch(f"member epoch {request.member_epoch}, it is {epoch} now")
    after = _change(before, request)
    if after is before:
        is_behind = request.member_epoch != epoch  # it never heard our last answer
        return (), _stay(context, now, request.group_id, after, epoch, tell=is_behind)
    saved = ShareMemberSaved(request.group_id, after)
    return (saved,), _stay(context, now, request.group_id, after, epoch + 1, tell=True)


def _join(context: CoordinatorContext, now: Timestamp, request: ShareHeartbeatRequest) -> Answer:
    if request.subscribed_names is None:
        raise InvalidGroupRequest("who joins says what it subscribes to")
    _check_session(context, request.session_timeout_ms)
    group = context.shares.get(request.group_id)
    count = 0 if group is None or request.member_id in group.members else len(group.members)
    if count >= context.config.members_max:
        raise GroupMaxSizeReached(f"group {request.group_id!r} has {count} members")
    epoch = 1 if group is None else group.epoch + 1
    member = ShareMember(
        member_id=request.member_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rack_id=request.rack_id,
        subscribed_names=request.subscribed_names,
        epoch=epoch,
        session_timeout_ms=request.session_timeout_ms,
    )
    saved = ShareMemberSaved(request.group_id, member)
    return (saved,), _stay(context, now, request.group_id, member, epoch, tell=True)


def _check_session(context: CoordinatorContext, asked: int | None) -> None:
    least, most = context.config.session_timeout_ms_min, context.config.session_timeout_ms_max
    if asked is not None and not least <= asked <= most:
        raise InvalidSessionTimeout(f"session of {asked} ms, {least} to {most} are allowed")


def find_member(context: CoordinatorContext, group_id: GroupId, member_id: str) -> ShareMember:
    group = context.shares.get(group_id)
    member = None if group is None else group.members.get(member_id)
    if member is None:
        raise UnknownMember(f"no member {member_id!r} in group {group_id!r}: join again")
    return member


def _change(before: ShareMember, request: ShareHeartbeatRequest) -> ShareMember:
    """The member with what the request changes; the same object if that is nothing."""
    names, rack_id = request.subscribed_names, request.rack_id
    if names in (None, before.subscribed_names) and rack_id in (None, before.rack_id):
        return before
    return msgspec.structs.replace(
        before,
        subscribed_names=before.subscribed_names if names is None else names,
        rack_id=before.rack_id if rack_id is None else rack_id,
    )


def _stay(
    context: CoordinatorContext,
    now: Timestamp,
    group_id: GroupId,
    member: ShareMember,
    epoch: int,
    *,
    tell: bool,
) -> ShareHeartbeatResponse:
    restart_session(context, now, group_id, member)
    assigned = _assignment(context, member.subscribed_names)
    told = context.share_assignments
    tell = tell or told.get((group_id, member.member_id)) != assigned
    told[group_id, member.member_id] = assigned
    interval_ms = context.share_settings_of(group_id).heartbeat_interval_ms
    interval_ms = interval_ms or context.config.heartbeat_interval_ms
    return ShareHeartbeatResponse(member.member_id, epoch, interval_ms, assigned if tell else None)


def _assignment(context: CoordinatorContext, names: Iterable[TopicName]) -> Assignment:
    """All partitions of the topics that are there (the assignor that Kafka calls `simple`)."""
    found = (context.topics.find_by_name(name) for name in names if not is_internal(name))
    return {topic.topic_id: topic.partition_count for topic in found if topic is not None}


# --- sessions -------------------------------------------------------------------------------------


def restart_session(
    context: CoordinatorContext, now: Timestamp, group_id: GroupId, member: ShareMember
) -> None:
    timeout_ms = member.session_timeout_ms
    if timeout_ms is None:
        timeout_ms = context.share_settings_of(group_id).session_ms(context.config)
    timer = Timer(TimerKind.SHARE_SESSION, group_id, member.member_id)
    context.timers.set(timer, Timestamp(now + timeout_ms))


def expire(
    context: CoordinatorContext, now: Timestamp, timers: Iterable[Timer]
) -> tuple[list[ShareRecord], list[LostMember]]:
    """Who was silent for too long is gone, unless it polls."""
    records: list[ShareRecord] = []
    lost: list[LostMember] = []
    for timer in timers:
        group = context.shares.get(timer.group_id)
        member = None if group is None else group.members.get(timer.member_id)
        if member is None:
            continue
        if context.share_polls[timer.group_id, timer.member_id]:
            restart_session(context, now, timer.group_id, member)
            continue
        _forget(context, timer.group_id, timer.member_id)
        context.statistics.count_expired_session(timer.group_id)
        records.append(ShareMemberRemoved(timer.group_id, timer.member_id))
        lost.append(LostMember(timer.group_id, timer.member_id))
    return records, lost


def _forget(context: CoordinatorContext, group_id: GroupId, member_id: str) -> None:
    """What is kept in memory of a member that is gone."""
    context.timers.clear(Timer(TimerKind.SHARE_SESSION, group_id, member_id))
    context.share_assignments.pop((group_id, member_id), None)
