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


async def test_no_two_producers_have_the_same_id(broker: Broker):
    ids = set()
    for _ in range(5):
        response = await ask(broker, ApiKey.INIT_PRODUCER_ID, transactional_id=None)
        assert (response.error_code, response.producer_epoch) == (ErrorCode.none, 0)
        ids.add(response.producer_id)
    assert len(ids) == 5
