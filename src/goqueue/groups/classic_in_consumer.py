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
    find_member,
    move_member,
    remove_members,
    replace_static_member,
    restart_session,
)
from goqueue.groups.context import CoordinatorContext
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
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.reconcile import must_rejoin, next_step
from goqueue.groups.records import ConsumerMember, ConsumerMemberSaved, MemberState
from goqueue.groups.replies import Joined, Left, Synced
from goqueue.groups.targets import note_if_settled, retarget
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import Timestamp


def join(
    context: CoordinatorContext,
    change: PendingChange,
    now: Timestamp,
    request: JoinRequest,
    new_member_id: str,
) -> Joined:
    if request.protocol_type != embedded.PROTOCOL_TYPE:
        raise InconsistentGroupProtocol(
            f"protocol type {request.protocol_type!r} in a consumer group"
        )
    subscription = read_subscription(request.protocols)
    member_id = _admit(context, change, now, request, new_member_id)
    before = change.consumer.members.get(member_id)
    after = consumer_member(request.member(member_id), subscription)
    _save(context, change, now, before, after)
    _reconcile(context, change, now, member_id, subscription)
    return Joined(
        member_id=member_id,
        generation=change.consumer.current[member_id].epoch,
        protocol_type=embedded.PROTOCOL_TYPE,
        protocol=request.protocols[0].name,
        leader="",
    )


def _admit(
    context: CoordinatorContext,
    change: PendingChange,
    now: Timestamp,
    request: JoinRequest,
    new_member_id: str,
) -> str:
    """The id under which the member joins; as in a classic group."""
    waiters = context.peek_waiters(change.group_id)
    if request.member_id in waiters.pending:
        waiters.pending.discard(request.member_id)
        context.timers.clear(Timer(TimerKind.PENDING, change.group_id, request.member_id))
        check_size(context, change)
        return request.member_id
    if request.member_id:
        return find_member(change.consumer, request.member_id, request.instance_id).member_id
    holder = change.consumer.static.get(request.instance_id) if request.instance_id else None
    if holder is not None:
        replace_static_member(context, change, now, holder, new_member_id)
        return new_member_id
    check_size(context, change)
    if request.instance_id is None and request.requires_member_id:
        context.waiters(change.group_id).pending.add(new_member_id)
        pending = Timer(TimerKind.PENDING, change.group_id, new_member_id)
        context.timers.set(pending, Timestamp(now + request.session_timeout_ms))
        raise MemberIdRequired(new_member_id)
    return new_member_id


def _save(
    context: CoordinatorContext,
    change: PendingChange,
    now: Timestamp,
    before: ConsumerMember | None,
    after: ConsumerMember,
) -> None:
    if before == after:
        return
    change.write(ConsumerMemberSaved(change.group_id, after))
    if before is None:
        retarget(context, change, now, "member joined")
    elif before.subscribed_names != after.subscribed_names:
        retarget(context, change, now, "subscription changed")


def _reconcile(
    context: CoordinatorContext,
    change: PendingChange,
    now: Timestamp,
    member_id: str,
    subscription: embedded.Subscription,
) -> None:
    """An eager member gave up everything before it joined: it reports nothing, and so owns that."""
    group = change.consumer
    before = group.current[member_id]
    after = next_step(group, member_id, to_ids(context.topics, subscription.owned))
    if after.state is not MemberState.REVOKING:
        context.timers.clear(Timer(TimerKind.REVOCATION, change.group_id, member_id))
    if after is not before:
        move_member(context, change, now, member_id, after)
        note_if_settled(context, change, now)
    restart_session(context, change.consumer, member_id, now)


def sync(
    context: CoordinatorContext, change: PendingChange, now: Timestamp, request: SyncRequest
) -> Synced:
    group = change.consumer
    member = _check_speaker(group, request.member_id, request.instance_id, request.generation)
    current = group.current[member.member_id]
    restart_session(context, group, member.member_id, now)
    if current.epoch < group.target_epoch and current.state is not MemberState.REVOKING:
        _expect_rejoin(context, group, member, now)
        raise RebalanceInProgress("the assignment changed meanwhile")
    protocol = member.classic.protocols[0].name if member.classic else ""
    assignment = assignment_bytes(context.topics, group, member.member_id)
    return Synced(embedded.PROTOCOL_TYPE, protocol, assignment)


def heartbeat(
    context: CoordinatorContext,
    group: ConsumerGroup,
    now: Timestamp,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> None:
    member = _check_speaker(group, member_id, instance_id, generation)
    restart_session(context, group, member_id, now)
    if must_rejoin(group, member_id):
        _expect_rejoin(context, group, member, now)
        raise RebalanceInProgress("join again to learn the new assignment")


def _expect_rejoin(
    context: CoordinatorContext, group: ConsumerGroup, member: ConsumerMember, now: Timestamp
) -> None:
    """One that never joins again would hold its partitions as long as it heartbeats."""
    timer = Timer(TimerKind.REVOCATION, group.group_id, member.member_id)
    if timer not in context.timers:
        context.timers.set(timer, Timestamp(now + member.rebalance_timeout_ms))


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
    context: CoordinatorContext,
    change: PendingChange,
    now: Timestamp,
    leavers: Sequence[MemberIdentity],
) -> tuple[Left, ...]:
    """An administrator may so remove members of either protocol."""
    going: dict[str, None] = {}
    results = []
    for leaver in leavers:
        left = Left(leaver.member_id, leaver.instance_id)
        try:
            going[_find(change.consumer, leaver)] = None
        except GroupError as error:
            left = msgspec.structs.replace(left, error=error)
        results.append(left)
    if going:
        remove_members(context, change, going, now, "member left")
    return tuple(results)


def _find(group: ConsumerGroup, leaver: MemberIdentity) -> str:
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.static.get(leaver.instance_id, "")
    return find_member(group, member_id, leaver.instance_id).member_id
