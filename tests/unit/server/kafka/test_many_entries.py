"""Requests with many entries: others have their turn meanwhile, and nothing is done twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kio.schema.alter_partition_reassignments.v1.request import (
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.describe_user_scram_credentials.v0.request import UserName
from kio.schema.elect_leaders.v2.request import TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.list_offsets.v10.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.metadata.v13.request import MetadataRequestTopic
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData

from goqueue.broker import Broker
from goqueue.model.config import Config, TopicsConfig
from goqueue.model.errors import PolicyViolation
from goqueue.runtime import RealRandom, real_environment
from goqueue.server.kafka.fetch import handle_fetch
from goqueue.server.kafka.fetch_sessions import FetchSessions
from goqueue.server.kafka.limits import ENTRIES_AT_ONCE
from goqueue.server.kafka.metadata import TOPICS_CREATED_MAX
from goqueue.server.kafka.produce import handle_produce
from goqueue.wire.apis import ApiKey
from goqueue.wire.frames import RequestHeader
from goqueue.wire.messages import build, duration, response_class
from tests.unit.server.kafka.asking import access_of, ask
from tests.unit.wire.kio_side import kio_decode, kio_encode

ENTRIES = 20 * ENTRIES_AT_ONCE


class Turns:
    """How often somebody else had a turn."""

    def __init__(self) -> None:
        self.count = 0

    async def take(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1


@contextlib.asynccontextmanager
async def others() -> AsyncIterator[Turns]:
    turns = Turns()
    task = asyncio.ensure_future(turns.take())
    await asyncio.sleep(0)
    try:
        yield turns
    finally:
        task.cancel()


class Reply:
    """A slot that keeps what fills it."""

    def __init__(self) -> None:
        self.body = b""

    def fill(self, body: list[bytes] | None) -> None:
        self.body = b"".join(body or ())


def header(api: ApiKey, version: int, body: bytes) -> RequestHeader:
    return RequestHeader(api, version, 1, "c", True, memoryview(bytearray(body)))


async def fetched(broker: Broker, partitions: list[int]) -> list[int]:
    """The partitions in the answer."""
    asked = tuple(build(FetchPartition, partition=index) for index in partitions)
    topic = build(FetchTopic, topic="t", partitions=asked)
    request = build(FetchRequest, max_wait=duration(0), session_epoch=-1, topics=(topic,))
    sessions = FetchSessions(10, RealRandom())
    parts = await handle_fetch(
        broker, access_of(broker), sessions, 10**6, header(ApiKey.FETCH, 12, kio_encode(request))
    )
    answer = kio_decode(response_class(ApiKey.FETCH, 12), b"".join(map(bytes, parts)))
    return [each.partition_index for topic in answer.responses for each in topic.partitions]


async def test_a_partition_that_is_named_often_is_fetched_once(broker: Broker):
    await broker.create_topic("t", partitions=2)
    assert await fetched(broker, [1, 0, 1, 1, 0]) == [1, 0]


async def test_others_have_their_turn_during_a_long_fetch(broker: Broker):
    async with others() as turns:
        assert len(await fetched(broker, list(range(ENTRIES)))) == ENTRIES
    assert turns.count >= 2 * ENTRIES // ENTRIES_AT_ONCE - 2


async def test_others_have_their_turn_during_a_long_produce(broker: Broker):
    await broker.create_topic("t", partitions=1)
    items = tuple(build(PartitionProduceData, index=index) for index in range(ENTRIES))
    topic = build(TopicProduceData, name="t", partition_data=items)
    request = build(ProduceRequest, acks=-1, topic_data=(topic,))
    reply = Reply()
    async with others() as turns:
        await handle_produce(
            broker,
            access_of(broker),
            header(ApiKey.PRODUCE, 9, kio_encode(request)),
            reply,  # type: ignore[arg-type]  # all that is used of a slot
        )
    answer = kio_decode(response_class(ApiKey.PRODUCE, 9), reply.body)
    assert len(answer.responses[0].partition_responses) == ENTRIES
    assert turns.count >= ENTRIES // ENTRIES_AT_ONCE - 1


async def test_others_have_their_turn_during_long_questions(broker: Broker):
    names = tuple(build(MetadataRequestTopic, name=f"bad name {n}") for n in range(ENTRIES))
    wanted = tuple(build(ListOffsetsPartition, partition_index=n) for n in range(ENTRIES))
    topics = (build(ListOffsetsTopic, name="missing", partitions=wanted),)
    groups = tuple(f"g{n}" for n in range(ENTRIES))
    moves = tuple(build(ReassignablePartition, partition_index=n) for n in range(ENTRIES))
    moved = (build(ReassignableTopic, name="missing", partitions=moves),)
    elections = tuple(build(TopicPartitions, topic=name, partitions=(0,)) for name in groups)
    users = tuple(build(UserName, name=name) for name in groups)
    for asked in (
        ask(broker, ApiKey.METADATA, topics=names, allow_auto_topic_creation=True),
        ask(broker, ApiKey.LIST_OFFSETS, 10, topics=topics),
        ask(broker, ApiKey.DESCRIBE_GROUPS, groups=groups),
        ask(broker, ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=groups),
        ask(broker, ApiKey.SHARE_GROUP_DESCRIBE, group_ids=groups),
        ask(broker, ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=groups),
        ask(broker, ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=moved),
        ask(broker, ApiKey.ELECT_LEADERS, election_type=0, topic_partitions=elections),
        ask(broker, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=users),
    ):
        async with others() as turns:
            await asked
        assert turns.count >= ENTRIES // ENTRIES_AT_ONCE - 1


async def test_a_topic_that_is_named_often_is_described_once(broker: Broker):
    await broker.create_topic("t", partitions=3)
    names = (build(MetadataRequestTopic, name="t"),) * 50
    answer = await ask(broker, ApiKey.METADATA, topics=names)
    assert [topic.name for topic in answer.topics] == ["t"]


async def test_one_question_creates_a_bounded_number_of_topics(broker: Broker):
    names = tuple(build(MetadataRequestTopic, name=f"t{n}") for n in range(TOPICS_CREATED_MAX + 5))
    answer = await ask(broker, ApiKey.METADATA, topics=names, allow_auto_topic_creation=True)
    codes = [topic.error_code for topic in answer.topics]
    assert codes[:TOPICS_CREATED_MAX] == [ErrorCode.none] * TOPICS_CREATED_MAX
    assert codes[TOPICS_CREATED_MAX:] == [ErrorCode.leader_not_available] * 5
    answer = await ask(broker, ApiKey.METADATA, topics=names, allow_auto_topic_creation=True)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.none}


async def test_the_number_of_topics_is_bounded(tmp_path: Path):
    config = Config(data_dir=str(tmp_path), topics=TopicsConfig(count_max=2))
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, config).running() as broker:
            for name in ("a", "b"):
                await broker.create_topic(name, partitions=1)
            with pytest.raises(PolicyViolation, match=r"topics\.count_max"):
                await broker.create_topic("c", partitions=1)
            await broker.delete_topic("a")
            await broker.create_topic("c", partitions=1)
