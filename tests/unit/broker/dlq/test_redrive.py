"""Redrive: dead letters go back where they came from, each once."""

import asyncio

import pytest
from msgspec.structs import replace

from goqueue.broker.dlq.browse import DeadLetterFilter
from goqueue.broker.dlq.move_target import find_move
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.errors import BatchTooLarge
from goqueue.model.ids import Offset, TopicName
from goqueue.queue.records import Move
from goqueue.testing.sim import SimDisk
from tests.unit.broker.dlq.test_browse import reject_all
from tests.unit.broker.dlq.test_writer import ODD
from tests.unit.broker.queue_world import Bench, numbered, play, values


def test_redrive_brings_back_exactly_what_was_there():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", ODD, *numbered(700))
        await reject_all(bench)
        assert await bench.queues.dead_letters.count("jobs") == 701
        heard: list[int] = []
        moved = await bench.queues.dead_letters.redrive("jobs", progress=heard.append)
        assert (moved, heard[-1]) == (701, 701)
        assert await bench.queues.dead_letters.count("jobs") == 0
        assert await bench.queues.dead_letters.redrive("jobs") == 0
        again = []
        while some := await bench.receive(max_messages=1000):
            again += some
            await bench.ack(some)
        assert sorted(values(again)) == sorted([ODD.value or b"", *numbered(700)])
        (odd,) = [each.record for each in again if each.record.key == ODD.key]
        assert (odd.headers, odd.timestamp) == (ODD.headers, ODD.timestamp)
        assert {each.attempt for each in again} == {1}

    play(scenario)


def test_redrive_some_by_filter_or_elsewhere_or_slowly():
    async def scenario(bench: Bench) -> None:
        letters = bench.queues.dead_letters
        await bench.publish("jobs", *(OutgoingMessage(b"%d" % n, key=b"k%d" % n) for n in range(9)))
        await reject_all(bench, "first")
        middle = bench.broker.environment.clock.now()
        await bench.publish("jobs", OutgoingMessage(b"9", headers=(("kind", b"odd"),)))
        await reject_all(bench, "second")
        await bench.broker.create_topic("other", partitions=2)
        assert await letters.redrive("jobs", which=DeadLetterFilter(key=b"k3")) == 1
        assert await letters.redrive("jobs", which=DeadLetterFilter(key=b"k3")) == 0
        odd = DeadLetterFilter(header=("kind", b"odd"))
        assert await letters.redrive("jobs", which=odd, target="other") == 1
        assert await letters.redrive("jobs", which=DeadLetterFilter(died_from=middle)) == 0
        assert await letters.redrive("jobs", which=DeadLetterFilter(reason="expired")) == 0
        one = DeadLetterFilter(partition=0, dlq_offsets=frozenset({5}))
        assert await letters.redrive("jobs", which=one) == 1
        assert sorted(await bench.drain()) == [b"3", b"5"]
        assert await bench.drain("other") == [b"9"]
        assert await letters.purge("jobs", which=DeadLetterFilter(key=b"k0")) == 1
        started = bench.broker.environment.clock.instant()
        assert await letters.redrive("jobs", rate=2, limit=4) == 4
        assert (bench.broker.environment.clock.instant() - started) / 1e9 >= 2
        assert [each.record.key for each in await letters.browse("jobs")] == [b"k7", b"k8"]
        assert await letters.count("jobs") == 2

    play(scenario)


def test_two_who_redrive_at_once_move_each_letter_once():
    async def scenario(bench: Bench) -> None:
        letters = bench.queues.dead_letters
        await bench.publish("jobs", *numbered(1200))
        await reject_all(bench)
        counts = await asyncio.gather(*(letters.redrive("jobs") for _ in range(3)))
        assert sum(counts) == 1200
        assert sorted(await bench.drain()) == sorted(numbered(1200))

    play(scenario, partitions=2)


def test_a_refused_letter_stays_and_the_others_go():
    async def scenario(bench: Bench) -> None:
        letters = bench.queues.dead_letters
        await bench.broker.create_topic(
            "small", partitions=1, settings={"max.message.bytes": "1000"}
        )
        await bench.publish("jobs", b"fits", b"x" * 5000)
        await reject_all(bench)
        with pytest.raises(BatchTooLarge):
            await letters.redrive("jobs", target="small")
        assert await bench.drain("small") == [b"fits"]
        (left,) = await letters.browse("jobs")
        assert left.record.value == b"x" * 5000
        assert await letters.redrive("jobs") == 1

    play(scenario)


def test_who_asked_may_leave_meanwhile():
    async def scenario(bench: Bench) -> None:
        letters = bench.queues.dead_letters
        await bench.publish("jobs", *numbered(10))
        await reject_all(bench)
        disk = bench.broker.environment.disk
        assert isinstance(disk, SimDisk)
        disk.slow_syncs(0.001, 0.002)
        asking = asyncio.create_task(letters.redrive("jobs"))  # rule-ok: who leaves
        while not any(
            box.moves for box in [each.ahead.dead_letters for each in bench.queues.ledgers]
        ):
            await bench.sleep(0.0001)
        asking.cancel()
        await bench.sleep(1)
        assert sorted(await bench.drain()) == numbered(10)
        assert await letters.count("jobs") == 0

    play(scenario)


def test_a_batch_is_found_again_by_its_producer_alone():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"a")
        await reject_all(bench)
        assert await bench.queues.dead_letters.redrive("jobs") == 1
        partition = await bench.broker.partition("jobs", 0)
        (producer,) = partition.log.producers.all()
        move = Move(
            ((0, 0),),
            TopicName("jobs"),
            bench.broker.topic("jobs").topic_id,
            0,
            producer.producer_id,
            producer.epoch,
            Offset(0),
        )
        assert await find_move(partition, move) is not None
        assert await find_move(partition, replace(move, producer_epoch=producer.epoch + 1)) is None
        assert await find_move(partition, replace(move, behind=Offset(2))) is None

    play(scenario)


def test_redriven_messages_are_kept_as_long_as_new_ones():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", ODD)  # years ago
        await reject_all(bench)
        assert await bench.queues.dead_letters.redrive("jobs") == 1
        partition = await bench.broker.partition("jobs", 0)
        assert partition.log.active.newest() >= bench.broker.environment.clock.now() - 10_000
        newest = await bench.broker.newest_record(partition, committed_only=True)
        assert newest is not None
        assert newest.timestamp == ODD.timestamp

    play(scenario)
