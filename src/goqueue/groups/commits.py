"""Commit, fetch, delete and expire offsets.

A commit is fenced: a member of an older generation or epoch has lost its partitions, and its late
commit would take the new owner's position back.  In the consumer protocol an older epoch than the
member's own still counts for partitions that the member has held since that epoch.  A group
without members takes anybody's commits ("simple" consumers that assign partitions to themselves,
and administrators).
"""

from collections.abc import Sequence

import msgspec

from goqueue.groups import embedded
from goqueue.groups.classic import ClassicGroup
from goqueue.groups.classic_sync import check_speaker
from goqueue.groups.config import GroupsConfig
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.consumer_members import find_member
from goqueue.groups.context import CoordinatorContext, Group
from goqueue.groups.errors import (
    GroupError,
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMember,
)
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import (
    ClassicState,
    CommittedOffset,
    GroupDeleted,
    OffsetRecord,
    OffsetsCommitted,
    OffsetsDeleted,
    PendingOffsetsAdded,
    PendingOffsetsEnded,
)
from goqueue.model.ids import (
    GroupId,
    Offset,
    Timestamp,
    TopicIdPartition,
    TopicName,
    TopicPartition,
)
from goqueue.model.markers import Marker

NO_GENERATION = -1


class OffsetToCommit(msgspec.Struct, frozen=True):
    topic: TopicName
    partition: int
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    offsets: tuple[OffsetToCommit, ...]
    member_id: str = ""
    generation: int = NO_GENERATION  # or the member epoch
    instance_id: str | None = None
    retention_ms: int | None = None  # only old clients ask for one
    # Whose transaction commits the offsets with its end; -1: they are committed now.
    producer_id: int = -1
    producer_epoch: int = -1

    @property
    def is_transactional(self) -> bool:
        return self.producer_id >= 0


class PartitionResult(msgspec.Struct, frozen=True):
    topic: TopicName
    partition: int
    error: GroupError | None = None


def commit(change: PendingChange, request: CommitRequest) -> tuple[PartitionResult, ...]:
    """A result a partition; only metadata that is too long is refused one by one."""
    check_commit(change, request)
    committed, results = [], []
    for wanted in request.offsets:
        error = _metadata_error(change.context.config, wanted)
        results.append(PartitionResult(wanted.topic, wanted.partition, error))
        if error is None:
            at = _commit_time(change, wanted)
            committed.append(_committed_offset(wanted, at, request.retention_ms))
    if committed:
        change.write(_commit_record(request, tuple(committed)))
        change.check_offsets_later()
    return tuple(results)


def _commit_record(
    request: CommitRequest, offsets: tuple[CommittedOffset, ...]
) -> OffsetsCommitted | PendingOffsetsAdded:
    if request.is_transactional:
        return PendingOffsetsAdded(
            request.group_id, request.producer_id, request.producer_epoch, offsets
        )
    return OffsetsCommitted(request.group_id, offsets)


def end_transaction(change: PendingChange, marker: Marker) -> int:
    """Commit or drop what waits for the transaction's end; gives how many were committed.

    A second time nothing waits any more.
    """
    pending = change.context.offsets.pending.find_ended(change.group_id, marker)
    if not pending:
        return 0
    committed = tuple(
        msgspec.structs.replace(each, committed_at=_commit_time(change, each))
        for each in pending
        if marker.commits
    )
    change.write(
        PendingOffsetsEnded(change.group_id, marker.producer_id, marker.ended_epoch, committed)
    )
    change.check_offsets_later()
    return len(committed)


def _metadata_error(config: GroupsConfig, wanted: OffsetToCommit) -> OffsetMetadataTooLarge | None:
    size, most = len(wanted.metadata.encode()), config.offset_metadata_bytes_max
    if size <= most:
        return None
    return OffsetMetadataTooLarge(f"metadata of {size} bytes, {most} allowed")


