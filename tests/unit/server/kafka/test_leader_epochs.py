"""What clients hear of a partition's leader, and what a node that is not the leader answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from kio.schema.describe_topic_partitions.v0.request import TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.metadata.v13.request import MetadataRequestTopic
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from goqueue.broker import Broker, Partition
from goqueue.cluster import PartitionChanged
from goqueue.cluster.replication import Follower, Leader, Role
from goqueue.model.ids import Epoch, NodeId, PartitionEpoch
from goqueue.model.machine import Decision
from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.messages import build
from tests.unit.server.kafka.asking import ask, fetch, produce

ME, OTHER = NodeId(0), NodeId(2)
NEWER, SAME, OLDER, UNSAID = 6, 5, 4, -1
NOT_AVAILABLE_FROM = 5  # of ListOffsets

Asking = Callable[[Broker, int], Awaitable[Any]]


def led_with(*others: NodeId) -> Leader:
    return Leader(node=ME, epoch=Epoch(SAME), replicas=(ME, OTHER), isr=frozenset((ME, *others)))


@pytest.fixture
async def partition(broker: Broker) -> Partition:
    """Led by this node, in epoch 5, one replica of two that must both have everything."""
    topic = await broker.create_topic("t", partitions=1)
    found = await broker.partitions.get(topic, 0)
    await produce(broker, "t")
    found.take_role(led_with(OTHER))
    found.apply_settings(msgspec.structs.replace(found.log.settings, min_insync_replicas=2))
    return found


async def ask_fetch(broker: Broker, epoch: int) -> Any:
    return await fetch(broker, "t", epoch=epoch)


async def ask_offset(broker: Broker, epoch: int) -> Any:
    wanted = build(
        ListOffsetsPartition, partition_index=0, current_leader_epoch=epoch, timestamp=-2
    )
    topics = (build(ListOffsetsTopic, name="t", partitions=(wanted,)),)
    return (await ask(broker, ApiKey.LIST_OFFSETS, topics=topics)).topics[0].partitions[0]


async def ask_epoch_end(broker: Broker, epoch: int) -> Any:
    wanted = build(
        OffsetForLeaderPartition, partition=0, current_leader_epoch=epoch, leader_epoch=0
    )
    topics = (build(OffsetForLeaderTopic, topic="t", partitions=(wanted,)),)
    found = await ask(broker, ApiKey.OFFSET_FOR_LEADER_EPOCH, topics=topics)
    return found.topics[0].partitions[0]


@pytest.mark.parametrize("asking", [ask_fetch, ask_offset, ask_epoch_end])
@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (OLDER, ErrorCode.fenced_leader_epoch),
        (NEWER, ErrorCode.unknown_leader_epoch),
        (SAME, ErrorCode.none),
        (UNSAID, ErrorCode.none),
    ],
)
async def test_a_client_with_another_epoch_is_told_so(
    broker: Broker, partition: Partition, asking: Asking, epoch: int, code: ErrorCode
):
    assert (await asking(broker, epoch)).error_code is code


@pytest.mark.parametrize("asking", [ask_fetch, ask_offset, ask_epoch_end])
async def test_a_node_that_does_not_lead_says_so(
    broker: Broker, partition: Partition, asking: Asking
):
    partition.take_role(Follower(OTHER, Epoch(SAME)))
    assert (await asking(broker, SAME)).error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize(
    ("role", "acks", "code"),
    [
        (Follower(OTHER, Epoch(SAME)), 1, ErrorCode.not_leader_or_follower),
        (Follower(OTHER, Epoch(SAME)), -1, ErrorCode.not_leader_or_follower),
        (led_with(), 1, ErrorCode.none),
        (led_with(), -1, ErrorCode.not_enough_replicas),
    ],
)
async def test_a_write_needs_a_leader_and_for_acks_all_its_replicas(
    broker: Broker, partition: Partition, role: Role, acks: int, code: ErrorCode
):
    end = partition.log.end_offset
    partition.take_role(role)
    found = await produce(broker, "t", acks=acks)
    assert found.error_code is code
    hinted = found.current_leader
    is_hinted = (hinted.leader_id, hinted.leader_epoch) == (OTHER, SAME)
    assert is_hinted is (code is ErrorCode.not_leader_or_follower)
    is_written = partition.log.end_offset > end
    assert is_written is (code is ErrorCode.none)
    if code is ErrorCode.not_enough_replicas:
        assert "min.insync.replicas" in found.error_message


async def test_a_new_epoch_in_the_metadata_is_told_and_is_the_partitions(broker: Broker):
    topic = await broker.create_topic("led", partitions=2)
    change = PartitionChanged(topic.topic_id, 1, PartitionEpoch(1), leader_epoch=Epoch(NEWER))
    state = broker.metadata.partition(topic.topic_id, 1)
    await broker.change_partition(lambda _: Decision((change,), state))
    found = await ask(broker, ApiKey.METADATA, topics=(build(MetadataRequestTopic, name="led"),))
    assert [each.leader_epoch for each in found.topics[0].partitions] == [0, NEWER]
    described = await ask(
        broker,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=(build(TopicRequest, name="led"),),
        response_partition_limit=5,
    )
    assert [each.leader_epoch for each in described.topics[0].partitions] == [0, NEWER]
    assert (await broker.partition("led", 1)).leader_epoch == NEWER


async def some_turns() -> None:
    """Let a request get to where it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_fetch_that_waits_hears_at_once_of_another_leader(
    broker: Broker, partition: Partition
):
    waiting = asyncio.create_task(fetch(broker, "t", epoch=SAME, offset=1, wait_ms=60_000))
    await some_turns()
    assert partition._waiters
    partition.take_role(Follower(OTHER, Epoch(NEWER)))
    found = await waiting
    assert found.error_code is ErrorCode.not_leader_or_follower
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (OTHER, NEWER)


