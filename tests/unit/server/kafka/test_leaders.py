"""A client that asks a node which does not lead is told who does, and where (KIP-951)."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.share_acknowledge.v2 import request as share_acknowledge
from kio.schema.share_fetch.v2.request import FetchPartition, FetchTopic

from goqueue.broker import Broker
from goqueue.cluster.replication import Follower
from goqueue.model.batch import encode
from goqueue.model.ids import Epoch
from goqueue.model.record import Record
from goqueue.server.kafka.fetch import handle_fetch
from goqueue.server.kafka.fetch_sessions import FetchSessions
from goqueue.server.kafka.produce import handle_produce
from goqueue.server.kafka.reply import ReplySlot
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import build, duration
from tests.unit.server.kafka.asking import FRAME_BYTES, access_of, ask, frame_of, response_of
from tests.unit.server.kafka.cluster_of_three import SECOND, THIRD, join

HINTS_OF_PRODUCE_FROM, HINTS_OF_FETCH_FROM = 10, 16
BY_ID_FROM = 13  # in Produce and Fetch


@pytest.fixture
async def topic_id(broker: Broker) -> UUID:
    """Of topic `t`: node 2 leads partition 0, node 3 partition 1."""
    await join(broker)
    topic = await broker.create_topic("t", partitions=2, assignments=[[SECOND], [THIRD]])
    return topic.topic_id


async def produce(broker: Broker, version: int, topic: UUID) -> Any:
    """To both partitions; the whole answer."""
    records = bytes(encode([Record(0, broker.environment.clock.now(), None, b"x")]))
    name = {"topic_id": topic} if version >= BY_ID_FROM else {"name": "t"}
    partitions = [{"index": index, "records": records} for index in (0, 1)]
    header = frame_of(
        ApiKey.PRODUCE,
        version,
        acks=1,
        timeout=duration(1000),
        topic_data=[{**name, "partition_data": partitions}],
    )
    filled: asyncio.Future[ReplySlot] = asyncio.get_running_loop().create_future()
    await handle_produce(
        broker, access_of(broker), header, ReplySlot(header, 0.0, filled.set_result)
    )
    parts = (await filled).parts or []
    return response_of(ApiKey.PRODUCE, version, b"".join(parts)[FRAME_BYTES:])


async def fetch(broker: Broker, version: int, topic: UUID) -> Any:
    name = {"topic_id": topic} if version >= BY_ID_FROM else {"topic": "t"}
    partitions = [
        {
            "partition": index,
            "current_leader_epoch": -1,
            "fetch_offset": 0,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        for index in (0, 1)
    ]
    header = frame_of(
        ApiKey.FETCH,
        version,
        max_wait=duration(0),
        min_bytes=1,
        topics=[{**name, "partitions": partitions}],
    )
    sessions = FetchSessions(1, broker.environment.random)
    parts = await handle_fetch(broker, access_of(broker), sessions, 1 << 20, header)
    return response_of(ApiKey.FETCH, version, b"".join(parts))


def endpoints_in(answer: Any) -> list[tuple[int, str, int, str]]:
    return [(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints]


BOTH = [(SECOND, "node-2", 9092, "rack-2"), (THIRD, "node-3", 9092, "rack-3")]


async def test_who_writes_elsewhere_is_told_the_leader(broker: Broker, topic_id: UUID):
    for version in (9, 10, 12, 13):
        answer = await produce(broker, version, topic_id)
        found = answer.responses[0].partition_responses
        assert [each.error_code for each in found] == [ErrorCode.not_leader_or_follower] * 2
        if version >= HINTS_OF_PRODUCE_FROM:
            assert [each.current_leader.leader_id for each in found] == [SECOND, THIRD]
            assert [each.current_leader.leader_epoch for each in found] == [0, 0]
            assert endpoints_in(answer) == BOTH


async def test_who_reads_elsewhere_is_told_the_leader(broker: Broker, topic_id: UUID):
    for version in (12, 13, 16, 18):
        answer = await fetch(broker, version, topic_id)
        found = answer.responses[0].partitions
        assert [each.error_code for each in found] == [ErrorCode.not_leader_or_follower] * 2
        if version >= HINTS_OF_FETCH_FROM:
            assert [each.current_leader.leader_id for each in found] == [SECOND, THIRD]
            assert endpoints_in(answer) == BOTH


async def test_a_share_consumer_at_the_wrong_node_is_told_the_leader(
    broker: Broker, topic_id: UUID
):
    asked = tuple(build(FetchPartition, partition_index=index) for index in (0, 1))
    answer = await ask(
        broker,
        ApiKey.SHARE_FETCH,
        group_id="g",
        member_id="m",
        share_session_epoch=0,
        max_wait=duration(1000),
        max_records=1,
        max_bytes=1,
        topics=(build(FetchTopic, topic_id=topic_id, partitions=asked),),
    )
    assert answer.error_code is ErrorCode.none
    found = answer.responses[0].partitions
    assert [each.error_code for each in found] == [ErrorCode.not_leader_or_follower] * 2
    assert [each.current_leader.leader_id for each in found] == [SECOND, THIRD]
    assert endpoints_in(answer) == BOTH
    batch = build(
        share_acknowledge.AcknowledgementBatch,
        first_offset=0,
        last_offset=0,
        acknowledge_types=(1,),
    )
    settled = build(
        share_acknowledge.AcknowledgePartition,
        partition_index=1,
        acknowledgement_batches=(batch,),
    )
    answer = await ask(
        broker,
        ApiKey.SHARE_ACKNOWLEDGE,
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        topics=(
            build(share_acknowledge.AcknowledgeTopic, topic_id=topic_id, partitions=(settled,)),
        ),
    )
    (found,) = answer.responses[0].partitions
    assert found.error_code is ErrorCode.not_leader_or_follower
    assert found.current_leader.leader_id == THIRD
    assert endpoints_in(answer) == BOTH[1:]


async def test_only_the_leader_tells_offsets_and_producers_and_removes_records(
    broker: Broker, topic_id: UUID
):
    asked = (
        (
            ApiKey.LIST_OFFSETS,
            build(
                ListOffsetsTopic,
                name="t",
                partitions=(build(ListOffsetsPartition, partition_index=0, timestamp=-1),),
            ),
        ),
        (
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            build(
                OffsetForLeaderTopic,
                topic="t",
                partitions=(build(OffsetForLeaderPartition, partition=0, leader_epoch=0),),
            ),
        ),
        (
            ApiKey.DELETE_RECORDS,
            build(
                DeleteRecordsTopic,
                name="t",
                partitions=(build(DeleteRecordsPartition, partition_index=0, offset=-1),),
            ),
        ),
        (ApiKey.DESCRIBE_PRODUCERS, build(TopicRequest, name="t", partition_indexes=(0,))),
    )
    for api, topic in asked:
        answer = await ask(broker, api, topics=(topic,))
        (partition,) = answer.topics[0].partitions
        assert partition.error_code is ErrorCode.not_leader_or_follower, api.name


async def test_a_follower_describes_producers(broker: Broker):
    """As in Kafka: a tool asks a node about all replicas that it has."""
    await broker.create_topic("t", partitions=1)
    partition = await broker.partition("t", 0)
    partition.take_role(Follower(SECOND, Epoch(1)))
    topic = build(TopicRequest, name="t", partition_indexes=(0,))
    answer = await ask(broker, ApiKey.DESCRIBE_PRODUCERS, topics=(topic,))
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
