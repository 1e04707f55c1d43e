"""A group changes its protocol: while empty at any time, while in use if it can be translated.

Classic members of type `consumer` put their subscriptions and assignments into bytes that can be
read (`embedded`), so a live classic group can become a consumer group when the first member of
that protocol comes: the old members stay, keep what they own, and are sent to join again.  When
the last member of the consumer protocol goes, the group is classic again.  That is how a fleet is
upgraded, and rolled back, one process at a time.
"""

from collections.abc import Iterable, Mapping

from goqueue.groups import embedded
from goqueue.groups.classic import ClassicGroup
from goqueue.groups.classic_phases import prepare_rebalance
from goqueue.groups.consumer import ConsumerGroup, Current
from goqueue.groups.errors import (
    GroupError,
    GroupNotFound,
    InconsistentGroupProtocol,
    RebalanceInProgress,
)
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import (
    ClassicAssigned,
    ClassicMember,
    ClassicMemberSaved,
    ClassicPhaseChanged,
    ClassicState,
    ClassicTraits,
    ConsumerMember,
    ConsumerMemberSaved,
    EpochBumped,
    GroupDeleted,
    MemberState,
    Protocol,
)
from goqueue.groups.targets import ResolvedSubscriptions
from goqueue.groups.timers import TimerKind
from goqueue.groups.topics import TopicsView
from goqueue.model.ids import Timestamp, TopicIdPartition, TopicName

# --- classic to consumer ------------------------------------------------------------------------


def make_consumer(change: PendingChange) -> None:
    """Convert the group, if there is one, to the consumer protocol."""
    group = change.group
    if not isinstance(group, ClassicGroup):
        return
    if group.is_empty:
        change.write(GroupDeleted(change.group_id))
        return
    try:
        held = {member_id: _read_owned(change, group, member_id) for member_id in group.members}
        members = [
            consumer_member(member, read_subscription(member.protocols))
            for member in group.members.values()
        ]
    except GroupError as error:
        raise GroupNotFound(
            f"group {change.group_id!r} is classic and cannot be translated: {error}"
        ) from error
    _reject_all_parked(change)
    _write_consumer(change, members, _drop_duplicates(held))


def _read_owned(change: PendingChange, group: ClassicGroup, member_id: str) -> PartitionSet:
    """The partitions that the member owns.

    One that joined in this phase has said so in its subscription (an eager one has nothing);
    of the others the last assignment stands.
    """
    if group.protocol_type != embedded.PROTOCOL_TYPE:
        raise InconsistentGroupProtocol(f"protocol type {group.protocol_type!r}")
    joining = change.waiters.joining
    if group.state is ClassicState.COMPLETING or member_id in joining:
        owned = read_subscription(group.members[member_id].protocols).owned
        return to_ids(change.context.topics, owned)
    assignment = group.assignments.get(member_id, b"")
    return to_ids(change.context.topics, embedded.read_assignment(assignment))


def _drop_duplicates(held: Mapping[str, PartitionSet]) -> dict[str, PartitionSet]:
    """A client's own assignor may have given a partition twice; here it goes to the first."""
    taken: set[TopicIdPartition] = set()
    result = {}
    for member_id, partitions in held.items():
        result[member_id] = partitions - taken
        taken |= partitions
    return result


def consumer_member(member: ClassicMember, subscription: embedded.Subscription) -> ConsumerMember:
    """A classic member, as a consumer group keeps it."""
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_names=tuple(sorted(set(subscription.topics))),
        subscribed_regex=None,
        assignor=None,
        classic=ClassicTraits(member.session_timeout_ms, member.protocols, subscription.version),
    )


def read_subscription(protocols: Iterable[Protocol]) -> embedded.Subscription:
    """All protocols of a consumer carry the same topics; its favourite is read."""
    return embedded.read_subscription(next(iter(protocols)).metadata)


def _reject_all_parked(change: PendingChange) -> None:
    """No request waits in a consumer group: clients send theirs again."""
    for kind in (TimerKind.JOIN, TimerKind.SYNC):
        change.clear_timer(kind)
    change.waiters.unsynced.clear()
    for member in change.classic.members.values():
        if change.waiters.is_waiting(member.member_id):
            change.reject_parked(member.member_id, RebalanceInProgress("the protocol changed"))
            change.restart_session(member.member_id, member.session_timeout_ms)


def _write_consumer(
    change: PendingChange,
    members: list[ConsumerMember],
    held: dict[str, PartitionSet],
) -> None:
    epoch = change.classic.generation
    change.write(GroupDeleted(change.group_id))
    for member in members:
        change.write(ConsumerMemberSaved(change.group_id, member))
    topics = ResolvedSubscriptions(
        change.context.topics, {member.subscription for member in members}
    ).topics()
    change.write(EpochBumped(change.group_id, epoch, topics, change.now))
    change.write(change.consumer.target_record(epoch, "", held))
    for member in members:
        seat = Current(epoch, epoch, MemberState.STABLE, held[member.member_id])
        change.write(change.consumer.move_record(member.member_id, seat))


# --- consumer to classic ------------------------------------------------------------------------


def make_classic(change: PendingChange) -> None:
    """Convert a group whose members are all classic, and open a rebalance."""
    group = change.consumer
    assignments = {
        member_id: assignment_bytes(change.context.topics, group, member_id)
        for member_id in group.members
    }
    members = [_to_classic(member) for member in group.members.values()]
    for member in members:
        change.clear_timer(TimerKind.REVOCATION, member.member_id)
    change.write(GroupDeleted(change.group_id))
    for member in members:
        change.write(ClassicMemberSaved(change.group_id, member))
    change.write(_stable_phase(change.classic, group.epoch, change.now))
    change.write(ClassicAssigned(change.group_id, assignments, change.now))
    prepare_rebalance(change, "protocol changed")


def _stable_phase(group: ClassicGroup, generation: int, now: Timestamp) -> ClassicPhaseChanged:
    return ClassicPhaseChanged(
        group.group_id,
        ClassicState.STABLE,
        generation,
        embedded.PROTOCOL_TYPE,
        group.elect_protocol(),
        next(iter(group.members)),
        now,
    )


def _to_classic(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only classic members are left"
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocol_type=embedded.PROTOCOL_TYPE,
        protocols=member.classic.protocols,
    )


def assignment_bytes(view: TopicsView, group: ConsumerGroup, member_id: str) -> bytes:
    """The assignment of a classic member, in the version of its subscription."""
    partitions: dict[str, list[int]] = {}
    for topic_id, partition in group.current[member_id].assigned:
        topic = view.find_by_id(topic_id)
        if topic is not None:
            partitions.setdefault(topic.name, []).append(partition)
    traits = group.members[member_id].classic
    return embedded.write_assignment(partitions, traits.version if traits else 0)


def to_ids(view: TopicsView, partitions: Mapping[TopicName, Iterable[int]]) -> PartitionSet:
    """Names to ids; topics that are gone are left out."""
    if not partitions:
        return NO_PARTITIONS
    topics = {name: view.find_by_name(name) for name in partitions}
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for name, topic in topics.items()
        if topic is not None
        for partition in partitions[name]
    )
