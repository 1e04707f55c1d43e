"""Deliveries that end by ranges of offsets."""

import pytest

from goqueue.broker.queues.acknowledgement import Ack, Ending, Nack, Release
from goqueue.broker.queues.ledgers import wait_durable
from goqueue.model.errors import DiskFull, InvalidRequest
from goqueue.model.ids import GroupId, TopicName
from goqueue.queue import ReceiptExpired, Where
from goqueue.testing.sim import SimDisk
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play, values

THERE = Where(GroupId("workers"), TopicName("jobs"), 0)


def test_ranges_end_as_each_of_them_says():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(6))
        await bench.receive(max_messages=6)
        endings: list[tuple[int, int, Ending]] = [(0, 1, Ack()), (2, 3, Release()), (4, 5, Ack())]
        await wait_durable(bench.queues.settlement.settle_ranges(THERE, endings, consumer="ann"))
        assert values(await bench.receive(max_messages=6)) == [b"2", b"3"]

    play(scenario)


def test_ranges_end_all_or_none():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(4))
        await bench.receive(max_messages=2)
        await bench.receive(consumer="bob", max_messages=2)
        settlement = bench.queues.settlement
        with pytest.raises(ReceiptExpired, match="does not hold all of 1 to 2"):
            settlement.settle_ranges(THERE, [(0, 0, Ack()), (1, 2, Ack())], consumer="ann")
        with pytest.raises(InvalidRequest, match="delay_ms"):
            settlement.settle_ranges(THERE, [(0, 0, Ack()), (1, 1, Nack(-1))], consumer="ann")
        assert len(bench.queues.in_flight("workers")) == 4

    play(scenario)


def test_a_range_is_what_is_in_flight_there_and_may_be_one_consumers():
    async def scenario(bench: Bench) -> None:
        settlement = bench.queues.settlement
        assert settlement.find_in_flight(THERE, 0, 10**12) == {}, "nobody has begun there"
        await bench.publish("jobs", *numbered(6))
        await bench.receive(max_messages=3)
        await bench.receive(consumer="bob", max_messages=3)
        acked = await settlement.settle_range(THERE, 0, 10**12, Ack(), consumer="bob")
        assert [each.offset for each in acked] == [3, 4, 5]
        acked = await settlement.settle_range(THERE, 1, 10**12, Ack())
        assert [each.offset for each in acked] == [1, 2]

    play(scenario)


def test_whoever_waits_gets_what_comes_back():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"x")
        (held,) = await bench.receive()
        before = bench.queues.dispatchers.get(THERE.group_id).news
        await bench.queues.settlement.settle([held.receipt], Release())
        assert bench.queues.dispatchers.get(THERE.group_id).news > before

    play(scenario)


def test_the_only_ledger_of_a_request_refuses_the_request_itself():
    """With others beside it, it refuses its own receipts (test_ledgers.py)."""

    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(2))
        held = await bench.receive(max_messages=2)
        disk = bench.broker.environment.disk
        assert isinstance(disk, SimDisk)
        disk.fill_up(0)
        with pytest.raises(DiskFull):
            await queue_verbs.ack(bench.queues, [each.receipt for each in held])
        disk.make_room()
        await bench.ack(held)

    play(scenario)
