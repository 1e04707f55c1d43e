"""What clients are told of the nodes of a cluster, and of the partitions that these have."""

from typing import Any

import pytest
from kio.schema.describe_topic_partitions.v0.request import TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequestTopic

from goqueue.broker import Broker
from goqueue.cluster import NO_LEADER
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import build
from tests.unit.server.kafka.asking import ask
from tests.unit.server.kafka.cluster_of_three import (
    ME,
    SECOND,
    THIRD,
    add_node,
    fence,
    join,
)

OWN_ADDRESS = (ME, "127.0.0.1", 9092)


async def ask_metadata(broker: Broker, *names: str) -> Any:
    topics = tuple(build(MetadataRequestTopic, name=name) for name in names)
    return await ask(broker, ApiKey.METADATA, topics=topics)


async def ask_nodes(broker: Broker) -> list[tuple[int, str, int]]:
    answer = await ask_metadata(broker)
    return [(each.node_id, each.host, each.port) for each in answer.brokers]


async def test_a_single_broker_is_where_the_client_found_it(broker: Broker):
    assert await ask_nodes(broker) == [OWN_ADDRESS]


async def test_all_nodes_that_answer_are_named_with_their_racks(broker: Broker):
    await join(broker)
    answer = await ask_metadata(broker)
    found = [(each.node_id, each.host, each.port, each.rack) for each in answer.brokers]
    assert found == [
        (*OWN_ADDRESS, None),
        (SECOND, "node-2", 9092, "rack-2"),
        (THIRD, "node-3", 9092, "rack-3"),
    ]
    assert answer.controller_id in [each.node_id for each in answer.brokers]


async def test_a_node_that_is_fenced_or_listens_nowhere_is_not_named(broker: Broker):
    await add_node(broker, SECOND, state="fenced")
    await add_node(broker, THIRD, host="")
    assert await ask_nodes(broker) == [OWN_ADDRESS]


async def test_a_node_that_listens_on_every_address_is_on_the_same_machine(broker: Broker):
    await add_node(broker, SECOND, host="0.0.0.0")
    assert await ask_nodes(broker) == [OWN_ADDRESS, (SECOND, "127.0.0.1", 9092)]


async def test_tools_see_fenced_nodes_when_they_ask_for_them(broker: Broker):
    await join(broker)
    await fence(broker, THIRD)
    live = [(ME, False), (SECOND, False)]
    for asked, expected in ((False, live), (True, [*live, (THIRD, True)])):
        cluster = await ask(
            broker, ApiKey.DESCRIBE_CLUSTER, endpoint_type=1, include_fenced_brokers=asked
        )
        assert [(each.broker_id, each.is_fenced) for each in cluster.brokers] == expected
        assert cluster.brokers[1].rack == "rack-2"


async def test_a_partition_is_where_the_metadata_says(broker: Broker):
    await join(broker)
    await broker.create_topic("t", partitions=2, assignments=[[SECOND, THIRD], [THIRD, ME]])
    await fence(broker, THIRD)
    metadata = (await ask_metadata(broker, "t")).topics[0].partitions
    described = await ask(
        broker,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=(build(TopicRequest, name="t"),),
        response_partition_limit=5,
    )
    for first, second in (metadata, described.topics[0].partitions):
        assert (first.leader_id, first.leader_epoch) == (SECOND, 0)
        assert (first.replica_nodes, first.isr_nodes) == ((SECOND, THIRD), (SECOND,))
        assert first.offline_replicas == (THIRD,)
        assert (second.leader_id, second.leader_epoch) == (ME, 1)
        assert second.error_code is ErrorCode.none
    assert [each.eligible_leader_replicas for each in described.topics[0].partitions] == [
        (THIRD,),
        (THIRD,),
    ]


@pytest.mark.parametrize("is_fenced", [True, False])
async def test_a_leader_that_cannot_be_reached_is_none(broker: Broker, is_fenced: bool):
    await add_node(broker, SECOND, host=None if is_fenced else "")
    await broker.create_topic("t", partitions=1, assignments=[[SECOND]])
    if is_fenced:
        await fence(broker, SECOND)
    (partition,) = (await ask_metadata(broker, "t")).topics[0].partitions
    assert partition.error_code is ErrorCode.leader_not_available
    assert partition.leader_id == NO_LEADER
    assert partition.replica_nodes == (SECOND,)


async def test_a_leader_whose_connection_broke_off_is_none_for_a_moment(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    await join(broker)
    await broker.create_topic("t", partitions=1, assignments=[[SECOND, ME]])
    monkeypatch.setattr(broker.cluster.peers, "is_suspect", {SECOND}.__contains__)
    answer = await ask_metadata(broker, "t")
    (partition,) = answer.topics[0].partitions
    assert partition.error_code is ErrorCode.leader_not_available
    assert partition.leader_id == NO_LEADER
    assert SECOND in [each.node_id for each in answer.brokers], "it may be alive"
