"""Waiting for something new, in simulated time."""

import asyncio
from collections.abc import Awaitable, Callable

from goqueue.broker.long_poll import LongPoll
from goqueue.runtime import Clock
from goqueue.testing.sim import SimDisk
from goqueue.testing.sim.world import World
from tests.unit.broker.brokers import LonePartition, append


def play(story: Callable[[Clock], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(world.clock("a"))

    with World(seed=1) as world:
        world.run(main())


def now() -> float:
    return asyncio.get_running_loop().time()


def test_it_is_woken_once_for_what_came_before_it_waits_and_sleeps_until_its_time():
    async def story(clock: Clock) -> None:
        poll = LongPoll(clock, 5_000)
        poll.wake()
        poll.wake()
        assert await poll.wait()
        assert now() == 0
        asyncio.get_running_loop().call_later(1, poll.wake)
        assert await poll.wait()
        assert now() == 1
        assert not await poll.wait()
        assert now() == 5
        poll.wake()
        assert not await poll.wait(), "its time is over"

    play(story)


def test_it_looks_again_after_a_while_as_long_as_it_has_time():
    async def story(clock: Clock) -> None:
        poll = LongPoll(clock, 5_000)
        assert [await poll.wait(2) for _ in range(3)] == [True, True, False]
        assert now() == 5
        assert await LongPoll(clock, None).wait(60)
        assert now() == 65

    play(story)


def test_its_owner_may_end_it_while_it_waits_and_before():
    async def story(clock: Clock) -> None:
        poll = LongPoll(clock, 5_000)
        asyncio.get_running_loop().call_later(1, poll.end)
        assert not await poll.wait()
        assert not await poll.wait()
        assert (now(), poll.is_ended) == (1, True)

    play(story)


def test_it_is_subscribed_to_what_was_named_last_and_to_nothing_in_the_end():
    async def story(clock: Clock) -> None:
        first, second = (LonePartition(SimDisk(1)) for _ in range(2))
        with LongPoll(clock, 60_000) as poll:
            poll.subscribe([first, second])
            poll.subscribe([second])
            await first.wait_committed(append(first, "one").last_offset)
            assert await poll.wait(1)
            assert now() >= 1, "nobody woke it"
            await second.wait_committed(append(second, "one").last_offset)
            before = now()
            assert await poll.wait(1)
            assert now() == before
        assert not first._waiters
        assert not second._waiters

    play(story)


def test_a_caller_that_is_cancelled_leaves_nothing_behind():
    async def story(clock: Clock) -> None:
        poll = LongPoll(clock, 60_000)
        waiting = asyncio.ensure_future(poll.wait())  # rule-ok: awaited below
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        poll.wake()
        assert await poll.wait()

    play(story)
