"""The transaction APIs, version by version, where Kafka's answers differ."""

import asyncio
import contextlib
from typing import Any

import pytest
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from goqueue.broker import Broker
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.errors import OutOfOrderSequence
from goqueue.model.record import Record
from goqueue.server.kafka import produce
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import build, duration
from goqueue.wire.produce import ProduceRequest
from goqueue.wire.shapes import OffsetFetchRequestGroup, OffsetFetchRequestTopic
from tests.unit.server.kafka.asking import ask

Who = dict[str, int]


@pytest.fixture(autouse=True)
async def topic(broker: Broker) -> None:
    await broker.create_topic("orders", partitions=2)


async def init(broker: Broker, version: int | None = None, **fields: Any) -> Any:
    asked = {"transactional_id": "tx", "transaction_timeout": duration(60_000)} | fields
    return await ask(broker, ApiKey.INIT_PRODUCER_ID, version, **asked)


async def started(broker: Broker) -> Who:
    answer = await init(broker)
    assert answer.error_code is ErrorCode.none
    return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


async def add(
    broker: Broker, who: Who, version: int = 3, *, partition: int = 0, verify_only: bool = False
) -> ErrorCode:
    topics = (build(AddPartitionsToTxnTopic, name="orders", partitions=(partition,)),)
    transaction = build(
        AddPartitionsToTxnTransaction,
        transactional_id="tx",
        verify_only=verify_only,
        topics=topics,
        **who,
    )
    answer = await ask(broker, ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=(transaction,))
    (result,) = answer.results_by_transaction[0].topic_results[0].results_by_partition
    code: ErrorCode = result.partition_error_code
    return code


async def end(broker: Broker, who: Who, version: int = 4, *, committed: bool = True) -> Any:
    return await ask(
        broker, ApiKey.END_TXN, version, transactional_id="tx", committed=committed, **who
    )


async def commit_offset(broker: Broker, who: Who, version: int = 5, **fields: Any) -> ErrorCode:
    partition = build(
        TxnOffsetCommitRequestPartition,
        partition_index=fields.pop("partition", 0),
        committed_offset=7,
        committed_metadata=fields.pop("metadata", None),
    )
    topics = (build(TxnOffsetCommitRequestTopic, name="orders", partitions=(partition,)),)
    asked = {"transactional_id": "tx", "group_id": "workers", "topics": topics} | who | fields
    answer = await ask(broker, ApiKey.TXN_OFFSET_COMMIT, version, **asked)
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


# --- InitProducerId ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.invalid_request),
        ({"producer_id": 5}, ErrorCode.invalid_request),
        ({"transaction_timeout": duration(0)}, ErrorCode.invalid_transaction_timeout),
        ({"transaction_timeout": duration(900_001)}, ErrorCode.invalid_transaction_timeout),
        ({"enable2_pc": True}, ErrorCode.transactional_id_authorization_failed),
    ],
)
async def test_what_init_refuses(broker, fields, code):
    answer = await init(broker, **fields)
    assert (answer.error_code, answer.producer_id) == (code, -1)


async def test_a_zombie_that_names_its_epoch_is_fenced(broker):
    zombie = await started(broker)
    await started(broker)
    assert (await init(broker, **zombie)).error_code is ErrorCode.producer_fenced


# --- AddPartitionsToTxn -----------------------------------------------------------------------


async def test_partitions_are_added_and_verified(broker):
    who = await started(broker)
    assert await add(broker, who, 4, verify_only=True) is ErrorCode.invalid_txn_state
    assert await add(broker, who, 5, verify_only=True) is ErrorCode.transaction_abortable
    assert await add(broker, who) is ErrorCode.none
    assert await add(broker, who, 5, verify_only=True) is ErrorCode.none
    assert await add(broker, who, partition=9) is ErrorCode.unknown_topic_or_partition


async def test_who_may_not_add_partitions(broker):
    old = await started(broker)
    who = await started(broker)
    assert await add(broker, old) is ErrorCode.producer_fenced
    stranger = who | {"producer_id": 999}
    assert await add(broker, stranger) is ErrorCode.invalid_producer_id_mapping


# --- EndTxn -----------------------------------------------------------------------------------


async def test_the_older_protocol_keeps_the_epoch_and_the_newer_raises_it(broker):
    who = await started(broker)
    assert (await end(broker, who)).error_code is ErrorCode.invalid_txn_state
    await add(broker, who)
    assert (await end(broker, who)).error_code is ErrorCode.none
    await add(broker, who)
    ended = await end(broker, who, 5)
    assert ended.error_code is ErrorCode.none
    assert ended.producer_epoch == who["producer_epoch"] + 1
    again = await end(broker, who, 5)
    assert again.producer_epoch == ended.producer_epoch
    assert await add(broker, who) is ErrorCode.producer_fenced


