"""Batches with delayed messages on their way in: sequences, repetitions, limits."""

import pytest

from goqueue.broker import Broker
from goqueue.broker.delays.appending import AppendedParts
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.delay.errors import TooManyDelayed
from goqueue.model import batch as batches
from goqueue.model.errors import InvalidRecords, OutOfOrderSequence
from goqueue.model.record import Record
from tests.unit.broker.delays.delay_world import TOPIC, Bench, delayed, play, values, waiting

SECOND = (("gq-delay-ms", b"1000"),)


def batch(broker: Broker, sequence: int, *parts: bytes, codec: int = 0) -> bytearray:
    """Values that begin with `+` are delayed."""
    now = broker.environment.clock.now()
    records = [
        Record(0, now, None, each, SECOND if each.startswith(b"+") else ()) for each in parts
    ]
    return batches.encode(records, producer=(5, 0, sequence), codec=codec)


async def append(broker: Broker, data: bytearray) -> AppendedParts:
    partition = await broker.partition(TOPIC, 0)
    found = await broker.delays.appends.append(partition, data, timeout_seconds=5)
    assert found is not None
    return found


def test_a_repetition_is_written_nowhere():
    async def story(bench: Bench) -> None:
        broker = bench.broker
        first = await append(broker, batch(broker, 0, b"a", b"+b", b"c"))
        again = await append(broker, batch(broker, 0, b"a", b"+b", b"c"))
        assert again.data.is_repeat
        assert again.data.first_offset == first.data.first_offset == 0
        assert again.delays.first_offset == first.delays.first_offset == 0
        assert list(first.dues) == [1]
        following = await append(broker, batch(broker, 3, b"+d"))
        assert following.data.first_offset == 3
        with pytest.raises(OutOfOrderSequence):
            await append(broker, batch(broker, 9, b"+e"))
        await bench.sleep(3)
        assert await values(broker) == [b"a", b"c", b"+b", b"+d"]

    play(story)


def test_a_retry_after_a_crash_between_both_logs_finishes_the_batch():
    async def story(bench: Bench) -> None:
        broker = bench.broker
        data = batch(broker, 0, b"a", b"+b")
        partition = await broker.partition(TOPIC, 0)
        appends, written = broker.delays.appends, []

        def break_off(log, line, part):
            if line is None:
                raise OSError("the process ends here")
            written.append(part)
            return type(appends)._write(appends, log, line, part)

        appends._write = break_off  # type: ignore[method-assign]
        with pytest.raises(OSError, match="ends here"):
            await appends.append(partition, bytearray(data), timeout_seconds=5)
        del appends._write
        assert written
        await append(broker, data)
        await bench.sleep(3)
        assert await values(broker) == [b"a", b"+b"]

    play(story)


def test_more_than_the_topic_allows_are_refused_by_name():
    async def story(bench: Bench) -> None:
        setting = {"goqueue.delayed.messages.max": "3"}
        await bench.broker.change_settings(TOPIC, setting)
        await bench.publish(TOPIC, *(delayed(b"x", 60_000) for _ in range(3)))
        (refused,) = await bench.messages.publish(TOPIC, [delayed(b"y", 60_000)])
        assert isinstance(refused, TooManyDelayed)
        assert "goqueue.delayed.messages.max: 3" in str(refused)
        with pytest.raises(TooManyDelayed):
            await append(bench.broker, batch(bench.broker, 0, b"+z"))
        await bench.broker.delays.admin.cancel(TOPIC, 0, 0)
        await bench.publish(TOPIC, delayed(b"y", 60_000))

    play(story)


def test_where_none_may_be_delayed_the_headers_mean_nothing():
    async def story(bench: Bench) -> None:
        await bench.broker.change_settings(TOPIC, {"goqueue.delayed.messages.max": "0"})
        await bench.publish(TOPIC, delayed(b"x", 60_000))
        assert await values(bench.broker) == [b"x"]
        assert not await waiting(bench.broker)

    play(story)


def test_a_compacted_topic_wants_a_key_of_delayed_messages_too():
    async def story(bench: Bench) -> None:
        await bench.broker.change_settings(TOPIC, {"cleanup.policy": "compact"})
        with pytest.raises(InvalidRecords, match="key"):
            await append(bench.broker, batch(bench.broker, 0, b"+z"))
        (refused,) = await bench.messages.publish(TOPIC, [delayed(b"x", 1000)])
        assert "key" in str(refused)
        await bench.publish(TOPIC, delayed(b"x", 1000, key=b"k"), OutgoingMessage(b"y", key=b"k"))
        await bench.sleep(2)
        assert await values(bench.broker) == [b"y", b"x"]

    play(story)
