"""Dead letters: what is in them, and how they come back."""

import asyncio

import pytest
import structlog
from msgspec.structs import replace

from goqueue.broker.dlq.browse import DeadLetterFilter
from goqueue.broker.dlq.redrive import holds
from goqueue.broker.messages.publish import OutgoingMessage
from goqueue.model.errors import BatchTooLarge, PolicyViolation, TopicNotFound
from goqueue.model.ids import Offset, TopicName
from goqueue.model.settings import HOUR_MS, MESSAGE_BYTES_MAX
from goqueue.queue import QueueSettings, Settled
from goqueue.queue.records import Move
from tests.unit.broker.queue_world import Bench, numbered, play, values

ODD = OutgoingMessage(
    b"\xff\x00value",
    key=b"\x80key",
    headers=(("trace", None), ("trace", b"2"), ("gq-priority", b"low")),
    timestamp=1_749_000_000_000,
)


async def reject_all(bench: Bench, reason: str = "bad") -> None:
    while some := await bench.receive(max_messages=1000):
        await bench.queues.reject([each.receipt for each in some], reason=reason)
    await bench.sleep(1)


def test_a_rejected_message_is_a_dead_letter_at_once_with_its_whole_story():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", ODD)
        (held,) = await bench.receive(consumer="ann")
        await bench.queues.reject([held.receipt], reason="cannot parse")
        await bench.sleep(1)
        topic = bench.broker.topic("jobs.dlq")
        assert (topic.partitions, topic.settings.retention_ms) == (3, 336 * HOUR_MS)
        (letter,) = await bench.queues.dead_letters.browse("jobs")
        record, story = letter.record, letter.history
        assert (record.key, record.value, record.headers) == (ODD.key, ODD.value, ODD.headers)
        assert record.timestamp == ODD.timestamp
        assert story is not None
        assert (story.reason, story.error, story.consumer) == ("rejected", "cannot parse", "ann")
        assert (story.topic, story.partition, story.offset) == ("jobs", held.partition, 0)
        assert (story.group_id, story.attempts, story.failures) == ("workers", 1, 0)
        assert story.first_delivery == story.last_delivery
        assert await bench.queues.dead_letters.count("jobs") == 1
        assert await bench.receive() == []

    play(scenario, partitions=3)


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
        one = DeadLetterFilter(partition=0, letter_offsets=frozenset({5}))
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


def test_browsing_goes_page_by_page_and_purging_empties():
    async def scenario(bench: Bench) -> None:
        letters = bench.queues.dead_letters
        assert await letters.count("jobs") == 0
        assert await letters.browse("jobs") == []
        with pytest.raises(TopicNotFound):
            await letters.browse("nowhere")
        for index in range(3):
            some = (OutgoingMessage(b"%d" % n, partition=index) for n in range(10))
            await bench.publish("jobs", *some)
        await reject_all(bench)
        seen: list[tuple[int, int]] = []
        after: tuple[int, int] | None = None
        while page := await letters.browse("jobs", limit=7, after=after):
            seen += [(each.partition, each.letter_offset) for each in page]
            after = seen[-1]
        assert seen == [(index, offset) for index in range(3) for offset in range(10)]
        assert await letters.purge("jobs") == 30
        assert await letters.count("jobs") == 0
        assert await letters.browse("jobs") == []
        await bench.publish("jobs", b"new")
        await reject_all(bench)
        assert await letters.count("jobs") == 1

    play(scenario, partitions=3)


def test_a_message_whose_body_is_as_large_as_allowed_still_fits():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *([b"x" * 1_000_000] * 3))
        await reject_all(bench, "e" * 5_000)
        assert await bench.queues.dead_letters.count("jobs") == 3
        assert await bench.queues.dead_letters.redrive("jobs") == 3

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
        assert await holds(partition, move)
        assert not await holds(partition, replace(move, producer_epoch=producer.epoch + 1))
        assert not await holds(partition, replace(move, behind=Offset(2)))

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


def test_dead_letters_have_their_topic_beside_one_that_looks_alike():
    async def scenario(bench: Bench) -> None:
        await bench.broker.create_topic("jobs_dlq", partitions=1)
        await bench.publish("jobs", b"bad")
        await reject_all(bench)
        assert await bench.queues.dead_letters.count("jobs") == 1
        for name in ("jobs_dlq", "jobs.dlq"):
            await bench.broker.delete_topic(name)
        await bench.broker.create_topic("jobs_dlq", partitions=1)

    play(scenario)


def test_the_largest_messages_have_dead_letters_too():
    async def scenario(bench: Bench) -> None:
        await bench.broker.change_settings("jobs", {"max.message.bytes": str(MESSAGE_BYTES_MAX)})
        await bench.publish("jobs", b"bad")
        await reject_all(bench)
        assert await bench.queues.dead_letters.count("jobs") == 1

    play(scenario)


def test_a_dead_letter_that_cannot_be_written_is_kept_told_and_written_when_it_can_be():
    async def scenario(bench: Bench) -> None:
        create = bench.broker.create_topic

        async def refuse(name: str, **_: object) -> None:
            raise PolicyViolation(f"no room for {name}")

        bench.broker.create_topic = refuse  # type: ignore[method-assign, assignment]
        await bench.publish("jobs", *numbered(3))
        some = await bench.receive(max_messages=3)
        with structlog.testing.capture_logs() as logs:
            (outcome,) = await bench.queues.reject([some[0].receipt], reason="bad")
            assert isinstance(outcome, Settled)
            await bench.sleep(60)
            await bench.queues.reject([some[1].receipt], reason="bad")
            await bench.sleep(60)
        told = [each for each in logs if each["event"] == "dead letters not written yet"]
        assert [each["problem"] for each in told] == ["no room for jobs.dlq"]
        (unplaced,) = bench.queues.unwritten_dead_letters()
        assert (unplaced.where.topic, unplaced.count) == ("jobs", 2)
        assert unplaced.problem == "no room for jobs.dlq"
        (stats,) = await bench.queues.stats("workers")
        assert [(each.dead, each.dead_problem) for each in stats.partitions] == [
            (2, "no room for jobs.dlq")
        ]
        assert values(await bench.receive(max_messages=10)) == []
        bench.broker.create_topic = create  # type: ignore[method-assign]
        await bench.broker.create_topic("elsewhere")  # somebody acts: it is tried at once
        await bench.sleep(0.5)
        assert await bench.queues.dead_letters.count("jobs") == 2
        assert bench.queues.unwritten_dead_letters() == []

    play(scenario, settings=QueueSettings(visibility_ms=HOUR_MS))
