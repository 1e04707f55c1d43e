"""DescribeLogDirs, AlterReplicaLogDirs: where logs lie and how large they are.

A node keeps everything in one directory, so nothing can be moved to another.
"""

from collections.abc import Iterable, Sequence

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.cluster import Topic
from goqueue.model.errors import GoQueueError
from goqueue.security import Operation
from goqueue.server.kafka.config_entries import absolute
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build


async def handle_describe_log_dirs(
    context: Context, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """One directory, and in it the logs asked for.  What there is not is left out, as in Kafka."""
    broker = context.broker
    disk, data_dir = broker.environment.disk, broker.config.data_dir
    try:
        context.access.demand_cluster(Operation.DESCRIBE)
        topics = [
            await _describe_topic(broker, topic, indexes)
            for topic, indexes in _logs_asked_for(broker, request)
        ]
        usable_bytes = await disk.in_background(lambda: disk.free_bytes(data_dir))
    except GoQueueError as error:
        return build(DescribeLogDirsResponse, error_code=kafka_code(error), results=())
    result = build(
        DescribeLogDirsResult,
        log_dir=absolute(data_dir),
        topics=tuple(topics),
        usable_bytes=usable_bytes,
    )
    return build(DescribeLogDirsResponse, results=(result,))


def _logs_asked_for(
    broker: Broker, request: DescribeLogDirsRequest
) -> list[tuple[Topic, Sequence[int]]]:
    """With the partitions that have a replica here."""
    if request.topics is None:
        topics = broker.topics(internal=True)
        return [(topic, _find_here(broker, topic, range(topic.partitions))) for topic in topics]
    found: list[tuple[Topic, Sequence[int]]] = []
    for asked in request.topics:
        topic = broker.metadata.find(asked.topic)
        if topic is not None:
            found.append((topic, _find_here(broker, topic, asked.partitions)))
    return found


def _find_here(broker: Broker, topic: Topic, indexes: Iterable[int]) -> list[int]:
    states, node_id = broker.metadata.partitions.of(topic.topic_id), broker.node_id
    return [
        index
        for index in indexes
        if topic.has_partition(index) and node_id in states[index].replicas
    ]


async def _describe_topic(
    broker: Broker, topic: Topic, indexes: Sequence[int]
) -> DescribeLogDirsTopic:
    sizes = await broker.partitions.log_bytes(topic, indexes)
    partitions = tuple(
        build(DescribeLogDirsPartition, partition_index=index, partition_size=size)
        for index, size in sorted(sizes.items())
    )
    return build(DescribeLogDirsTopic, name=topic.name, partitions=partitions)


async def handle_alter_replica_log_dirs(
    context: Context, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Nothing moves: a log stays where it is, and there is no other directory."""
    may = context.access.allows_cluster(Operation.ALTER)
    own = absolute(context.broker.config.data_dir)
    results = []
    async for directory in in_turns(request.dirs):
        async for topic in in_turns(directory.topics):
            found = context.broker.metadata.find(topic.name)
            partitions = tuple(
                build(
                    AlterReplicaLogDirPartitionResult,
                    partition_index=index,
                    error_code=_move_code(found, index, is_own=absolute(directory.path) == own)
                    if may
                    else ErrorCode.cluster_authorization_failed,
                )
                for index in topic.partitions
            )
            results.append(
                build(AlterReplicaLogDirTopicResult, topic_name=topic.name, partitions=partitions)
            )
    return build(AlterReplicaLogDirsResponse, results=tuple(results))


def _move_code(topic: Topic | None, index: int, *, is_own: bool) -> ErrorCode:
    if topic is None or not topic.has_partition(index):
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.none if is_own else ErrorCode.log_dir_not_found
