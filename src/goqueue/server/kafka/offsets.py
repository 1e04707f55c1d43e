"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: finding and moving a partition's bounds."""

from typing import Final

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from goqueue.broker import NO_OFFSET, Broker, Partition
from goqueue.broker.messages.follower_reads import check_epoch
from goqueue.log import TimedOffset
from goqueue.model.errors import GoQueueError, OffsetNotAvailable, UnsupportedVersion
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.names import refuse_internal
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.fetch import READ_COMMITTED
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build

OFFSET_NOT_AVAILABLE_FROM: Final = 5  # of ListOffsets


async def handle_list_offsets(context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    committed_only = request.isolation_level == READ_COMMITTED
    topics = []
    async for topic in in_turns(request.topics):
        partitions = [
            await _list_offset(context, topic.name, wanted, committed_only)
            async for wanted in in_turns(topic.partitions)
        ]
        topics.append(
            build(ListOffsetsTopicResponse, name=topic.name, partitions=tuple(partitions))
        )
    return build(ListOffsetsResponse, topics=tuple(topics))


async def _list_offset(
    context: Context, topic: str, wanted: ListOffsetsPartition, committed_only: bool
) -> ListOffsetsPartitionResponse:
    broker = context.broker
    try:
        context.access.demand_topic(Operation.DESCRIBE, topic)
        partition = await broker.partition(topic, wanted.partition_index)
        check_epoch(partition, wanted.current_leader_epoch)
        found = await _find(broker, partition, wanted.timestamp, committed_only) or NO_OFFSET
    except GoQueueError as error:
        return build(
            ListOffsetsPartitionResponse,
            partition_index=wanted.partition_index,
            error_code=_code(error, context.header.api_version),
        )
    return build(
        ListOffsetsPartitionResponse,
        partition_index=wanted.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _code(error: GoQueueError, version: int) -> ErrorCode:
    """Older clients try again when there is no leader."""
    if isinstance(error, OffsetNotAvailable) and version < OFFSET_NOT_AVAILABLE_FROM:
        return ErrorCode.leader_not_available
    return kafka_code(error)


async def _find(
    broker: Broker, partition: Partition, timestamp: int, committed_only: bool
) -> TimedOffset | None:
    match timestamp:
        case -1:  # latest
            return await broker.latest_offset(partition, committed_only=committed_only)
        case -2 | -4:  # earliest; earliest on local disk, which is the same here
            return broker.earliest_offset(partition)
        case -3:  # the newest record
            return await broker.newest_record(partition, committed_only=committed_only)
        case -5 | -6:  # the latest in tiered storage, the earliest not there yet: there is none
            return None
        case _ if timestamp < 0:
            raise UnsupportedVersion(f"timestamp {timestamp} has no meaning here")
        case _:
            return await broker.offset_for_time(
                partition, Timestamp(timestamp), committed_only=committed_only
            )


# --- OffsetForLeaderEpoch ---------------------------------------------------------------------


async def handle_offset_for_leader_epoch(
    context: Context, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        partitions = [await _epoch_end(context, topic.topic, wanted) for wanted in topic.partitions]
        topics.append(
            build(OffsetForLeaderTopicResult, topic=topic.topic, partitions=tuple(partitions))
        )
    return build(OffsetForLeaderEpochResponse, topics=tuple(topics))


async def _epoch_end(
    context: Context, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        context.access.demand_topic(Operation.DESCRIBE, topic)
        partition = await context.broker.partition(topic, wanted.partition)
        check_epoch(partition, wanted.current_leader_epoch)
    except GoQueueError as error:
        return build(EpochEndOffset, partition=wanted.partition, error_code=kafka_code(error))
    log = partition.log
    epoch, end = log.epochs.end_offset_for(Epoch(wanted.leader_epoch), log.end_offset)
    return build(EpochEndOffset, partition=wanted.partition, leader_epoch=epoch, end_offset=end)


# --- DeleteRecords ----------------------------------------------------------------------------


async def handle_delete_records(
    context: Context, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        partitions = [await _delete(context, topic.name, wanted) for wanted in topic.partitions]
        topics.append(
            build(DeleteRecordsTopicResult, name=topic.name, partitions=tuple(partitions))
        )
    return build(DeleteRecordsResponse, topics=tuple(topics))


async def _delete(
    context: Context, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    broker = context.broker
    try:
        context.access.demand_topic(Operation.DELETE, topic)
        refuse_internal(topic)
        partition = await broker.partition(topic, wanted.partition_index)
        start = await broker.delete_records(partition, Offset(wanted.offset))
    except GoQueueError as error:
        return build(
            DeleteRecordsPartitionResult,
            partition_index=wanted.partition_index,
            low_watermark=-1,
            error_code=kafka_code(error),
        )
    return build(
        DeleteRecordsPartitionResult, partition_index=wanted.partition_index, low_watermark=start
    )
