"""The delays of one partition: in order, exact, through restarts and jumps of the clock."""

import pytest

from goqueue.runtime import Environment
from goqueue.testing.sim import SimClock
from goqueue.testing.sim.world import World
from tests.unit.broker.delays.delay_world import (
    TOPIC,
    Bench,
    delayed,
    line_of,
    play,
    read,
    values,
    waiting,
)
from tests.unit.broker.queue_world import running

DAY_MS = 86_400_000


def test_messages_come_when_they_are_due_and_in_the_order_of_due_times():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, b"now", delayed(b"3s", 3000), delayed(b"1s", 1000))
        await bench.publish(TOPIC, delayed(b"1s too", 1000), delayed(b"5 ms", 5))
        assert (await values(bench.broker))[:1] == [b"now"]  # publishing may take 5 ms
        await bench.sleep(0.05)
        assert await values(bench.broker) == [b"now", b"5 ms"]
        await bench.sleep(5)
        assert await values(bench.broker) == [b"now", b"5 ms", b"1s", b"1s too", b"3s"]
        due = (await read(bench.broker))[-1]
        assert due.headers[0] == ("gq-delayed-from", b"0:0")

    play(story)


def test_a_reader_that_is_past_the_message_still_gets_it():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, delayed(b"late", 2000), b"a", b"b")
        assert await bench.drain() == [b"a", b"b"]
        await bench.sleep(3)
        assert await bench.drain() == [b"late"]

    play(story)


def test_delays_survive_a_restart_and_overdue_ones_go_at_once_in_order():
    async def first(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic(TOPIC, partitions=2)
            late = [delayed(b"%d" % n, 10_000 - n, partition=n % 2) for n in range(20)]
            await bench.publish(TOPIC, *late)

    async def second(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.sleep(0.1)
            found = [int(each) for each in await values(bench.broker)]
            assert found == sorted(range(0, 20, 2), reverse=True)
            assert not await waiting(bench.broker)

    with World(seed=1) as world:
        world.run(first(world.environment("a")))
        world.run_for(3600)
        world.run(second(world.environment("a")))


def test_a_message_may_wait_for_400_days():
    async def publish(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic(TOPIC, partitions=1)
            await bench.publish(TOPIC, delayed(b"far", 400 * DAY_MS))

    async def look(environment: Environment, expected: list[bytes]) -> None:
        async with running(environment) as bench:
            await bench.sleep(1)
            assert await values(bench.broker) == expected

    with World(seed=1) as world:
        world.run(publish(world.environment("a")))
        world.run_for(399 * DAY_MS / 1000)
        world.run(look(world.environment("a"), []))
        world.run_for(DAY_MS / 1000)
        world.run(look(world.environment("a"), [b"far"]))


@pytest.mark.parametrize("by", [-3_600_000, 3_600_000])
def test_the_wall_clock_decides_also_when_it_is_set(by: int):
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, delayed(b"a", 1_800_000))
        clock = bench.broker.environment.clock
        assert isinstance(clock, SimClock)
        clock.jump(by)
        await bench.publish(TOPIC, delayed(b"b", 2_000))
        await bench.sleep(1.5)
        assert await values(bench.broker) == ([b"a"] if by > 0 else [])
        await bench.sleep(1.5)
        assert await values(bench.broker) == ([b"a", b"b"] if by > 0 else [b"b"])

    play(story)


def test_ten_thousand_at_the_same_millisecond():
    async def story(bench: Bench) -> None:
        for start in range(0, 10_000, 1000):
            some = [delayed(b"%d" % n, 5_000 - start // 1000) for n in range(start, start + 1000)]
            await bench.publish(TOPIC, *some)
        await bench.sleep(10)
        found = [int(each) for each in await values(bench.broker)]
        assert sorted(found) == list(range(10_000))

    play(story)


def test_a_page_lists_by_due_time_and_goes_on():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, *(delayed(b"x", 60_000 - n * 10) for n in range(50)))
        line = line_of(bench.broker)
        first = await line.page((-1, -1), 20)
        rest = await line.page(first[-1], 100)
        assert [offset for _, offset in first + rest] == list(range(49, -1, -1))

    play(story)


def test_retention_does_not_take_what_waits():
    async def story(bench: Bench) -> None:
        await bench.broker.change_settings(TOPIC, {"retention.ms": "1000", "segment.ms": "1000"})
        await bench.publish(TOPIC, b"old", delayed(b"late", 600_000))
        await bench.sleep(590)
        await bench.publish(TOPIC, b"new")
        assert len(await waiting(bench.broker)) == 1
        await bench.sleep(11)
        assert b"late" in await values(bench.broker)

    play(story)
