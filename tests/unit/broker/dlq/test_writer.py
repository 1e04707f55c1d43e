"""Dead letters are written with their story, whatever their size."""

from typing import Any

import pytest
import structlog

from goqueue.broker.dlq.writer import DeadLetterWriter
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model import batch as batches
from goqueue.model.errors import PolicyViolation
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.model.record import Record
from goqueue.model.settings import HOUR_MS, MESSAGE_BYTES_MAX
from goqueue.queue import QueueSettings, Settled, Where
from goqueue.queue.dead_letter import encode_batch, to_dead_letter
from goqueue.queue.records import DeadMessage
from tests import queue_verbs
from tests.unit.broker.brokers import NOW
from tests.unit.broker.dlq.test_browse import reject_all
from tests.unit.broker.queue_world import Bench, numbered, play, values
from tests.unit.broker.queues.test_ledgers import lead, lose

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
        await queue_verbs.reject(bench.queues, [held.receipt], reason="cannot parse")
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

        bench.broker.create_topic = refuse  # type: ignore[assignment]
        await bench.publish("jobs", *numbered(3))
        some = await bench.receive(max_messages=3)
        with structlog.testing.capture_logs() as logs:
            (outcome,) = await queue_verbs.reject(bench.queues, [some[0].receipt], reason="bad")
            assert isinstance(outcome, Settled)
            await bench.sleep(60)
            await queue_verbs.reject(bench.queues, [some[1].receipt], reason="bad")
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
        bench.broker.create_topic = create
        await bench.broker.create_topic("elsewhere")  # somebody acts: it is tried at once
        await bench.sleep(0.5)
        assert await bench.queues.dead_letters.count("jobs") == 2
        assert bench.queues.unwritten_dead_letters() == []

    play(scenario, settings=QueueSettings(visibility_ms=HOUR_MS))


# --- exactly once ---------------------------------------------------------------------------------


async def producer_of_dead_letters(bench: Bench) -> tuple[int, int, int]:
    """Producer id, epoch, and the sequence of the last dead letter."""
    partition = await bench.broker.partition("jobs.dlq", 0)
    (producer,) = partition.log.producers.all()
    return producer.producer_id, producer.epoch, producer.batches[-1].last_sequence


async def reject_one(bench: Bench, value: bytes) -> None:
    await bench.publish("jobs", value)
    await reject_all(bench)


def test_a_ledger_is_the_idempotent_producer_of_its_dead_letters(monkeypatch):
    async def scenario(bench: Bench) -> None:
        await reject_one(bench, b"0")

        async def refuse(*_: object) -> None:
            raise AssertionError("nobody looks for what the producer's state tells")

        monkeypatch.setattr(DeadLetterWriter, "_read_written_ids", refuse)
        producer_id, *_ = await producer_of_dead_letters(bench)
        await reject_one(bench, b"1")
        await reject_one(bench, b"2")
        assert await producer_of_dead_letters(bench) == (producer_id, 0, 2)

    play(scenario)


def test_a_ledger_that_is_led_again_goes_on_with_a_new_epoch():
    async def scenario(bench: Bench) -> None:
        await reject_one(bench, b"0")
        lose(bench)
        await lead(bench)
        await reject_one(bench, b"1")
        assert (await producer_of_dead_letters(bench))[1:] == (1, 0)
        assert await bench.queues.dead_letters.count("jobs") == 2

    play(scenario)


def test_a_batch_that_was_written_and_not_noted_is_not_written_again():
    async def scenario(bench: Bench) -> None:
        await reject_one(bench, b"0")
        note, notes = DeadLetterWriter._note, []

        async def lose_the_lead(*call: Any) -> None:
            notes.append(call)
            if len(notes) == 2:  # of nothing that is gone, and then of the batch
                lose(bench)
            await note(*call)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DeadLetterWriter, "_note", lose_the_lead)
            await reject_one(bench, b"1")
        assert len((await bench.broker.partition("jobs.dlq", 0)).log.producers.all()) == 1
        await lead(bench)
        await bench.sleep(60)
        assert await bench.queues.dead_letters.count("jobs") == 2
        assert bench.queues.unwritten_dead_letters() == []

    play(scenario)


def test_dead_letters_go_on_when_their_topic_is_another_one():
    async def scenario(bench: Bench) -> None:
        await reject_one(bench, b"0")
        await bench.broker.delete_topic("jobs.dlq")
        await reject_one(bench, b"1")
        await reject_one(bench, b"2")
        assert await bench.queues.dead_letters.count("jobs") == 2

    play(scenario)


def test_what_a_former_version_wrote_and_did_not_note_is_not_written_again():
    """It had no producer."""

    async def scenario(bench: Bench) -> None:
        await bench.broker.create_topic("jobs.dlq", partitions=1)
        await bench.publish("jobs", b"0", b"1")
        where = Where(GroupId("workers"), TopicName("jobs"), 0)
        dead = DeadMessage(Offset(0), "rejected", "bad", "ann", 1, 0, NOW, NOW, NOW)
        target = await bench.broker.partition("jobs.dlq", 0)
        data = encode_batch([to_dead_letter(where, dead, Record(0, NOW, None, b"0"))], NOW)
        target.append(data, batches.verified_headers(data), NOW)
        await reject_all(bench)
        assert await bench.queues.dead_letters.count("jobs") == 2
        await reject_one(bench, b"2")
        assert await bench.queues.dead_letters.count("jobs") == 3

    play(scenario)
