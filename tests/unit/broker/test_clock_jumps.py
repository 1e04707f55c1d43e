"""The wall clock is set back or forwards: what lasts two seconds goes on to last two seconds."""

from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker.groups.http_members import GroupMembers
from goqueue.broker.groups.http_requests import JoinAsReader
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.ids import GroupId, TopicName, TopicPartition
from goqueue.queue import QueueSettings
from goqueue.runtime import Environment
from goqueue.testing.sim import SimClock
from goqueue.testing.sim.world import World
from goqueue.txn import State
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, play, running, values

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

JUMPS = [pytest.param(-HOUR_MS, id="back"), pytest.param(HOUR_MS, id="forwards")]
SETTINGS = QueueSettings(visibility_ms=2_000, backoff_base_ms=1_000, backoff_jitter=0)


@pytest.mark.parametrize("by", JUMPS)
def test_a_lease_ends_after_its_time(by: int):
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"held")
        (first,) = await bench.receive()
        set_clock(bench, by)
        await bench.sleep(1.9)
        assert len(bench.queues.in_flight("workers")) == 1
        await bench.sleep(0.2)
        assert bench.queues.in_flight("workers") == []
        (again,) = await bench.receive(wait_ms=1_200)
        assert (again.record.value, again.attempt) == (first.record.value, 2)

    play(scenario, settings=SETTINGS)


@pytest.mark.parametrize("by", JUMPS)
def test_a_lease_given_after_the_jump_ends_before_older_ones(by: int):
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"long", b"short")
        await bench.receive(max_messages=1, visibility_ms=30_000)
        await bench.sleep(1)
        set_clock(bench, by)
        await bench.receive(max_messages=1, visibility_ms=1_000)
        await bench.sleep(1.1)
        (left,) = bench.queues.in_flight("workers")
        assert left.offset == 0
        await bench.sleep(28.5)  # a steady clock catches up with the wall clock by 1 %
        assert bench.queues.in_flight("workers") == []

    play(scenario, settings=SETTINGS)


@pytest.mark.parametrize("by", JUMPS)
def test_a_retry_comes_after_its_delay(by: int):
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"bad")
        (one,) = await bench.receive()
        await queue_verbs.nack(bench.queues, [one.receipt], delay_ms=1_000)
        set_clock(bench, by)
        assert await bench.receive(wait_ms=900) == []
        assert values(await bench.receive(wait_ms=200)) == [b"bad"]

    play(scenario, settings=SETTINGS)


@pytest.mark.parametrize("by", JUMPS)
def test_a_dead_member_leaves_its_group_after_its_session(by: int):
    async def scenario(bench: Bench) -> None:
        groups, group_id = bench.broker.groups, GroupId("readers")
        wanted = JoinAsReader(
            group_id=group_id, topics=(TopicName("jobs"),), session_timeout_ms=6_000
        )
        await GroupMembers(bench.broker).join(wanted)
        await bench.sleep(1)
        set_clock(bench, by)
        await bench.sleep(4.9)
        assert len((await groups.describe(group_id)).members) == 1
        await bench.sleep(0.2)
        assert (await groups.describe(group_id)).members == ()

    play(scenario)


@pytest.mark.parametrize("by", JUMPS)
def test_a_transaction_that_takes_too_long_is_aborted_at_its_time_out(by: int):
    async def scenario(bench: Bench) -> None:
        transactions = bench.broker.transactions
        who = await transactions.init("tx", timeout_ms=5_000)
        await transactions.add_partitions("tx", who, [TopicPartition(TopicName("jobs"), 0)])
        set_clock(bench, by)
        await bench.sleep(4.9)
        assert transactions.ahead.get("tx").state is State.ONGOING
        await bench.sleep(0.3)
        assert transactions.ahead.get("tx").state is not State.ONGOING

    play(scenario)


def test_a_message_is_as_old_as_the_wall_clock_says():
    async def scenario(bench: Bench) -> None:
        hour = (("gq-ttl-ms", b"3000000"),)
        await bench.publish("jobs", OutgoingMessage(b"old", headers=hour), b"plain")
        set_clock(bench, HOUR_MS)
        assert await bench.drain() == [b"plain"]

    play(scenario)


@pytest.mark.parametrize("by", [-DAY_MS, -HOUR_MS, HOUR_MS])
def test_after_a_restart_leases_and_retries_last_no_longer_than_their_time(by: int):
    async def before(bench: Bench) -> None:
        await bench.broker.create_topic("jobs", partitions=1)
        await bench.queues.configure("workers", SETTINGS)
        await bench.publish("jobs", b"held", b"waits")
        held, waits = await bench.receive(max_messages=2)
        await queue_verbs.nack(bench.queues, [waits.receipt], delay_ms=1_500)
        assert held.record.value == b"held"

    async def after(bench: Bench) -> None:
        await bench.sleep(1.6)
        assert values(await bench.receive()) == [b"waits"]
        await bench.sleep(0.5)
        assert values(await bench.receive(wait_ms=1_100)) == [b"held"]

    with World(seed=5) as world:
        world.run(on_broker(world.environment("a"), before))
        world.kill("a")
        world.clock("a").jump(by)
        world.run(on_broker(world.environment("a"), after))


def test_many_jumps_in_both_directions(seed: int):
    """Leases of all lengths, and a wall clock that is set all the time."""
    world = World(seed)

    async def scenario(bench: Bench) -> None:
        clock, random = bench.broker.environment.clock, world.random
        await bench.broker.create_topic("jobs", partitions=1)
        await bench.queues.configure("workers", QueueSettings(backoff_base_ms=60_000))
        await bench.publish("jobs", *(b"%d" % number for number in range(12)))
        ends: dict[int, int] = {}
        for _ in range(12):
            seconds = random.uniform(0.5, 20)
            (one,) = await bench.receive(max_messages=1, visibility_ms=round(seconds * 1e3))
            ends.setdefault(one.record.offset, clock.instant() + round(seconds * 1e9))
            await bench.sleep(random.uniform(0, 0.4))
            set_clock(bench, random.choice([-1, 1]) * random.randrange(DAY_MS))
        while ends:
            await bench.sleep(0.05)
            held = {each.offset for each in bench.queues.in_flight("workers")}
            now = clock.instant()
            for offset, end in list(ends.items()):
                if offset not in held:
                    assert now >= end - 0.3e9, "it came back too early"
                    del ends[offset]
                else:
                    assert now <= end + 0.3e9, "it came back too late"

    with world:
        world.run(on_broker(world.environment("a"), scenario))


async def on_broker(environment: Environment, scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async with running(environment) as bench:
        await scenario(bench)


def set_clock(bench: Bench, by: int) -> None:
    clock = bench.broker.environment.clock
    assert isinstance(clock, SimClock)
    clock.jump(by)
