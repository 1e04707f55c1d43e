"""Topics are created, grown, deleted and weighed: each with its own outcome."""

from typing import Any
from uuid import uuid4

import pytest
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsTopic,
)
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.model import batch as batches
from goqueue.model.record import Record
from goqueue.server.kafka.config_entries import Source
from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.messages import build
from tests.unit.server.kafka.asking import ask


def wanted(name: str, partitions: int = -1, replicas: int = -1, **fields: Any) -> CreatableTopic:
    return build(
        CreatableTopic,
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        **fields,
    )


def placed(*nodes_of_partitions: tuple[int, ...]) -> tuple[CreatableReplicaAssignment, ...]:
    return tuple(
        build(CreatableReplicaAssignment, partition_index=index, broker_ids=nodes)
        for index, nodes in enumerate(nodes_of_partitions)
    )


def setting(name: str, value: str | None) -> CreatableTopicConfig:
    return build(CreatableTopicConfig, name=name, value=value)


async def create(broker: Broker, *topics: CreatableTopic, **fields: Any) -> Any:
    response = await ask(broker, ApiKey.CREATE_TOPICS, topics=topics, **fields)
    return response.topics[0] if len(topics) == 1 else response.topics


# --- CreateTopics -----------------------------------------------------------------------------


async def test_a_topic_is_described_in_the_answer(broker: Broker):
    topic = await create(broker, wanted("a", 5, configs=(setting("retention.ms", "77"),)))
    assert topic.error_code is ErrorCode.none
    assert topic.error_message is None
    assert topic.topic_id == broker.topic("a").topic_id
    assert (topic.num_partitions, topic.replication_factor) == (5, 1)
    sources = {config.name: (config.value, config.config_source) for config in topic.configs}
    assert sources["retention.ms"] == ("77", Source.TOPIC)
    assert sources["retention.bytes"] == ("-1", Source.DEFAULT)


@pytest.mark.parametrize("version", range(VERSIONS[ApiKey.CREATE_TOPICS].min, 8))
async def test_every_version_is_answered(broker: Broker, version: int):
    response = await ask(broker, ApiKey.CREATE_TOPICS, version, topics=(wanted("a"), wanted("__b")))
    assert [topic.error_code for topic in response.topics] == [
        ErrorCode.none,
        ErrorCode.policy_violation,
    ]


async def test_what_is_not_said_is_the_servers_default(broker: Broker):
    assert (await create(broker, wanted("a"))).num_partitions == 3


async def test_partitions_may_be_placed_on_this_node(broker: Broker):
    topic = await create(broker, wanted("a", assignments=placed((1,), (1,))))
    assert (topic.error_code, topic.num_partitions) == (ErrorCode.none, 2)


async def test_validate_only_answers_and_creates_nothing(broker: Broker):
    topic = await create(broker, wanted("a", 5), validate_only=True)
    assert (topic.error_code, topic.num_partitions) == (ErrorCode.none, 5)
    assert broker.metadata.find("a") is None


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("no spaces"), ErrorCode.invalid_topic_exception),
        (wanted(""), ErrorCode.invalid_topic_exception),
        (wanted("__groups"), ErrorCode.policy_violation),
        (wanted("a", 0), ErrorCode.invalid_partitions),
        (wanted("a", -2), ErrorCode.invalid_partitions),
        (wanted("a", 1_000_000), ErrorCode.invalid_partitions),
        (wanted("a", 1, 3), ErrorCode.invalid_replication_factor),
        (wanted("a", 1, 0), ErrorCode.invalid_replication_factor),
        (wanted("a", assignments=placed((2,))), ErrorCode.invalid_replica_assignment),
        (wanted("a", assignments=placed((1, 2))), ErrorCode.invalid_replica_assignment),
        (wanted("a", assignments=placed(())), ErrorCode.invalid_replica_assignment),
        (wanted("a", 2, assignments=placed((1,))), ErrorCode.invalid_request),
        (wanted("a", 2, assignments=placed((2,))), ErrorCode.invalid_request),
        (wanted("a", -1, 1, assignments=placed((2,))), ErrorCode.invalid_request),
        (wanted("a", configs=(setting("retention.ms", "soon"),)), ErrorCode.invalid_config),
        (wanted("a", configs=(setting("retention.ms", None),)), ErrorCode.invalid_config),
        (wanted("a", configs=(setting("nonsense", "1"),)), ErrorCode.invalid_config),
    ],
)
async def test_what_cannot_be_is_refused_with_a_reason(
    broker: Broker, topic: CreatableTopic, code: ErrorCode
):
    refused = await create(broker, topic)
    assert refused.error_code is code
    assert refused.error_message
    assert not broker.topics()


async def test_gaps_between_placed_partitions_are_refused(broker: Broker):
    gap = build(CreatableReplicaAssignment, partition_index=1, broker_ids=(1,))
    assert (await create(broker, wanted("a", assignments=(gap,)))).error_code is (
        ErrorCode.invalid_request
    )


async def test_one_topics_error_is_not_the_others(broker: Broker):
    topics = await create(broker, wanted("a"), wanted("b", 0), wanted("c"), wanted("c"))
    assert [topic.error_code for topic in topics] == [
        ErrorCode.none,
        ErrorCode.invalid_partitions,
        ErrorCode.invalid_request,  # named twice
        ErrorCode.invalid_request,
    ]
    assert [topic.name for topic in broker.topics()] == ["a"]


