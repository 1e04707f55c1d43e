"""OffsetCommit, OffsetFetch, OffsetDelete: how far a group has read.

Clients name topics, or from version 10 of commit and fetch on their ids.  Groups keep names, so an
id is turned into the name at the listener, and answers carry both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from goqueue.broker import Broker
from goqueue.cluster import Topic
from goqueue.groups import (
    CommitRequest,
    CommittedOffset,
    FetchedOffsets,
    FetchRequest,
    GroupMachine,
    OffsetToCommit,
    PartitionResult,
)
from goqueue.groups.errors import StaleMemberEpoch
from goqueue.model.errors import (
    GoQueueError,
    GroupAccessDenied,
    TopicAccessDenied,
    TopicNotFound,
)
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import check_group, coordinated_group
from goqueue.server.kafka.errors import coordinator_code, kafka_code
from goqueue.wire.messages import build
from goqueue.wire.shapes import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

MEMBER_EPOCH_FROM: Final = 9
TOPIC_IDS_FROM: Final = 10
GROUP_ERROR_FROM: Final = 2  # of OffsetFetch
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1

Codes = dict[TopicPartition, ErrorCode]


class NamedTopic(Protocol):
    """A topic in a request: by name, or by id."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> UUID | None: ...


class Found(NamedTuple):
    """The topic of a request, or why there is none."""

    topic: Topic | None
    error_code: ErrorCode


def _find(context: Context, wanted: NamedTopic, operation: Operation) -> Found:
    """If the client may do that to it."""
    broker, access = context.broker, context.access
    try:
        if context.header.api_version >= TOPIC_IDS_FROM:
            topic = broker.topic_by_id(wanted.topic_id or UUID(int=0))
            access.demand_topic(operation, topic.name)
        else:
            access.demand_topic(operation, wanted.name)
            topic = broker.topic(wanted.name)
        return Found(topic, ErrorCode.none)
    except GoQueueError as error:
        return Found(None, kafka_code(error))


# --- OffsetCommit -----------------------------------------------------------------------------