async def test_a_produce_that_waits_hears_at_once_of_another_leader(
    broker: Broker, partition: Partition
):
    waiting = asyncio.create_task(produce(broker, "t"))
    await some_turns()
    assert partition._waits
    partition.take_role(Follower(OTHER, Epoch(NEWER)))
    found = await waiting
    assert found.error_code is ErrorCode.not_leader_or_follower
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (OTHER, NEWER)


async def test_a_new_leader_names_no_end_before_it_knows_what_is_committed(
    broker: Broker, partition: Partition
):
    """Else a client could see the end of the partition go back (KIP-207)."""
    waiting = asyncio.create_task(produce(broker, "t"))
    await some_turns()
    partition.take_role(Follower(OTHER, Epoch(NEWER)))
    await waiting
    partition.take_role(msgspec.structs.replace(led_with(OTHER), epoch=Epoch(NEWER + 1)))

    async def ask_ends(version: int) -> list[Any]:
        """The end, the newest record, and what is from the far future."""
        found = []
        for timestamp in (-1, -3, 2**60):
            wanted = build(ListOffsetsPartition, partition_index=0, timestamp=timestamp)
            topics = (build(ListOffsetsTopic, name="t", partitions=(wanted,)),)
            answer = await ask(broker, ApiKey.LIST_OFFSETS, version, topics=topics)
            found.append(answer.topics[0].partitions[0])
        return found

    for version, code in (
        (NOT_AVAILABLE_FROM - 1, ErrorCode.leader_not_available),
        (NOT_AVAILABLE_FROM, ErrorCode.offset_not_available),
    ):
        assert [each.error_code for each in await ask_ends(version)] == [code] * 3
    partition.take_role(msgspec.structs.replace(led_with(), epoch=Epoch(NEWER + 2)))
    partition.apply_settings(msgspec.structs.replace(partition.log.settings, min_insync_replicas=1))
    found = await ask_ends(VERSIONS[ApiKey.LIST_OFFSETS].max)
    assert [(each.error_code, each.offset) for each in found] == [
        (ErrorCode.none, 2),
        (ErrorCode.none, 1),
        (ErrorCode.none, -1),
    ]
