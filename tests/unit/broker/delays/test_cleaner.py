"""The delay log does not grow for ever: what is over goes, what waits for long is moved."""

import pytest

from goqueue.broker.delays.admin import DelayedMessage
from goqueue.broker.delays.cleaner import DelayLogCleaner
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.delay.errors import DelayedMessageNotFound
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests.unit.broker.delays.delay_world import (
    TOPIC,
    Bench,
    delayed,
    line_of,
    play,
    values,
    waiting,
)
from tests.unit.broker.queue_world import running

HOUR_MS = 3_600_000


def test_the_delay_log_is_cut_when_nothing_needs_it(monkeypatch):
    monkeypatch.setattr("goqueue.broker.delays.cleaner.CUT_BYTES_MIN", 0)

    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, delayed(b"a", 10), delayed(b"b", 20))
        await bench.sleep(1)
        line = line_of(bench.broker)
        await line.clean()
        assert line.messages.log.start_offset == 2
        await bench.publish(TOPIC, delayed(b"c", 10), OutgoingMessage(b"now"))
        await bench.sleep(1)
        assert await values(bench.broker) == [b"a", b"b", b"now", b"c"]

    play(story)


async def fill(bench: Bench) -> None:
    """Three that wait for an hour, and some segments of messages that are over."""
    for start in range(3):
        late = delayed(b"late %d" % start, HOUR_MS + start)
        short = [delayed(b"x" * 500, 10) for _ in range(100)]
        await bench.publish(TOPIC, late, *short)
        await bench.sleep(1)
        line_of(bench.broker).messages.log.roll()


async def clean(bench: Bench) -> None:
    """What the server does in two minutes."""
    line = line_of(bench.broker)
    for _ in range(2):
        await line.clean()
        await line.index()


async def find(bench: Bench, offset: int) -> DelayedMessage:
    return await bench.broker.delays.admin.find(TOPIC, 0, offset)


def test_messages_that_wait_for_long_are_moved_and_keep_their_names():
    async def story(bench: Bench) -> None:
        await fill(bench)
        before = line_of(bench.broker).messages.log.size
        await clean(bench)
        log = line_of(bench.broker).messages.log
        assert log.start_offset > 202
        assert log.size < before / 3
        assert [each.offset for each in await waiting(bench.broker)] == [0, 101, 202]
        assert (await find(bench, 101)).value == b"late 1"
        with pytest.raises(DelayedMessageNotFound):
            await find(bench, 5)
        await bench.broker.delays.admin.cancel(TOPIC, 0, 101)
        await bench.sleep(HOUR_MS / 1000 + 5)
        assert (await values(bench.broker))[-2:] == [b"late 0", b"late 2"]

    play(story)


def test_what_was_moved_survives_a_restart_and_comes_once():
    async def first(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic(TOPIC, partitions=1)
            await fill(bench)
            await clean(bench)

    async def second(environment: Environment) -> None:
        async with running(environment) as bench:
            assert line_of(bench.broker).timers.ahead.moved == 3
            await clean(bench)
            await bench.sleep(HOUR_MS / 1000)
            found = [each for each in await values(bench.broker) if each.startswith(b"late")]
            assert found == [b"late 0", b"late 1", b"late 2"]
            assert line_of(bench.broker).timers.ahead.moved == 0

    with World(seed=1) as world:
        world.run(first(world.environment("a")))
        world.run(second(world.environment("a")))


def test_a_copy_is_of_no_use_until_the_timers_have_noted_it(monkeypatch):
    """A crash between the copy and the note: both places hold the message, and one is used."""

    async def first(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic(TOPIC, partitions=1)
            await fill(bench)
            line = line_of(bench.broker)
            monkeypatch.setattr(line, "index", lambda: bench.sleep(0))
            await line.clean()
            assert line.timers.ahead.moved == 0
            raise ConnectionError("the plug is pulled")

    async def second(environment: Environment) -> None:
        async with running(environment) as bench:
            await clean(bench)
            assert [each.offset for each in await waiting(bench.broker)] == [0, 101, 202]
            await bench.sleep(HOUR_MS / 1000 + 5)
            found = [each for each in await values(bench.broker) if each.startswith(b"late")]
            assert found == [b"late 0", b"late 1", b"late 2"]

    with World(seed=1) as world:
        with pytest.raises(ConnectionError):
            world.run(first(world.environment("a")))
        world.run(second(world.environment("a")))


def test_what_is_being_read_is_not_cut():
    async def story(bench: Bench) -> None:
        await fill(bench)
        line = line_of(bench.broker)
        line._waiting.lowest_in_use = line.messages.log.start_offset
        await clean(bench)
        assert line.messages.log.start_offset == 0
        assert isinstance(line._cleaner, DelayLogCleaner)

    play(story)