async def test_an_id_that_is_not_there(broker):
    answer = await end(broker, {"producer_id": 1, "producer_epoch": 0})
    assert answer.error_code is ErrorCode.invalid_producer_id_mapping


# --- offsets ----------------------------------------------------------------------------------


async def unstable(broker: Broker) -> ErrorCode:
    topic = build(OffsetFetchRequestTopic, name="orders", partition_indexes=(0,))
    group = build(OffsetFetchRequestGroup, group_id="workers", topics=(topic,))
    answer = await ask(broker, ApiKey.OFFSET_FETCH, 8, groups=(group,), require_stable=True)
    code: ErrorCode = answer.groups[0].topics[0].partitions[0].error_code
    return code


async def test_offsets_wait_for_the_end(broker):
    who = await started(broker)
    assert await commit_offset(broker, who, 4) is ErrorCode.invalid_txn_state
    added = await ask(
        broker, ApiKey.ADD_OFFSETS_TO_TXN, transactional_id="tx", group_id="workers", **who
    )
    assert added.error_code is ErrorCode.none
    assert await commit_offset(broker, who, 4) is ErrorCode.none
    assert await unstable(broker) is ErrorCode.unstable_offset_commit
    await end(broker, who)
    await asyncio.sleep(0)  # as long as it takes to hear the answer
    assert await unstable(broker) is ErrorCode.none


async def test_what_a_transactional_commit_refuses(broker):
    old = await started(broker)
    who = await started(broker)
    assert await commit_offset(broker, who) is ErrorCode.none
    assert await commit_offset(broker, old) is ErrorCode.invalid_producer_epoch
    assert await commit_offset(broker, who, group_id="") is ErrorCode.invalid_group_id
    assert await commit_offset(broker, who, partition=9) is ErrorCode.unknown_topic_or_partition
    long = "x" * 5000
    assert await commit_offset(broker, who, metadata=long) is ErrorCode.offset_metadata_too_large
    assert await commit_offset(broker, who, generation_id=3) is ErrorCode.illegal_generation


# --- for operators ----------------------------------------------------------------------------


async def test_transactions_are_listed_and_described(broker):
    who = await started(broker)
    await add(broker, who, partition=1)

    async def listed(**filters: Any) -> list[str]:
        answer = await ask(broker, ApiKey.LIST_TRANSACTIONS, **filters)
        assert answer.error_code is ErrorCode.none
        return [each.transactional_id for each in answer.transaction_states]

    assert await listed() == ["tx"]
    assert await listed(state_filters=("Ongoing",)) == ["tx"]
    assert await listed(state_filters=("Empty",)) == []
    assert await listed(state_filters=("Unheard",)) == []
    assert await listed(producer_id_filters=(who["producer_id"] + 1,)) == []
    assert await listed(duration_filter=60_000) == []
    assert await listed(transactional_id_pattern="t.") == ["tx"]
    assert await listed(transactional_id_pattern="t") == []
    broken = await ask(broker, ApiKey.LIST_TRANSACTIONS, transactional_id_pattern="(")
    assert broken.error_code is ErrorCode.invalid_regular_expression
    described = await ask(broker, ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=("tx", "none"))
    found, missing = described.transaction_states
    assert (found.transaction_state, found.topics[0].partitions) == ("Ongoing", (1,))
    assert missing.error_code is ErrorCode.transactional_id_not_found


@pytest.mark.parametrize("version", range(5))
async def test_every_version_of_api_versions_can_be_written(broker, version):
    answer = await ask(broker, ApiKey.API_VERSIONS, version)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert levels["transaction.version"] == 2


@pytest.mark.parametrize(("version", "is_refused"), [(11, False), (12, True)])
async def test_the_first_batch_of_a_newer_transaction_has_sequence_0(broker, version, is_refused):
    """An older client may go on after retention took what was known of it."""
    who = await started(broker)
    assert await add(broker, who) is ErrorCode.none
    partition = await broker.partition("orders", 0)
    producer = (who["producer_id"], who["producer_epoch"], 5)
    records = [Record(0, 0, None, b"late")]
    data = batches.encode(records, attributes=TRANSACTIONAL, producer=producer)
    request = ProduceRequest("tx", -1, 1_000, [])
    refusal = pytest.raises(OutOfOrderSequence) if is_refused else contextlib.nullcontext()
    with refusal:
        await produce._admit(broker, request, version, partition, memoryview(data))
