"""What clients ask before they can start."""

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.wire.apis import VERSIONS, ApiKey
from tests.unit.server.kafka.asking import ask


@pytest.mark.parametrize("version", range(VERSIONS[ApiKey.FIND_COORDINATOR].max + 1))
@pytest.mark.parametrize("key_type", [0, 1])
async def test_this_node_coordinates_groups_and_transactions(
    broker: Broker, version: int, key_type: int
):
    response = await ask(
        broker, ApiKey.FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=("mine",)
    )
    (found,) = response.coordinators
    assert found.error_code is ErrorCode.none
    assert (found.key, found.node_id, found.host, found.port) == ("mine", 1, "127.0.0.1", 9092)


async def test_nobody_coordinates_what_is_not_known(broker: Broker):
    response = await ask(broker, ApiKey.FIND_COORDINATOR, key_type=9, coordinator_keys=("a", "b"))
    assert [each.error_code for each in response.coordinators] == [ErrorCode.invalid_request] * 2
    assert all(each.error_message for each in response.coordinators)


async def test_features_name_the_metadata_version_that_tools_look_for(broker: Broker):
    answer = await ask(broker, ApiKey.API_VERSIONS)
    supported = {
        each.name: (each.min_version, each.max_version) for each in answer.supported_features
    }
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert supported["metadata.version"] == (25, 25)
    highest = {name: high for name, (_, high) in supported.items()}
    assert finalized == highest | {
        "delay.version": 1,
        "security.version": 1,
    }  # nobody has to raise them
    (versions,) = (each for each in answer.api_keys if each.api_key == ApiKey.INIT_PRODUCER_ID)
    assert versions.max_version == 5, "6 is two-phase commit"


async def test_who_asks_is_told_what_it_may_do_to_topics_and_the_cluster(broker: Broker):
    """Apache Kafka's numbers without an authorizer."""
    await broker.create_topic("orders", partitions=1)

    async def of_topic(asked: bool) -> int:
        answer = await ask(
            broker, ApiKey.METADATA, topics=None, include_topic_authorized_operations=asked
        )
        (topic,) = answer.topics
        operations: int = topic.topic_authorized_operations
        return operations

    assert (await of_topic(True), await of_topic(False)) == (3576, -(2**31))
    described = await ask(
        broker, ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=(), response_partition_limit=10
    )
    assert described.topics[0].topic_authorized_operations == 3576
    for asked, operations in ((True, 8096), (False, -(2**31))):
        cluster = await ask(
            broker,
            ApiKey.DESCRIBE_CLUSTER,
            endpoint_type=1,
            include_cluster_authorized_operations=asked,
        )
        assert cluster.cluster_authorized_operations == operations


async def test_no_two_producers_have_the_same_id(broker: Broker):
    ids = set()
    for _ in range(5):
        response = await ask(broker, ApiKey.INIT_PRODUCER_ID, transactional_id=None)
        assert (response.error_code, response.producer_epoch) == (ErrorCode.none, 0)
        ids.add(response.producer_id)
    assert len(ids) == 5
