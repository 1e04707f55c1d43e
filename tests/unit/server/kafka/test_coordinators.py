"""A node that does not coordinate a group or a transaction says so, in every API of theirs."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from goqueue.broker import Broker
from goqueue.model.ids import NodeId
from goqueue.txn import ProducerIdentity
from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.messages import build
from goqueue.wire.shapes import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.unit.server.kafka.asking import ask, produce
from tests.unit.server.kafka.cluster_of_three import (
    ME,
    SECOND,
    THIRD,
    add_node,
    coordinate_elsewhere,
    fence,
    join,
)

GROUP, TRANSACTION = 0, 1
BATCHES_FROM = 4  # of FindCoordinator


def codes_in(answer: Any) -> Iterator[ErrorCode]:
    """All that are not `none`, wherever they stand."""
    if isinstance(answer, ErrorCode):
        if answer is not ErrorCode.none:
            yield answer
    elif isinstance(answer, tuple):
        for each in answer:
            yield from codes_in(each)
    elif hasattr(answer, "__slots__"):
        for name in answer.__slots__:
            yield from codes_in(getattr(answer, name))


# --- FindCoordinator --------------------------------------------------------------------------


async def test_the_coordinator_is_where_it_listens(broker: Broker):
    await join(broker)
    coordinate_elsewhere(broker, THIRD)
    versions = range(VERSIONS[ApiKey.FIND_COORDINATOR].max + 1)
    for version, key_type in itertools.product(versions, (GROUP, TRANSACTION)):
        keys = ("a", "b") if version >= BATCHES_FROM else ("a",)
        answer = await ask(
            broker, ApiKey.FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=keys
        )
        found = [(each.key, each.node_id, each.host, each.port) for each in answer.coordinators]
        assert found == [(key, THIRD, "node-3", 9092) for key in keys]
        assert not list(codes_in(answer))


@pytest.mark.parametrize("case", ["fenced", "listens nowhere", "unknown"])
async def test_a_coordinator_that_cannot_be_reached_is_not_available(broker: Broker, case: str):
    if case != "unknown":
        await add_node(broker, SECOND, host="" if case == "listens nowhere" else None)
    if case == "fenced":
        await fence(broker, SECOND)
    coordinate_elsewhere(broker, NodeId(-1) if case == "unknown" else SECOND)
    answer = await ask(broker, ApiKey.FIND_COORDINATOR, key_type=GROUP, coordinator_keys=("a",))
    (found,) = answer.coordinators
    assert found.error_code is ErrorCode.coordinator_not_available
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


# --- groups and transactions ------------------------------------------------------------------

PLACE = {"partition_index": 0}

ASKING: dict[ApiKey, Callable[[], dict[str, Any]]] = {
    ApiKey.JOIN_GROUP: lambda: {"group_id": "g", "protocol_type": "consumer"},
    ApiKey.SYNC_GROUP: lambda: {"group_id": "g"},
    ApiKey.HEARTBEAT: lambda: {"group_id": "g"},
    ApiKey.LEAVE_GROUP: lambda: {"group_id": "g"},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda: {"group_id": "g", "member_id": "m"},
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda: {"group_ids": ("g",)},
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda: {"group_id": "g", "member_id": "m"},
    ApiKey.SHARE_GROUP_DESCRIBE: lambda: {"group_ids": ("g",)},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: lambda: {
        "groups": (build(DescribeShareGroupOffsetsRequestGroup, group_id="g", topics=None),)
    },
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda: {"group_id": "g"},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda: {"group_id": "g"},
    ApiKey.OFFSET_COMMIT: lambda: {
        "group_id": "g",
        "topics": (
            build(
                OffsetCommitRequestTopic,
                name="t",
                partitions=(build(OffsetCommitRequestPartition, **PLACE),),
            ),
        ),
    },
    ApiKey.OFFSET_FETCH: lambda: {
        "groups": (
            build(
                OffsetFetchRequestGroup,
                group_id="g",
                topics=(build(OffsetFetchRequestTopic, name="t", partition_indexes=(0,)),),
            ),
        )
    },
    ApiKey.OFFSET_DELETE: lambda: {"group_id": "g"},
    ApiKey.DESCRIBE_GROUPS: lambda: {"groups": ("g",)},
    ApiKey.DELETE_GROUPS: lambda: {"groups_names": ("g",)},
    ApiKey.INIT_PRODUCER_ID: lambda: {
        "transactional_id": "x",
        "producer_id": -1,
        "producer_epoch": -1,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda: {
        "transactions": (
            build(
                AddPartitionsToTxnTransaction,
                transactional_id="x",
                topics=(build(AddPartitionsToTxnTopic, name="t", partitions=(0,)),),
            ),
        )
    },
    ApiKey.ADD_OFFSETS_TO_TXN: lambda: {"transactional_id": "x", "group_id": "g"},
    ApiKey.TXN_OFFSET_COMMIT: lambda: {
        "transactional_id": "x",
        "group_id": "g",
        "topics": (
            build(
                TxnOffsetCommitRequestTopic,
                name="t",
                partitions=(build(TxnOffsetCommitRequestPartition, **PLACE),),
            ),
        ),
    },
    ApiKey.END_TXN: lambda: {"transactional_id": "x"},
    ApiKey.DESCRIBE_TRANSACTIONS: lambda: {"transactional_ids": ("x",)},
}
NAMES_BEFORE = {ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}  # later versions have topic ids


async def ask_all(broker: Broker) -> dict[ApiKey, list[ErrorCode]]:
    """The errors in the answers."""
    found = {}
    for api, fields in ASKING.items():
        answer = await ask(broker, api, NAMES_BEFORE.get(api), **fields())
        found[api] = list(codes_in(answer))
    return found


async def test_another_node_than_the_coordinator_says_so(broker: Broker):
    await broker.create_topic("t", partitions=1)
    coordinate_elsewhere(broker)
    assert await ask_all(broker) == {api: [ErrorCode.not_coordinator] for api in ASKING}


async def test_a_coordinator_that_has_resigned_says_so(broker: Broker):
    await broker.create_topic("t", partitions=1)
    broker.groups.resign()
    broker.transactions.resign()
    assert await ask_all(broker) == {api: [ErrorCode.not_coordinator] for api in ASKING}


async def test_every_version_of_offset_fetch_can_say_so(broker: Broker):
    await broker.create_topic("t", partitions=1)
    coordinate_elsewhere(broker)
    for version in range(VERSIONS[ApiKey.OFFSET_FETCH].min, NAMES_BEFORE[ApiKey.OFFSET_FETCH]):
        answer = await ask(broker, ApiKey.OFFSET_FETCH, version, **ASKING[ApiKey.OFFSET_FETCH]())
        assert ErrorCode.not_coordinator in codes_in(answer), version


async def test_a_node_that_coordinates_nothing_has_nothing_to_list(broker: Broker):
    broker.groups.resign()
    broker.transactions.resign()
    groups = await ask(broker, ApiKey.LIST_GROUPS)
    transactions = await ask(broker, ApiKey.LIST_TRANSACTIONS, duration_filter=-1)
    assert (groups.groups, transactions.transaction_states) == ((), ())
    assert not [*codes_in(groups), *codes_in(transactions)]


async def test_a_batch_of_a_transaction_that_another_node_coordinates_is_sent_again(broker: Broker):
    """Clients take `not_coordinator` in an answer to Produce for the end of the producer."""
    await broker.create_topic("t", partitions=1)
    broker.transactions.resign()
    answer = await produce(broker, "t", transaction=("x", ProducerIdentity(7, 0)))
    assert answer.error_code is ErrorCode.not_enough_replicas


async def test_the_coordinator_serves_as_before(broker: Broker):
    await join(broker)
    coordinate_elsewhere(broker, ME)
    answer = await ask(broker, ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=("x",))
    assert list(codes_in(answer)) == [ErrorCode.transactional_id_not_found]
