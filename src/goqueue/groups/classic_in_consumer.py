"""Classic members of a consumer group: their four requests, answered by the consumer engine.

JoinGroup is a heartbeat that reports what is owned; SyncGroup reads the assignment; Heartbeat says
whether to join again.  Nobody waits: each answer is ready.  The generation a member sees is its
own member epoch, and it is told of no leader, so it never divides partitions itself.
"""

from collections.abc import Sequence

import msgspec

from goqueue.groups import embedded
from goqueue.groups.classic_join import JoinRequest
from goqueue.groups.classic_sync import MemberIdentity, SyncRequest
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.consumer_members import (
    check_size,
    expel,
    find_member,
    move,
    replace_static,
    touch,
)
from goqueue.groups.context import Desk
from goqueue.groups.conversion import (
    assignment_bytes,
    consumer_member,
    read_subscription,
    to_ids,
)
from goqueue.groups.errors import (
    GroupError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.pending_change import Draft
from goqueue.groups.reconcile import must_rejoin, next_step
from goqueue.groups.records import ConsumerMember, ConsumerMemberSaved, MemberState
from goqueue.groups.replies import Joined, Left, Synced
from goqueue.groups.targets import note_settled, retarget
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import Timestamp


def join(
    desk: Desk, draft: Draft, now: Timestamp, request: JoinRequest, new_member_id: str
) -> Joined:
    if request.protocol_type != embedded.PROTOCOL_TYPE:
        raise InconsistentGroupProtocol(
            f"protocol type {request.protocol_type!r} in a consumer group"
        )
    wish = read_subscription(request.protocols)
    member_id = _seat(desk, draft, now, request, new_member_id)
    before = draft.consumer.members.get(member_id)
    after = consumer_member(request.member(member_id), wish)
    _save(desk, draft, now, before, after)
    _reconcile(desk, draft, now, member_id, wish)
    return Joined(
        member_id=member_id,
        generation=draft.consumer.current[member_id].epoch,
        protocol_type=embedded.PROTOCOL_TYPE,
        protocol=request.protocols[0].name,
        leader="",
    )


def _seat(
    desk: Desk, draft: Draft, now: Timestamp, request: JoinRequest, new_member_id: str
) -> str:
    """The id under which the member joins; as in a classic group."""
    room = desk.peek(draft.group_id)
    if request.member_id in room.pending:
        room.pending.discard(request.member_id)
        desk.timers.clear(Timer(TimerKind.PENDING, draft.group_id, request.member_id))
        check_size(desk, draft)
        return request.member_id
    if request.member_id:
        return find_member(draft.consumer, request.member_id, request.instance_id).member_id
    holder = draft.consumer.static.get(request.instance_id) if request.instance_id else None
    if holder is not None:
        replace_static(desk, draft, now, holder, new_member_id)
        return new_member_id
    check_size(desk, draft)
    if request.instance_id is None and request.requires_member_id:
        desk.room(draft.group_id).pending.add(new_member_id)
        pending = Timer(TimerKind.PENDING, draft.group_id, new_member_id)
        desk.timers.set(pending, Timestamp(now + request.session_timeout_ms))
        raise MemberIdRequired(new_member_id)
    return new_member_id


def _save(
    desk: Desk,
    draft: Draft,
    now: Timestamp,
    before: ConsumerMember | None,
    after: ConsumerMember,
) -> None:
    if before == after:
        return
    draft.write(ConsumerMemberSaved(draft.group_id, after))
    if before is None:
        retarget(desk, draft, now, "member joined")
    elif before.subscribed_names != after.subscribed_names:
        retarget(desk, draft, now, "subscription changed")


def _reconcile(
    desk: Desk, draft: Draft, now: Timestamp, member_id: str, wish: embedded.Subscription
) -> None:
    """An eager member gave up everything before it joined: it reports nothing, and so owns that."""
    group = draft.consumer
    before = group.current[member_id]
    after = next_step(group, member_id, to_ids(desk.topics, wish.owned))
    if after.state is not MemberState.REVOKING:
        desk.timers.clear(Timer(TimerKind.REVOCATION, draft.group_id, member_id))
    if after is not before:
        move(desk, draft, now, member_id, after)
        note_settled(desk, draft, now)
    touch(desk, draft.consumer, member_id, now)


def sync(desk: Desk, draft: Draft, now: Timestamp, request: SyncRequest) -> Synced:
    group = draft.consumer
    member = _check_speaker(group, request.member_id, request.instance_id, request.generation)
    current = group.current[member.member_id]
    touch(desk, group, member.member_id, now)
    if current.epoch < group.target_epoch and current.state is not MemberState.REVOKING:
        _expect_rejoin(desk, group, member, now)
        raise RebalanceInProgress("the assignment changed meanwhile")
    protocol = member.classic.protocols[0].name if member.classic else ""
    assignment = assignment_bytes(desk.topics, group, member.member_id)
    return Synced(embedded.PROTOCOL_TYPE, protocol, assignment)


def heartbeat(
    desk: Desk,
    group: ConsumerGroup,
    now: Timestamp,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> None:
    member = _check_speaker(group, member_id, instance_id, generation)
    touch(desk, group, member_id, now)
    if must_rejoin(group, member_id):
        _expect_rejoin(desk, group, member, now)
        raise RebalanceInProgress("join again to learn the new assignment")


def _expect_rejoin(
    desk: Desk, group: ConsumerGroup, member: ConsumerMember, now: Timestamp
) -> None:
    """One that never joins again would hold its partitions as long as it heartbeats."""
    timer = Timer(TimerKind.REVOCATION, group.group_id, member.member_id)
    if timer not in desk.timers:
        desk.timers.set(timer, Timestamp(now + member.rebalance_timeout_ms))


def _check_speaker(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerMember:
    member = find_member(group, member_id, instance_id)
    epoch = group.current[member_id].epoch
    if member.classic is None:
        raise UnknownMember(f"member {member_id!r} does not speak the classic protocol")
    if generation != epoch:
        raise IllegalGeneration(f"generation {generation} of {member_id!r}, which is at {epoch}")
    return member


def leave(
    desk: Desk, draft: Draft, now: Timestamp, leavers: Sequence[MemberIdentity]
) -> tuple[Left, ...]:
    """An administrator may so remove members of either protocol."""
    going: dict[str, None] = {}
    results = []
    for leaver in leavers:
        left = Left(leaver.member_id, leaver.instance_id)
        try:
            going[_find(draft.consumer, leaver)] = None
        except GroupError as error:
            left = msgspec.structs.replace(left, error=error)
        results.append(left)
    if going:
        expel(desk, draft, going, now, "member left")
    return tuple(results)


def _find(group: ConsumerGroup, leaver: MemberIdentity) -> str:
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.static.get(leaver.instance_id, "")
    return find_member(group, member_id, leaver.instance_id).member_id
