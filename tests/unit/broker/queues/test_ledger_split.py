"""A log of all partitions becomes a ledger for each: all of them, or none yet."""

from typing import Any

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.queue import Where
from goqueue.queue.records import (
    DeadLetterSnapshot,
    DeadLettersRemoved,
    Finished,
    GroupCreated,
    GroupForgotten,
    Leased,
    Numbered,
    Opened,
    Resumed,
    Returned,
)
from goqueue.queue.registry import RegistryRecord
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, running
from tests.unit.queue.harness import ledger_picture

GROUP, GONE = GroupId("workers"), GroupId("gone")
JOBS, LETTERS = TopicName("jobs"), TopicName("jobs.dlq")
NOW = Timestamp(1_000)


async def write_as_before(bench: Bench, *, snapshot: bool = False) -> None:
    """What a broker wrote when all partitions had one log."""
    await bench.broker.create_topic(JOBS, partitions=2)
    await bench.broker.create_topic(LETTERS, partitions=2)
    for topic in (JOBS, LETTERS):
        for partition in range(2):
            messages = [OutgoingMessage(value, partition=partition) for value in numbered(10)]
            await bench.publish(topic, *messages)
    records = former_records(bench.broker.topic(JOBS).topic_id)
    await bench.queues.registry.submit(lambda _: Decision(records, None))
    if snapshot:
        await bench.queues.registry.take_snapshot()


def former_records(topic_id: TopicId) -> list[RegistryRecord]:
    here, there = Where(GROUP, JOBS, 0), Where(GROUP, JOBS, 1)
    gone = Where(GONE, JOBS, 0)
    return [
        GroupCreated(GROUP),
        GroupCreated(GONE),
        DeadLetterSnapshot(LETTERS, 0, Offset(0), (), Offset(4)),
        *(Opened(where, topic_id, Offset(0)) for where in (here, there, gone)),
        leased(here, 7, (0, 4), cursor=5),
        leased(there, 8, (0, 2), cursor=3),
        leased(gone, 9, (0, 9), cursor=10),
        Finished(here, ((0, 1),)),
        Returned(there, (1,), (0,), "nacked", NOW, "no"),
        DeadLettersRemoved(LETTERS, 1, ((0, 3),)),
        Resumed(NOW),
        GroupForgotten(GONE),
        Numbered(500),
    ]


def leased(where: Where, lease_id: int, fresh: tuple[int, int], *, cursor: int) -> Leased:
    until = Timestamp(NOW + 30_000)
    return Leased(where, lease_id, "ann", NOW, until, ((*fresh, 2),), (), (cursor,) * 5)


def pictures(bench: Bench) -> dict[Any, Any]:
    """What the ledgers say, but for deadlines: those begin anew with each start."""
    found = {}
    for ledger in bench.queues.ledgers:
        machine = ledger.ahead
        states = {group: ledger_picture(each) for group, each in machine.states.items()}
        for state in states.values():
            state["held"] = {
                k: v if isinstance(v, int) else v[:2] for k, v in state["held"].items()
            }
        letters = machine.dead_letters
        found[machine.topic, machine.partition] = (
            states,
            (letters.floor, letters.taken.ranges),
            machine.dead_letters_end,
        )
    return found


async def check(bench: Bench) -> None:
    state = bench.queues.state(Where(GROUP, JOBS, 0))
    assert state is not None
    assert state.ack_floor == 2
    assert GONE not in bench.queues.groups
    places = {(each.partition, each.offset) for each in bench.queues.in_flight(GROUP)}
    assert places == {(0, 2), (0, 3), (0, 4), (1, 0), (1, 2)}
    machines = {
        (each.ahead.topic, each.ahead.partition): each.ahead for each in bench.queues.ledgers
    }
    assert machines[JOBS, 0].dead_letters_end == 4, "as was known of the dead letters' partition"
    assert machines[LETTERS, 1].dead_letters.floor == 4
    assert await bench.queues.dead_letters.count(JOBS) == 16
    outcomes = await queue_verbs.ack(bench.queues, ["jobs:0:2:1:7.workers", "jobs:1:0:1:8.workers"])
    assert [getattr(each, "action", each) for each in outcomes] == ["acked"] * 2, "as before"
    again = await bench.receive(JOBS, GROUP, max_messages=100)
    assert min(each.lease_id for each in again) >= 500, "no number is used twice"
    assert len(again) == 5 + 8


@pytest.mark.parametrize("snapshot", [False, True])
def test_ledgers_say_what_the_one_log_said(snapshot: bool) -> None:
    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            await write_as_before(bench, snapshot=snapshot)

    async def upgrade(environment: Environment) -> None:
        async with running(environment) as bench:
            assert len(list(bench.queues.ledgers)) == 4

    async def look(environment: Environment) -> None:
        async with running(environment) as bench:
            await check(bench)

    with World(seed=1) as world:
        for story in (before, upgrade, look):
            world.run(story(world.environment("a")))


def upgrade_and_look(crash_at: int | None) -> int:
    """The machine dies at that disk operation of the upgrade; gives how many there are."""
    expected: dict[Any, Any] = {}

    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            await write_as_before(bench)

    async def upgrade(environment: Environment) -> None:
        async with running(environment) as bench:
            expected.update(pictures(bench))

    async def look(environment: Environment) -> None:
        async with running(environment) as bench:
            found = pictures(bench)
            assert len(found) == 4
            assert not expected or found == expected
            await check(bench)

    with World(seed=crash_at or 0) as world:
        world.run(before(world.environment("a")))
        disk = world.disk("a")
        before_it = disk.operations
        if crash_at is not None:
            disk.crash_at(before_it + crash_at)
        world.start("a", upgrade)
        world.run_until(lambda: not world.alive("a"))
        operations = disk.operations - before_it
        if crash_at is not None:
            world.power_loss("a", crash_at)
        world.run(look(world.environment("a")))
    return operations


def test_a_power_cut_at_any_operation_leaves_the_one_log_or_the_ledgers() -> None:
    operations = upgrade_and_look(None)
    for crash_at in range(1, operations + 1, 3):
        upgrade_and_look(crash_at)