def _commit_time(change: PendingChange, wanted: OffsetToCommit | CommittedOffset) -> Timestamp:
    """The time identifies a commit, so no two commits of a partition have the same."""
    before = change.context.offsets.of(change.group_id).get(
        TopicPartition(wanted.topic, wanted.partition)
    )
    if before is None or before.committed_at < change.now:
        return change.now
    return Timestamp(before.committed_at + 1)


def _committed_offset(
    wanted: OffsetToCommit, now: Timestamp, retention_ms: int | None
) -> CommittedOffset:
    return CommittedOffset(
        topic=wanted.topic,
        partition=wanted.partition,
        offset=wanted.offset,
        leader_epoch=wanted.leader_epoch,
        metadata=wanted.metadata,
        committed_at=now,
        expires_at=None if retention_ms is None else Timestamp(now + retention_ms),
    )


def check_commit(change: PendingChange, request: CommitRequest) -> None:
    """May this caller move the group's offsets?  Raises if not; a member's session is prolonged."""
    if not request.group_id:
        raise InvalidGroupId("a group has a name")
    group = change.group
    is_stranger = request.generation < 0 and not request.member_id and not request.instance_id
    if group is None:
        if request.generation >= 0:
            raise IllegalGeneration(f"group {request.group_id!r} has no generation yet")
    elif group.is_empty and request.generation < 0:
        pass
    elif is_stranger:
        if not request.is_transactional:
            raise UnknownMember(f"group {request.group_id!r} has members; the commit names none")
    elif isinstance(group, ClassicGroup):
        _check_classic(change, request)
    else:
        _check_consumer(change, request)


def _check_classic(change: PendingChange, request: CommitRequest) -> None:
    group = change.classic
    member = check_speaker(group, request.member_id, request.instance_id, request.generation)
    if not change.peek_waiters().is_waiting(member.member_id):
        change.restart_session(member.member_id, member.session_timeout_ms)
    if group.state is ClassicState.COMPLETING:
        raise RebalanceInProgress("the generation has no assignment yet")


def _check_consumer(change: PendingChange, request: CommitRequest) -> None:
    group = change.consumer
    member = find_member(group, request.member_id, request.instance_id)
    is_older = request.generation < group.current[request.member_id].epoch
    if member.classic is None and is_older and _has_owned_since(change.context, group, request):
        return
    _check_epoch(group, request.member_id, request.instance_id, request.generation)


def _has_owned_since(
    context: CoordinatorContext, group: ConsumerGroup, request: CommitRequest
) -> bool:
    """Has the member owned all partitions of the commit since the epoch that it names?"""
    topics = {
        name: context.topics.find_by_name(name) for name in {each.topic for each in request.offsets}
    }
    return all(
        (topic := topics[each.topic]) is not None
        and group.has_owned_since(
            request.member_id, TopicIdPartition(topic.topic_id, each.partition), request.generation
        )
        for each in request.offsets
    )


def _check_epoch(group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int) -> None:
    member = find_member(group, member_id, instance_id)
    known = group.current[member_id].epoch
    if epoch == known:
        return
    said = f"epoch {epoch} of member {member_id!r}, which is at {known}"
    raise StaleMemberEpoch(said) if member.classic is None else IllegalGeneration(said)


