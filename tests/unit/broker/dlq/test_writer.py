"""Dead letters are written with their story, whatever their size."""

import structlog

from goqueue.broker.messages.publish import OutgoingMessage
from goqueue.model.errors import PolicyViolation
from goqueue.model.settings import HOUR_MS, MESSAGE_BYTES_MAX
from goqueue.queue import QueueSettings, Settled
from tests.unit.broker.dlq.test_browse import reject_all
from tests.unit.broker.queue_world import Bench, numbered, play, values

ODD = OutgoingMessage(
    b"\xff\x00value",
    key=b"\x80key",
    headers=(("trace", None), ("trace", b"2"), ("gq-priority", b"low")),
    timestamp=1_749_000_000_000,
)


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


def test_a_message_whose_body_is_as_large_as_allowed_still_fits():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *([b"x" * 1_000_000] * 3))
        await reject_all(bench, "e" * 5_000)
        assert await bench.queues.dead_letters.count("jobs") == 3
        assert await bench.queues.dead_letters.redrive("jobs") == 3

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