# --- DeleteTopics -----------------------------------------------------------------------------


async def test_topics_are_deleted_by_name_and_by_id(broker: Broker):
    await broker.create_topic("a")
    b = await broker.create_topic("b")
    asked = (
        build(DeleteTopicState, name="a"),
        build(DeleteTopicState, name=None, topic_id=b.topic_id),
    )
    response = await ask(broker, ApiKey.DELETE_TOPICS, topics=asked)
    assert [(each.error_code, each.name) for each in response.responses] == [
        (ErrorCode.none, "a"),
        (ErrorCode.none, "b"),
    ]
    assert not broker.topics()


@pytest.mark.parametrize(
    ("name", "topic_id", "code"),
    [
        ("nothing", None, ErrorCode.unknown_topic_or_partition),
        (None, uuid4(), ErrorCode.unknown_topic_id),
        (None, None, ErrorCode.invalid_request),
        ("both", uuid4(), ErrorCode.invalid_request),
        ("__metadata", None, ErrorCode.policy_violation),
    ],
)
async def test_what_cannot_be_deleted_is_refused(
    broker: Broker, name: str | None, topic_id: Any, code: ErrorCode
):
    asked = build(DeleteTopicState, name=name, topic_id=topic_id)
    (refused,) = (await ask(broker, ApiKey.DELETE_TOPICS, topics=(asked,))).responses
    assert refused.error_code is code
    assert refused.error_message
    assert (refused.name, refused.topic_id) == (name, topic_id)


async def test_a_topic_named_twice_is_deleted_by_neither(broker: Broker):
    await broker.create_topic("a")
    asked = (build(DeleteTopicState, name="a"), build(DeleteTopicState, name="a"))
    response = await ask(broker, ApiKey.DELETE_TOPICS, topics=asked)
    assert {each.error_code for each in response.responses} == {ErrorCode.invalid_request}
    assert broker.metadata.find("a") is not None


# --- CreatePartitions -------------------------------------------------------------------------


async def grow(
    broker: Broker, name: str, count: int, *nodes: tuple[int, ...], validate_only: bool = False
) -> Any:
    assignments = tuple(build(CreatePartitionsAssignment, broker_ids=each) for each in nodes)
    asked = build(CreatePartitionsTopic, name=name, count=count, assignments=assignments or None)
    response = await ask(
        broker, ApiKey.CREATE_PARTITIONS, topics=(asked,), validate_only=validate_only
    )
    return response.results[0]


async def test_a_topic_grows(broker: Broker):
    await broker.create_topic("a", partitions=2)
    assert (await grow(broker, "a", 4, validate_only=True)).error_code is ErrorCode.none
    assert broker.topic("a").partitions == 2
    assert (await grow(broker, "a", 4)).error_code is ErrorCode.none
    assert broker.topic("a").partitions == 4
    assert (await grow(broker, "a", 5, (1,))).error_code is ErrorCode.none
    assert broker.topic("a").partitions == 5


@pytest.mark.parametrize(
    ("name", "count", "nodes", "code"),
    [
        ("a", 1, (), ErrorCode.invalid_partitions),
        ("a", 2, (), ErrorCode.invalid_partitions),
        ("a", 1_000_000, (), ErrorCode.invalid_partitions),
        ("a", 4, ((1,),), ErrorCode.invalid_replica_assignment),
        ("a", 3, ((9,),), ErrorCode.invalid_replica_assignment),
        ("nothing", 3, (), ErrorCode.unknown_topic_or_partition),
        ("__metadata", 3, (), ErrorCode.policy_violation),
    ],
)
async def test_growth_that_cannot_be_is_refused(
    broker: Broker, name: str, count: int, nodes: Any, code: ErrorCode
):
    await broker.create_topic("a", partitions=2)
    refused = await grow(broker, name, count, *nodes)
    assert refused.error_code is code
    assert refused.error_message
    assert broker.topic("a").partitions == 2


# --- DescribeLogDirs --------------------------------------------------------------------------


async def test_logs_are_weighed_without_being_opened(broker: Broker):
    await broker.create_topic("a", partitions=2)
    partition = await broker.partition("a", 0)
    batch = batches.encode([Record(0, 1, b"key", b"value")])
    broker.append(partition, batch)
    (directory,) = (await ask(broker, ApiKey.DESCRIBE_LOG_DIRS, topics=None)).results
    (topic,) = (each for each in directory.topics if each.name == "a")
    sizes = {each.partition_index: each.partition_size for each in topic.partitions}
    assert sizes == {0: len(batch), 1: 0}
    assert broker.partitions.find_open("a", 1) is None
    assert directory.log_dir == broker.config.data_dir
    assert directory.usable_bytes > 0


async def test_only_the_logs_asked_for_are_weighed(broker: Broker):
    await broker.create_topic("a", partitions=5)
    await broker.create_topic("b")
    asked = (
        build(DescribableLogDirTopic, topic="a", partitions=(1, 3, 3, 77)),
        build(DescribableLogDirTopic, topic="nothing", partitions=(0,)),
    )
    (directory,) = (await ask(broker, ApiKey.DESCRIBE_LOG_DIRS, topics=asked)).results
    (topic,) = directory.topics
    assert [each.partition_index for each in topic.partitions] == [1, 3]
