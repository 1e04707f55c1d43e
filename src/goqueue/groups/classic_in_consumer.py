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
from goqueue.groups.timers import TimerKind


def join(
    change: PendingChange,
    request: JoinRequest,
    new_member_id: str,
) -> Joined:
    if request.protocol_type != embedded.PROTOCOL_TYPE:
        raise InconsistentGroupProtocol(
            f"protocol type {request.protocol_type!r} in a consumer group"
        )
    subscription = read_subscription(request.protocols)
    member_id = _admit(change, request, new_member_id)
    before = change.consumer.members.get(member_id)
    after = consumer_member(request.member(member_id), subscription)
    _save(change, before, after)
    _reconcile(change, member_id, subscription)
    return Joined(
        member_id=member_id,
        generation=change.consumer.current[member_id].epoch,
        protocol_type=embedded.PROTOCOL_TYPE,
        protocol=request.protocols[0].name,
        leader="",
    )


def _admit(
    change: PendingChange,
    request: JoinRequest,
    new_member_id: str,
) -> str:
    """The id under which the member joins; as in a classic group."""
    waiters = change.peek_waiters()
    if request.member_id in waiters.pending:
        waiters.pending.discard(request.member_id)
        change.clear_timer(TimerKind.PENDING, request.member_id)
        check_size(change)
        return request.member_id
    if request.member_id:
        return find_member(change.consumer, request.member_id, request.instance_id).member_id
    holder = change.consumer.static.get(request.instance_id) if request.instance_id else None
    if holder is not None:
        replace_static_member(change, holder, new_member_id)
        return new_member_id
    check_size(change)
    if request.instance_id is None and request.requires_member_id:
        change.waiters.pending.add(new_member_id)
        change.set_timer(TimerKind.PENDING, request.session_timeout_ms, new_member_id)
        raise MemberIdRequired(new_member_id)
    return new_member_id


def _save(
    change: PendingChange,
    before: ConsumerMember | None,
    after: ConsumerMember,
) -> None:
    if before == after:
        return
    change.write(ConsumerMemberSaved(change.group_id, after))
    if before is None:
        retarget(change, "member joined")
    elif before.subscribed_names != after.subscribed_names:
        retarget(change, "subscription changed")


def _reconcile(
    change: PendingChange,
    member_id: str,
    subscription: embedded.Subscription,
) -> None:
    """An eager member gave up all partitions before it joined, so it reports none."""
    group = change.consumer
    before = group.current[member_id]
    after = next_step(group, member_id, to_ids(change.context.topics, subscription.owned))
    if after.state is not MemberState.REVOKING:
        change.clear_timer(TimerKind.REVOCATION, member_id)
    if after is not before:
        move_member(change, member_id, after)
        note_if_settled(change)
    restart_session(change, member_id)


def sync(change: PendingChange, request: SyncRequest) -> Synced:
    group = change.consumer
    member = _check_speaker(group, request.member_id, request.instance_id, request.generation)
    current = group.current[member.member_id]
    restart_session(change, member.member_id)
    if current.epoch < group.target_epoch and current.state is not MemberState.REVOKING:
        _expect_rejoin(change, member)
        raise RebalanceInProgress("the assignment changed meanwhile")
    protocol = member.classic.protocols[0].name if member.classic else ""
    assignment = assignment_bytes(change.context.topics, group, member.member_id)
    return Synced(embedded.PROTOCOL_TYPE, protocol, assignment)


def heartbeat(
    change: PendingChange, member_id: str, instance_id: str | None, generation: int
) -> None:
    member = _check_speaker(change.consumer, member_id, instance_id, generation)
    restart_session(change, member_id)
    if must_rejoin(change.consumer, member_id):
        _expect_rejoin(change, member)
        raise RebalanceInProgress("join again to learn the new assignment")


def _expect_rejoin(change: PendingChange, member: ConsumerMember) -> None:
    """Without a deadline, a member that never joins again would keep its partitions."""
    if not change.has_timer(TimerKind.REVOCATION, member.member_id):
        change.set_timer(TimerKind.REVOCATION, member.rebalance_timeout_ms, member.member_id)


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
    change: PendingChange,
    leavers: Sequence[MemberIdentity],
) -> tuple[Left, ...]:
    """An administrator may remove members of either protocol with it."""
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
        remove_members(change, going, "member left")
    return tuple(results)


def _find(group: ConsumerGroup, leaver: MemberIdentity) -> str:
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.static.get(leaver.instance_id, "")
    return find_member(group, member_id, leaver.instance_id).member_id