# --- fetch --------------------------------------------------------------------------------------


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One group of an OffsetFetch."""

    group_id: GroupId
    partitions: tuple[TopicPartition, ...] | None = None  # None: all there are
    member_id: str = ""
    member_epoch: int = NO_GENERATION


class FetchedOffsets(msgspec.Struct, frozen=True):
    group_id: GroupId
    offsets: dict[TopicPartition, CommittedOffset | None]
    error: GroupError | None = None


def fetch(
    context: CoordinatorContext, requests: Sequence[FetchRequest]
) -> tuple[FetchedOffsets, ...]:
    return tuple(_fetch_one(context, request) for request in requests)


def _fetch_one(context: CoordinatorContext, request: FetchRequest) -> FetchedOffsets:
    """Only consumer groups check the member; in Kafka, too, classic groups do not."""
    group = context.groups.get(request.group_id)
    names_member = request.member_id and request.member_epoch >= 0
    if names_member and isinstance(group, ConsumerGroup):
        try:
            _check_epoch(group, request.member_id, None, request.member_epoch)
        except GroupError as error:
            return FetchedOffsets(request.group_id, {}, error)
    held = context.offsets.of(request.group_id)
    wanted = held if request.partitions is None else request.partitions
    return FetchedOffsets(request.group_id, {key: held.get(key) for key in wanted})


# --- delete -------------------------------------------------------------------------------------


def delete(
    change: PendingChange, partitions: Sequence[TopicPartition]
) -> tuple[PartitionResult, ...]:
    """Offsets of topics that a member reads stay."""
    group, offsets = change.group, change.context.offsets
    if group is None and change.group_id not in offsets:
        raise GroupNotFound(f"no group {change.group_id!r}")
    wanted = frozenset[TopicName]() if group is None else subscribed_topics(group)
    if wanted is None:
        raise GroupNotEmpty(f"group {change.group_id!r} has members; what they read is not known")
    held = offsets.of(change.group_id)
    gone = tuple(key for key in partitions if key[0] not in wanted and key in held)
    if gone:
        change.write(OffsetsDeleted(change.group_id, gone))
    return tuple(
        PartitionResult(topic, partition, _in_use(topic) if topic in wanted else None)
        for topic, partition in partitions
    )


def _in_use(topic: TopicName) -> GroupSubscribedToTopic:
    return GroupSubscribedToTopic(f"a member reads {topic!r}")


def subscribed_topics(group: Group) -> frozenset[TopicName] | None:
    """What the members read; None if they speak a protocol that only they understand."""
    if isinstance(group, ConsumerGroup):
        names = {name for member in group.members.values() for name in member.subscribed_names}
        return frozenset(names | {topic.name for topic in group.topics})
    if group.is_empty:
        return frozenset()
    if group.protocol_type != embedded.PROTOCOL_TYPE:
        return None
    try:
        return frozenset(
            topic
            for member in group.members.values()
            for topic in embedded.read_subscription(member.protocols[0].metadata).topics
        )
    except InconsistentGroupProtocol:
        return None


def topics_deleted(
    context: CoordinatorContext, names: frozenset[TopicName]
) -> tuple[OffsetRecord, ...]:
    """Offsets of a deleted topic must not count in a later topic of the same name."""
    offsets = context.offsets
    found = (
        (group_id, tuple(key for key in offsets.partitions(group_id) if key[0] in names))
        for group_id in offsets.all_groups()
    )
    return tuple(OffsetsDeleted(group_id, keys) for group_id, keys in found if keys)


# --- expiry -------------------------------------------------------------------------------------


def expire(change: PendingChange) -> None:
    """Drop what is old, then a group that has nothing left; look again later otherwise."""
    context, group = change.context, change.group
    held = context.offsets.of(change.group_id)
    pending = context.offsets.pending.of(change.group_id)
    wanted = frozenset[TopicName]() if group is None else subscribed_topics(group)
    old = tuple(
        key
        for key, committed in held.items()
        if wanted is not None
        and key[0] not in wanted
        and key not in pending
        and _expires_at(context.config, group, committed) <= change.now
    )
    if old:
        change.write(OffsetsDeleted(change.group_id, old))
    if len(old) < len(held) or pending or (group is not None and not group.is_empty):
        change.check_offsets_later()
        return
    context.drop(change.group_id)
    if group is not None:
        change.write(GroupDeleted(change.group_id))


def _expires_at(config: GroupsConfig, group: Group | None, committed: CommittedOffset) -> Timestamp:
    """The retention of an empty group's offsets begins when it became empty."""
    if committed.expires_at is not None:
        return committed.expires_at
    since = committed.committed_at
    if group is not None and group.is_empty:
        since = max(since, group.changed_at)
    return Timestamp(since + config.offset_retention_ms)
