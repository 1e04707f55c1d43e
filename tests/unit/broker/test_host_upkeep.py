"""One task for the deadlines and snapshots of many hosts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker.host_upkeep import NEVER, SNAPSHOT_SECONDS, HostUpkeep
from goqueue.model.ids import Timestamp
from goqueue.testing.sim import SimClock, SimLoop, run


class Host:
    """Notes when it is fired, and how often a snapshot of it is taken."""

    def __init__(self, records_since_snapshot: int = 0) -> None:
        self.awaited = NEVER
        self.records_since_snapshot = records_since_snapshot
        self.fired: list[Timestamp] = []
        self.snapshots = 0

    def fire(self, now: Timestamp) -> None:
        self.fired.append(now)

    async def try_snapshot(self) -> None:
        self.snapshots += 1
        self.records_since_snapshot = 0


Story = Callable[[HostUpkeep, SimClock], Awaitable[None]]


def play(story: Story, *, records_min: int = 1) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        clock = SimClock(loop)
        upkeep = HostUpkeep(clock, records_min=records_min)
        running = asyncio.ensure_future(upkeep.run())
        await asyncio.sleep(1)
        await story(upkeep, clock)
        assert not running.done()
        running.cancel()

    run(main())


def after(clock: SimClock, seconds: float) -> Timestamp:
    return Timestamp(clock.steady() + round(seconds * 1000))


def test_each_host_is_fired_at_its_own_deadline():
    async def story(upkeep: HostUpkeep, clock: SimClock) -> None:
        soon, late = Host(), Host()
        upkeep.watch(late, late_at := after(clock, 9))
        upkeep.watch(soon, soon_at := after(clock, 3))
        await asyncio.sleep(4)
        assert len(soon.fired) == 1
        assert soon_at <= soon.fired[0] < soon_at + 10
        assert late.fired == []
        await asyncio.sleep(6)
        assert len(late.fired) == 1
        assert late_at <= late.fired[0] < late_at + 10

    play(story)


def test_an_earlier_deadline_wakes_it_up():
    async def story(upkeep: HostUpkeep, clock: SimClock) -> None:
        host = Host()
        upkeep.watch(host, after(clock, 1_000))
        await asyncio.sleep(1)
        upkeep.watch(host, after(clock, 1))
        await asyncio.sleep(2)
        assert len(host.fired) == 1

    play(story)


@pytest.mark.parametrize("second", [5, 20], ids=["earlier", "later"])
def test_only_the_deadline_that_was_named_last_counts(second: int):
    async def story(upkeep: HostUpkeep, clock: SimClock) -> None:
        host = Host()
        upkeep.watch(host, after(clock, 10))
        upkeep.watch(host, after(clock, second))
        await asyncio.sleep(second - 1)
        assert host.fired == []
        await asyncio.sleep(30)
        assert len(host.fired) == 1
        assert host.awaited == NEVER

    play(story)


def test_a_host_that_is_gone_is_left_in_peace():
    async def story(upkeep: HostUpkeep, clock: SimClock) -> None:
        host = Host(records_since_snapshot=5)
        upkeep.add(host)
        upkeep.watch(host, after(clock, 1))
        upkeep.want_snapshot(host)
        upkeep.remove(host)
        await asyncio.sleep(2 * SNAPSHOT_SECONDS)
        assert host.fired == []
        assert host.snapshots == 0

    play(story)


def test_a_snapshot_that_is_wanted_is_taken_at_once_and_once():
    async def story(upkeep: HostUpkeep, _: SimClock) -> None:
        wants, other = Host(1_000), Host(1_000)
        upkeep.add(wants)
        upkeep.add(other)
        upkeep.want_snapshot(wants)
        upkeep.want_snapshot(wants)
        await asyncio.sleep(1)
        assert (wants.snapshots, other.snapshots) == (1, 0)

    play(story)


def test_after_a_while_snapshots_are_taken_of_what_has_grown_enough():
    async def story(upkeep: HostUpkeep, _: SimClock) -> None:
        hosts = [Host(number) for number in (0, 99, 100)]
        for host in hosts:
            upkeep.add(host)
        await asyncio.sleep(SNAPSHOT_SECONDS + 1)
        assert [host.snapshots for host in hosts] == [0, 0, 1]
        await asyncio.sleep(SNAPSHOT_SECONDS)
        assert [host.snapshots for host in hosts] == [0, 0, 1], "nothing has grown since"

    play(story, records_min=100)
