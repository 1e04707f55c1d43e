"""A directory of a former version: what stood in `__transactions` is taken over, once."""

from pathlib import Path

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.publish import Messages
from goqueue.broker.queues.ledgers import wait_durable
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.ids import Offset
from goqueue.queue.receipts import read_receipts
from goqueue.txn import ProducerIdentity
from tests import queue_verbs
from tests.unit.broker.transactions.brokers import (
    BILLING,
    ORDERS,
    committed,
    read,
    running,
    write,
)

COMMITTED = OffsetToCommit(ORDERS.topic, ORDERS.partition, Offset(9))


async def append(broker: Broker, *records: dict[str, object]) -> None:
    """To the coordinator's log, as a former version wrote them."""
    journal = broker.transactions.host._journal
    common = {"transactional_id": "tx", "at": broker.environment.clock.steady()}
    last = journal.append([msgspec.json.encode(common | each) for each in records])
    await journal.wait_committed(last)


def offsets_added(offset: int) -> dict[str, object]:
    return {"type": "offsets", "group_id": BILLING, "offsets": [[*ORDERS, offset, -1, ""]]}


def prepared(who: ProducerIdentity, **more: object) -> dict[str, object]:
    return {
        "type": "prepared",
        "commits": True,
        "marker_epoch": who.epoch,
        "producer_id": who.producer_id,
        "epoch": who.epoch,
    } | more


@pytest.mark.parametrize(("commits", "after"), [(True, 5), (False, None)])
async def test_offsets_that_waited_with_the_coordinator_are_ended_by_their_group(
    tmp_path: Path, commits: bool, after: int | None
):
    async with running(tmp_path) as broker:
        who = await broker.transactions.init("tx", timeout_ms=60_000)
        await append(broker, offsets_added(4), offsets_added(5))
    for _ in range(2):  # the second start finds them taken over
        async with running(tmp_path) as broker:
            assert ORDERS in broker.groups.host.ahead.pending_offsets.of(BILLING)
            assert committed(broker) is None
    async with running(tmp_path) as broker:
        await broker.transactions.end("tx", who, commits=commits, bumps_epoch=False)
        assert committed(broker) == after
        assert ORDERS not in broker.groups.host.ahead.pending_offsets.of(BILLING)


async def test_a_plain_commit_since_the_upgrade_is_not_taken_back_at_the_next_start(
    tmp_path: Path,
):
    async with running(tmp_path) as broker:
        who = await broker.transactions.init("tx", timeout_ms=60_000)
        await append(broker, offsets_added(4))
    async with running(tmp_path) as broker:
        await broker.groups.commit(CommitRequest(group_id=BILLING, offsets=(COMMITTED,)))
    async with running(tmp_path) as broker:
        await broker.transactions.end("tx", who, commits=True, bumps_epoch=False)
        assert committed(broker) == COMMITTED.offset


async def test_offsets_of_a_decided_transaction_are_committed_at_the_start(tmp_path: Path):
    async with running(tmp_path) as broker:
        who = await broker.transactions.init("tx", timeout_ms=60_000)
        await append(broker, offsets_added(5), prepared(who))
    async with running(tmp_path) as broker:
        await broker.transactions.wait_ready("tx")
        assert committed(broker) == 5


@pytest.mark.parametrize(("start", "visible"), [(0, [b"paid"]), (7, [])])
async def test_a_decided_transaction_leaves_records_alone_that_begin_elsewhere(
    tmp_path: Path, start: int, visible: list[bytes]
):
    """Those are of its producer's next transaction, whose beginning was lost with the power."""
    async with running(tmp_path) as broker:
        who = await broker.transactions.init("tx", timeout_ms=60_000)
        await write(broker, who, b"paid")
        await append(broker, prepared(who, starts=[start]))
    async with running(tmp_path) as broker:
        await broker.transactions.wait_ready("tx")
        partition = await broker.partition(*ORDERS)
        await broker.transactions._orphans.end_all(partition)  # as the upkeep does
        assert await read(broker) == visible


async def test_acks_that_were_reserved_for_a_transactional_id_are_applied(tmp_path: Path):
    async with running(tmp_path) as broker:
        await Messages(broker).publish("orders", [OutgoingMessage(b"job")])
        (job,) = await queue_verbs.receive(
            broker.queues, ["orders"], "workers", "ann", max_messages=1, wait_ms=0
        )
        who = await broker.transactions.init("tx", timeout_ms=60_000)
        await broker.transactions.begin("tx", who)
        claims, _ = read_receipts([job.receipt])
        _, waiting = broker.queues.settlement.reserve(claims, 1, "tx")  # as a former version did
        await wait_durable(waiting)
    for _ in range(2):
        async with running(tmp_path) as broker:
            transaction = broker.transactions.ahead.get("tx")
            assert transaction.ledgers == {ORDERS}
            assert broker.transactions.acks.count(transaction) == 1
    async with running(tmp_path) as broker:
        await broker.transactions.end("tx", who, commits=True, bumps_epoch=False)
        (stats,) = await broker.queues.stats("workers")
        assert stats.in_flight == 0
        assert stats.partitions[0].floor == 1
