"""Acks that take effect with a transaction: all of a request or none, and not before its end."""

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.queues.stats import WhichInFlight
from goqueue.broker.transactions.acks import ledgers_of
from goqueue.model.errors import DiskFull, StorageFailed
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.queue import Delivered, QueueSettings, ReceiptExpired
from goqueue.queue.receipts import read_receipts
from goqueue.testing.sim import SimDisk
from goqueue.txn import ProducerIdentity
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play

SETTINGS = QueueSettings(visibility_ms=10_000, backoff_base_ms=0, backoff_jitter=0)


async def two_partitions(bench: Bench) -> tuple[ProducerIdentity, list[Delivered]]:
    """A producer with a transaction, and a message of each of two ledgers in its hands."""
    await bench.publish(
        "jobs", *(OutgoingMessage(b"%d" % index, partition=index) for index in range(2))
    )
    who = await bench.broker.transactions.init("tx", timeout_ms=60_000)
    await bench.broker.transactions.begin("tx", who)
    return who, await bench.receive(max_messages=2)


async def in_flight(bench: Bench) -> int:
    return len(bench.queues.in_flight("workers", which=WhichInFlight()))


def test_a_receipt_that_is_not_good_has_all_refused():
    async def scenario(bench: Bench) -> None:
        who, held = await two_partitions(bench)
        await queue_verbs.nack(bench.queues, [held[1].receipt], delay_ms=0)
        receipts = [each.receipt for each in held]
        refused = await bench.broker.transactions.add_acks("tx", who, receipts)
        assert set(refused) == {1}
        assert isinstance(refused[1], ReceiptExpired)
        await bench.ack(held[:1])  # nothing has reserved it

    play(scenario, partitions=2, settings=SETTINGS)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_reserved_messages_end_with_their_transaction(commits: bool):
    async def scenario(bench: Bench) -> None:
        who, held = await two_partitions(bench)
        transactions = bench.broker.transactions
        assert await transactions.add_acks("tx", who, [each.receipt for each in held]) == {}
        assert transactions.acks.count(transactions.ahead.get("tx")) == 2
        await bench.sleep(30)
        assert await bench.receive(max_messages=9) == [], "a reserved message does not time out"
        await transactions.end("tx", who, commits=commits, bumps_epoch=False)
        assert transactions.acks.count(transactions.ahead.get("tx")) == 0
        if not commits:
            assert await in_flight(bench) == 2, "in flight again, with all their time"
            await bench.sleep(11)
        again = await bench.receive(max_messages=9)
        assert len(again) == (0 if commits else 2)

    play(scenario, partitions=2, settings=SETTINGS)


def test_what_is_malformed_is_refused_before_the_transaction_knows_of_it():
    async def scenario(bench: Bench) -> None:
        who, held = await two_partitions(bench)
        transactions = bench.broker.transactions
        refused = await transactions.add_acks("tx", who, [held[0].receipt, "nonsense"])
        assert set(refused) == {1}
        assert not transactions.ahead.get("tx").ledgers

    play(scenario, partitions=2, settings=SETTINGS)


def test_a_ledger_that_cannot_be_written_is_reported_to_the_caller():
    async def scenario(bench: Bench) -> None:
        who, held = await two_partitions(bench)
        disk = bench.broker.environment.disk
        assert isinstance(disk, SimDisk)
        disk.fail_sync("/data/logs/jobs/1/ledger/*.log", times=None)
        with pytest.raises((StorageFailed, DiskFull)):
            await bench.broker.transactions.add_acks(
                "tx", who, [each.receipt for each in sorted(held, key=lambda one: one.partition)]
            )

    play(scenario, partitions=2, settings=SETTINGS)


def test_a_deleted_topic_has_nothing_left_to_end():
    async def scenario(bench: Bench) -> None:
        who, held = await two_partitions(bench)
        transactions = bench.broker.transactions
        await transactions.add_acks("tx", who, [each.receipt for each in held])
        await bench.broker.delete_topic("jobs")
        await transactions.end("tx", who, commits=True, bumps_epoch=False)
        assert not transactions.ahead.prepared

    play(scenario, partitions=2, settings=SETTINGS)


def test_the_ledgers_of_receipts_are_named_once():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        held = await bench.receive(max_messages=3)
        claims, _ = read_receipts([each.receipt for each in held])
        assert ledgers_of(claims) == {TopicPartition(TopicName("jobs"), 0)}

    play(scenario)