async def handle_offset_commit(
    context: Context, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    try:
        context.access.demand_group(Operation.READ, request.group_id)
    except GroupAccessDenied as error:
        return _refuse_commit(request, kafka_code(error))
    topics = [(topic, _find(context, topic, Operation.READ)) for topic in request.topics]
    offsets = tuple(_offsets(topics))
    codes = await _commit(context, request, offsets)
    return build(
        OffsetCommitResponse,
        topics=tuple(_commit_topic(topic, found, codes) for topic, found in topics),
    )


def _refuse_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """All of it: what there is, is not told."""
    refused = Found(None, code)
    return build(
        OffsetCommitResponse,
        topics=tuple(_commit_topic(topic, refused, {}) for topic in request.topics),
    )


def _offsets(
    topics: Iterable[tuple[OffsetCommitRequestTopic, Found]],
) -> Iterator[OffsetToCommit]:
    for topic, (known, _) in topics:
        if known is None:
            continue
        for partition in topic.partitions:
            if 0 <= partition.partition_index < known.partitions:
                yield OffsetToCommit(
                    topic=known.name,
                    partition=partition.partition_index,
                    offset=Offset(partition.committed_offset),
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                )


async def _commit(
    context: Context, request: OffsetCommitRequest, offsets: tuple[OffsetToCommit, ...]
) -> Codes:
    try:
        results = await context.broker.groups.commit(
            CommitRequest(
                group_id=coordinated_group(context, request.group_id, Operation.READ),
                offsets=offsets,
                member_id=request.member_id,
                generation=request.generation_id_or_member_epoch,
                instance_id=request.group_instance_id,
            )
        )
    except GoQueueError as error:
        code = _commit_code(error, context.header.api_version)
        return {TopicPartition(wanted.topic, wanted.partition): code for wanted in offsets}
    return _codes(results)


def _commit_code(error: GoQueueError, version: int) -> ErrorCode:
    """Older clients cannot know that their epoch is stale: they cannot be in such a group."""
    if isinstance(error, StaleMemberEpoch) and version < MEMBER_EPOCH_FROM:
        return ErrorCode.unsupported_version
    return coordinator_code(error)


def _codes(results: Iterable[PartitionResult]) -> Codes:
    return {
        TopicPartition(result.topic, result.partition): ErrorCode.none
        if result.error is None
        else coordinator_code(result.error)
        for result in results
    }


def _commit_topic(
    topic: OffsetCommitRequestTopic, found: Found, codes: Codes
) -> OffsetCommitResponseTopic:
    name = TopicName(topic.name) if found.topic is None else found.topic.name
    missing = found.error_code if found.topic is None else ErrorCode.unknown_topic_or_partition
    return build(
        OffsetCommitResponseTopic,
        topic_id=topic.topic_id,
        name=name,
        partitions=tuple(
            build(
                OffsetCommitResponsePartition,
                partition_index=partition.partition_index,
                error_code=codes.get(TopicPartition(name, partition.partition_index), missing),
            )
            for partition in topic.partitions
        ),
    )


# --- OffsetFetch ------------------------------------------------------------------------------


async def handle_offset_fetch(context: Context, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Positions; with `require_stable` none that an open transaction is going to move."""
    names = [GroupId(group.group_id) for group in request.groups]
    try:
        async with context.broker.groups.barrier_of(*names):
            groups = tuple(
                _fetch_group(context, group, request.require_stable) for group in request.groups
            )
    except GoQueueError as error:
        groups = tuple(_refuse_group(context, group, error) for group in request.groups)
    return build(OffsetFetchResponse, groups=groups)


def _refuse_group(
    context: Context, group: OffsetFetchRequestGroup, error: GoQueueError
) -> OffsetFetchResponseGroup:
    """Of the whole group; a version that cannot say that says it of each partition."""
    code = coordinator_code(error)
    asked = (group.topics or ()) if context.header.api_version < GROUP_ERROR_FROM else ()
    topics = tuple(
        build(
            OffsetFetchResponseTopic,
            name=topic.name,
            partitions=tuple(
                _fetch_partition(index, None, code) for index in topic.partition_indexes
            ),
        )
        for topic in asked
    )
    return build(OffsetFetchResponseGroup, group_id=group.group_id, topics=topics, error_code=code)


def _fetch_group(
    context: Context, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """All of it in one moment: an end that is awaited must not come between offset and answer."""
    broker = context.broker
    group_id = GroupId(group.group_id)
    try:
        context.access.demand_group(Operation.DESCRIBE, group_id)
        check_group(broker, group_id)
        machine = broker.groups.host_of(group_id).ahead
    except GoQueueError as error:
        return _refuse_group(context, group, error)
    topics = None
    if group.topics is not None:
        topics = [(topic, _find(context, topic, Operation.DESCRIBE)) for topic in group.topics]
    wanted = FetchRequest(
        group_id=group_id,
        partitions=None if topics is None else tuple(_list_wanted(topics)),
        member_id=group.member_id or "",
        member_epoch=group.member_epoch,
    )
    (fetched,) = machine.fetch([wanted]).reply.reply
    if topics is None:
        answers = _all_topics(context, fetched)
    else:
        answers = tuple(_fetch_topic(topic, found, fetched) for topic, found in topics)
    if require_stable:
        answers = tuple(_stable(machine, group.group_id, topic) for topic in answers)
    return build(
        OffsetFetchResponseGroup,
        group_id=group.group_id,
        topics=answers,
        error_code=ErrorCode.none if fetched.error is None else coordinator_code(fetched.error),
    )


def _list_wanted(
    topics: Iterable[tuple[OffsetFetchRequestTopic, Found]],
) -> Iterator[TopicPartition]:
    for topic, (known, _) in topics:
        if known is not None:
            for partition in topic.partition_indexes:
                yield TopicPartition(known.name, partition)


def _fetch_topic(
    topic: OffsetFetchRequestTopic, found: Found, fetched: FetchedOffsets
) -> OffsetFetchResponseTopic:
    """A topic that is not there has no offsets; only one asked for by id is a mistake.

    One that the client may not see is refused.
    """
    name = TopicName(topic.name) if found.topic is None else found.topic.name
    is_refused = found.error_code in (
        ErrorCode.unknown_topic_id,
        ErrorCode.topic_authorization_failed,
    )
    return build(
        OffsetFetchResponseTopic,
        topic_id=topic.topic_id,
        name=name,
        partitions=tuple(
            _fetch_partition(
                index,
                fetched.offsets.get(TopicPartition(name, index)),
                found.error_code if is_refused else ErrorCode.none,
            )
            for index in topic.partition_indexes
        ),
    )


def _stable(
    machine: GroupMachine, group_id: str, topic: OffsetFetchResponseTopic
) -> OffsetFetchResponseTopic:
    """With an error, and a reason to ask again, for each position that a transaction may move."""
    pending, name = machine.pending_offsets.of(GroupId(group_id)), TopicName(topic.name)
    partitions = tuple(
        _fetch_partition(partition.partition_index, None, ErrorCode.unstable_offset_commit)
        if partition.error_code is ErrorCode.none
        and TopicPartition(name, partition.partition_index) in pending
        else partition
        for partition in topic.partitions
    )
    return replace(topic, partitions=partitions)


def _all_topics(context: Context, fetched: FetchedOffsets) -> tuple[OffsetFetchResponseTopic, ...]:
    """Those that the client may see."""
    version, access = context.header.api_version, context.access
    topics: dict[TopicName, list[OffsetFetchResponsePartition]] = {}
    for (name, index), committed in sorted(fetched.offsets.items()):
        topics.setdefault(name, []).append(_fetch_partition(index, committed))
    ids = {name: _topic_id(context.broker, name) for name in topics}
    return tuple(
        build(
            OffsetFetchResponseTopic,
            topic_id=ids[name],
            name=name,
            partitions=tuple(partitions),
        )
        for name, partitions in topics.items()
        if (version < TOPIC_IDS_FROM or ids[name] is not None)
        and access.allows_topic(Operation.DESCRIBE, name)
    )


def _topic_id(broker: Broker, name: TopicName) -> UUID | None:
    topic = broker.metadata.find(name)
    return None if topic is None else topic.topic_id


def _fetch_partition(
    index: int, committed: CommittedOffset | None, error_code: ErrorCode = ErrorCode.none
) -> OffsetFetchResponsePartition:
    return build(
        OffsetFetchResponsePartition,
        partition_index=index,
        committed_offset=NO_OFFSET if committed is None else committed.offset,
        committed_leader_epoch=NO_EPOCH if committed is None else committed.leader_epoch,
        metadata="" if committed is None else committed.metadata,
        error_code=error_code,
    )


# --- OffsetDelete -----------------------------------------------------------------------------


async def handle_offset_delete(
    context: Context, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    broker, access = context.broker, context.access
    allowed = {
        str(topic.name)
        for topic in request.topics
        if access.allows_topic(Operation.READ, topic.name)
    }
    wanted: list[TopicPartition] = [
        TopicPartition(TopicName(topic.name), partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if topic.name in allowed and broker.metadata.find(topic.name) is not None
    ]
    try:
        group_id = coordinated_group(context, request.group_id, Operation.DELETE)
        results = await broker.groups.delete_offsets(group_id, wanted)
    except GoQueueError as error:
        return build(OffsetDeleteResponse, error_code=coordinator_code(error))
    return build(OffsetDeleteResponse, topics=_delete_topics(request, allowed, _codes(results)))


def _delete_topics(
    request: OffsetDeleteRequest,
    allowed: Collection[str],
    codes: Mapping[TopicPartition, ErrorCode],
) -> tuple[OffsetDeleteResponseTopic, ...]:
    missing, denied = (kafka_code(each("")) for each in (TopicNotFound, TopicAccessDenied))
    return tuple(
        build(
            OffsetDeleteResponseTopic,
            name=topic.name,
            partitions=tuple(
                build(
                    OffsetDeleteResponsePartition,
                    partition_index=partition.partition_index,
                    error_code=codes.get(
                        TopicPartition(TopicName(topic.name), partition.partition_index),
                        missing if topic.name in allowed else denied,
                    ),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
