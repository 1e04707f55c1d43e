"""CreateTopics, DeleteTopics, CreatePartitions.

Each topic of a request has its own outcome: what is wrong with one does not touch the others.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.cluster import Topic
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError, InvalidRequest, InvalidSetting
from goqueue.model.ids import NodeId
from goqueue.model.names import refuse_internal
from goqueue.security import Operation
from goqueue.server.kafka.config_entries import topic_entries
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.wire.messages import build

UNSAID: Final = -1  # a count that is left to the broker


# --- CreateTopics -----------------------------------------------------------------------------


async def handle_create_topics(
    context: Context, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """All at once, so that one flush of the metadata serves them all."""
    times = Counter(topic.name for topic in request.topics)
    results = await asyncio.gather(
        *(
            _create(context, topic, times[topic.name], request.validate_only)
            for topic in request.topics
        )
    )
    return build(CreateTopicsResponse, topics=tuple(results))


async def _create(
    context: Context, asked: CreatableTopic, times: int, validate_only: bool
) -> CreatableTopicResult:
    try:
        context.access.demand_creation(asked.name)
        if times > 1:
            raise InvalidRequest("the request names this topic more than once")
        topic = await context.broker.create_topic(
            asked.name,
            partitions=_partition_count(asked),
            settings=_settings(asked),
            validate_only=validate_only,
            replication_factor=(
                None if asked.replication_factor == UNSAID else asked.replication_factor
            ),
            assignments=_assignments(asked),
        )
    except GoQueueError as error:
        return _refuse_creation(asked, kafka_code(error), str(error))
    if not context.access.allows_topic(Operation.DESCRIBE_CONFIGS, topic.name):
        return build(
            CreatableTopicResult,
            name=topic.name,
            topic_id=None if validate_only else topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.topic_authorization_failed.value,
            configs=(),
        )
    return build(
        CreatableTopicResult,
        name=topic.name,
        topic_id=None if validate_only else topic.topic_id,
        error_message=None,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=_configs(context.broker.config, topic),
    )


def _refuse_creation(asked: CreatableTopic, code: ErrorCode, message: str) -> CreatableTopicResult:
    return build(
        CreatableTopicResult, name=asked.name, error_code=code, error_message=message, configs=()
    )


def _assignments(asked: CreatableTopic) -> list[Sequence[NodeId]] | None:
    if not asked.assignments:
        return None
    found = sorted(asked.assignments, key=lambda each: each.partition_index)
    return [[NodeId(node_id) for node_id in each.broker_ids] for each in found]


def _partition_count(asked: CreatableTopic) -> int | None:
    """How many partitions; None for as many as the server's default says."""
    if asked.assignments:
        if asked.num_partitions != UNSAID or asked.replication_factor != UNSAID:
            raise InvalidRequest("give either replicas for each partition, or counts, not both")
        indexes = sorted(each.partition_index for each in asked.assignments)
        if indexes != list(range(len(indexes))):
            raise InvalidRequest(f"replicas for partitions {indexes}: number them from 0 upwards")
        return len(indexes)
    return None if asked.num_partitions == UNSAID else asked.num_partitions


def _settings(asked: CreatableTopic) -> dict[str, str]:
    settings = {}
    for each in asked.configs:
        if each.value is None:
            raise InvalidSetting(f"{each.name} has no value")
        settings[each.name] = each.value
    return settings


def _configs(config: Config, topic: Topic) -> tuple[CreatableTopicConfigs, ...]:
    return tuple(
        build(CreatableTopicConfigs, name=entry.name, value=entry.value, config_source=entry.source)
        for entry in topic_entries(config, topic)
    )


# --- DeleteTopics -----------------------------------------------------------------------------


async def handle_delete_topics(
    context: Context, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    times = Counter((topic.name, topic.topic_id) for topic in request.topics)
    results = [
        await _delete(context, topic, times[topic.name, topic.topic_id]) for topic in request.topics
    ]
    return build(DeleteTopicsResponse, responses=tuple(results))


async def _delete(context: Context, asked: DeleteTopicState, times: int) -> DeletableTopicResult:
    try:
        if times > 1:
            raise InvalidRequest("the request names this topic more than once")
        name = _find_name(context.broker, asked)
        context.access.demand_topic(Operation.DELETE, name)
        topic = await context.broker.delete_topic(name)
    except GoQueueError as error:
        return build(
            DeletableTopicResult,
            name=asked.name,
            topic_id=asked.topic_id,
            error_code=kafka_code(error),
            error_message=str(error),
        )
    return build(DeletableTopicResult, name=topic.name, topic_id=topic.topic_id)


def _find_name(broker: Broker, asked: DeleteTopicState) -> str:
    match asked.name, asked.topic_id:
        case str(name), None:
            return name
        case None, topic_id if topic_id is not None:
            return broker.topic_by_id(topic_id).name
        case _:
            raise InvalidRequest("give either a topic's name or its id")


# --- CreatePartitions -------------------------------------------------------------------------


async def handle_create_partitions(
    context: Context, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    results = [
        await _add_partitions(context, topic, times[topic.name], request.validate_only)
        for topic in request.topics
    ]
    return build(CreatePartitionsResponse, results=tuple(results))


async def _add_partitions(
    context: Context, asked: CreatePartitionsTopic, times: int, validate_only: bool
) -> CreatePartitionsTopicResult:
    try:
        if times > 1:
            raise InvalidRequest("the request names this topic more than once")
        context.access.demand_topic(Operation.ALTER, asked.name)
        refuse_internal(asked.name)
        assignments = None
        if asked.assignments is not None:
            assignments = [[NodeId(each) for each in told.broker_ids] for told in asked.assignments]
        await context.broker.add_partitions(
            asked.name, asked.count, assignments=assignments, validate_only=validate_only
        )
    except GoQueueError as error:
        return _refuse_partitions(asked, kafka_code(error), str(error))
    return build(CreatePartitionsTopicResult, name=asked.name)


def _refuse_partitions(
    asked: CreatePartitionsTopic, code: ErrorCode, message: str
) -> CreatePartitionsTopicResult:
    return build(
        CreatePartitionsTopicResult, name=asked.name, error_code=code, error_message=message
    )
