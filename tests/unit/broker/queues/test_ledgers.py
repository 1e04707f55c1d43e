"""A ledger for each partition: when it is there, what it decides alone, and how long it stays."""

import asyncio
from collections.abc import Callable

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.queues.acknowledgement import Ack
from goqueue.broker.storage.bundle import LEDGER
from goqueue.cluster.replication import Follower, Leader
from goqueue.model.errors import (
    CorruptData,
    GoQueueError,
    LeadershipLost,
    NotLeader,
    StorageFailed,
)
from goqueue.model.ids import Epoch, GroupId, NodeId, Offset, TopicName
from goqueue.queue import QueueSettings, ReceiptExpired, ReceiptUnknown, Settled, Where
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play, running, values

GROUP = GroupId("workers")


def directory(partition: int, topic: str = "jobs") -> str:
    return f"/data/logs/{topic}/{partition}/ledger"


async def publish_to_each(bench: Bench, partitions: int, *each: bytes) -> None:
    messages = [OutgoingMessage(value, partition=n) for n in range(partitions) for value in each]
    await bench.publish("jobs", *messages)


async def groups_of(bench: Bench) -> list[str]:
    return [each.group_id for each in await bench.broker.queue_groups.list_groups()]


def test_a_partition_has_a_ledger_once_a_group_begins_in_it():
    async def scenario(bench: Bench) -> None:
        disk = bench.broker.environment.disk
        await publish_to_each(bench, 2, b"x")
        await bench.peek(10, "strangers")
        assert not disk.exists(directory(0))
        await bench.receive()
        assert [disk.exists(directory(partition)) for partition in (0, 1)] == [True, True]

    play(scenario, partitions=2)


def test_deliveries_are_numbered_by_each_ledger():
    async def scenario(bench: Bench) -> None:
        await publish_to_each(bench, 2, b"x")
        one, other = await bench.receive(max_messages=10)
        assert one.partition != other.partition
        assert len({one.receipt, other.receipt}) == 2
        outcomes = await queue_verbs.ack(bench.queues, [one.receipt, other.receipt])
        assert [type(each) for each in outcomes] == [Settled, Settled]
        swapped = one.receipt.replace(f"jobs:{one.partition}:", "jobs:7:")
        assert isinstance((await queue_verbs.ack(bench.queues, [swapped]))[0], ReceiptUnknown)

    play(scenario, partitions=2)


def test_a_ledger_that_cannot_be_written_refuses_its_receipts_and_no_others():
    async def scenario(bench: Bench) -> None:
        await publish_to_each(bench, 3, b"x", b"y")
        some = await bench.receive(max_messages=10)
        assert len(some) == 6
        topic = bench.broker.topic("jobs")
        (await bench.broker.partitions.ledger(topic, 1)).log.fail("a broken disk")
        outcomes = await queue_verbs.ack(bench.queues, [each.receipt for each in some])
        kinds = {(each.partition, type(out)) for each, out in zip(some, outcomes, strict=True)}
        assert kinds == {(0, Settled), (1, StorageFailed), (2, Settled)}
        refused = await bench.queues.settlement.refusals([each.receipt for each in some], Ack())
        assert {some[place].partition for place in refused} == {1}

    play(scenario, partitions=3)


def test_messages_of_ledgers_that_can_be_written_are_handed_out():
    async def scenario(bench: Bench) -> None:
        await publish_to_each(bench, 3, b"x")
        (first,) = await bench.receive(group="others", max_messages=1)
        topic, broken = bench.broker.topic("jobs"), (first.partition + 1) % 3
        (await bench.broker.partitions.ledger(topic, broken)).log.fail("a broken disk")
        some = await bench.receive(group="others", max_messages=10)
        assert len(some) == 1, "of the two that are left, one is in the partition that is broken"

    play(scenario, partitions=3)


def test_the_ledgers_of_one_request_sync_at_the_same_time():
    async def took(bench: Bench, partitions: int) -> int:
        await publish_to_each(bench, partitions, b"x")
        some = await bench.receive(max_messages=100)
        assert len(some) == partitions
        before = bench.broker.environment.clock.instant()
        await bench.ack(some)
        return bench.broker.environment.clock.instant() - before

    async def scenario(bench: Bench) -> None:
        await took(bench, 8)  # the first syncs make names durable, too
        alone = max([await took(bench, 1) for _ in range(5)])
        together = max([await took(bench, 8) for _ in range(5)])
        assert together < 3 * alone

    play(scenario, partitions=8)


def test_a_topic_takes_its_ledgers_along_and_the_next_of_its_name_begins_anew():
    async def scenario(bench: Bench) -> None:
        await publish_to_each(bench, 2, *numbered(3))
        old = await bench.receive(max_messages=100)
        await bench.broker.delete_topic("jobs")
        assert not list(bench.queues.ledgers)
        assert bench.queues.in_flight(GROUP) == []
        assert bench.queues.groups[GROUP].book.in_flight == 0
        await bench.broker.create_topic("jobs", partitions=2)
        await publish_to_each(bench, 2, *numbered(3))
        new = await bench.receive(max_messages=100)
        assert len(new) == 6
        outcomes = await queue_verbs.ack(bench.queues, [each.receipt for each in old])
        assert {type(each) for each in outcomes} == {ReceiptExpired}
        await bench.ack(new)

    play(scenario, partitions=2)


def test_a_deleted_group_is_gone_from_every_ledger_also_after_a_restart():
    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic("jobs", partitions=3)
            await publish_to_each(bench, 3, *numbered(2))
            await bench.receive(max_messages=4)
            await bench.receive(group="others", max_messages=4)
            await bench.broker.queue_groups.delete(GROUP)
            assert [each.group_id for each in await bench.broker.queue_groups.list_groups()] == [
                "others"
            ]

    async def after(environment: Environment) -> None:
        async with running(environment) as bench:
            assert [each.group_id for each in await bench.broker.queue_groups.list_groups()] == [
                "others"
            ]
            assert {group for each in bench.queues.ledgers for group in each.ahead.states} == {
                "others"
            }

    with World(seed=1) as world:
        world.run(before(world.environment("a")))
        world.run(after(world.environment("a")))


def test_everything_in_flight_is_known_after_a_restart():
    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic("jobs", partitions=3)
            await publish_to_each(bench, 3, *numbered(4))
            some = await bench.receive(max_messages=100)
            await bench.ack(some[:5])

    async def after(environment: Environment) -> None:
        async with running(environment) as bench:
            held = bench.queues.in_flight(GROUP)
            assert len(held) == 7
            assert bench.queues.groups[GROUP].book.consumers == {"ann": 7}
            outcomes = await queue_verbs.ack(bench.queues, [each.receipt for each in held])
            assert {type(each) for each in outcomes} == {Settled}
            assert await bench.receive(max_messages=100) == []

    with World(seed=1) as world:
        world.run(before(world.environment("a")))
        world.run(after(world.environment("a")))


def test_a_damaged_ledger_is_refused_by_name_and_the_other_topics_go_on():
    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            for topic in ("jobs", "tasks"):
                await bench.broker.create_topic(topic, partitions=1)
                await bench.publish(topic, *numbered(2))
                await bench.receive(topic, max_messages=1)

    async def after(environment: Environment) -> None:
        async with running(environment) as bench:
            with pytest.raises(CorruptData, match=r"ledger of jobs-0 is damaged.*doctor"):
                await bench.receive()
            assert len(await bench.receive("tasks", consumer="bob")) == 1

    with World(seed=1) as world:
        world.run(before(world.environment("a")))
        log = world.disk("a").open(f"{directory(0)}/00000000000000000000.log")
        log.overwrite(70, b"\xff" * 8)
        world.run(after(world.environment("a")))


def test_leases_of_many_partitions_run_out_each_in_its_time():
    async def scenario(bench: Bench) -> None:
        await publish_to_each(bench, 8, b"x")
        for number in range(8):
            await bench.receive(max_messages=1, visibility_ms=1_000 * (number + 1))
        await bench.sleep(4.5)
        assert len(bench.queues.in_flight(GROUP)) == 4
        waiting = asyncio.ensure_future(  # rule-ok: a consumer
            bench.receive(consumer="bob", max_messages=100, wait_ms=60_000)
        )
        assert values(await waiting)
        state = bench.queues.state(Where(GROUP, TopicName("jobs"), 0))
        assert state is not None

    play(scenario, partitions=8)


# --- led elsewhere --------------------------------------------------------------------------------


def lose(bench: Bench, partition: int = 0, *, epoch: int = 1) -> None:
    """Another node leads from now on."""
    topic, role = bench.broker.topic("jobs"), Follower(NodeId(2), Epoch(epoch))
    assert bench.broker.partitions.change_role(topic, partition, role).done()


async def lead(bench: Bench, partition: int = 0, *, epoch: int = 2) -> None:
    role = Leader.alone(NodeId(1), Epoch(epoch))
    await bench.broker.partitions.change_role(bench.broker.topic("jobs"), partition, role)


async def turns_until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


def test_a_receiver_that_waits_hears_that_another_node_leads():
    async def scenario(bench: Bench) -> None:
        waiting = asyncio.ensure_future(bench.receive(wait_ms=30_000))
        await bench.sleep(1)
        lose(bench)
        with pytest.raises(NotLeader, match="node 2 leads jobs-0, in epoch 1"):
            await asyncio.wait_for(waiting, 1)
        with pytest.raises(NotLeader):
            await bench.receive()

    play(scenario)


def test_a_receiver_goes_on_with_the_partitions_that_are_left():
    async def scenario(bench: Bench) -> None:
        waiting = asyncio.ensure_future(bench.receive(wait_ms=30_000))
        await bench.sleep(1)
        lose(bench, 0)
        await bench.sleep(1)
        await bench.publish("jobs", OutgoingMessage(b"x", partition=1))
        assert values(await asyncio.wait_for(waiting, 1)) == [b"x"]

        waiting = asyncio.ensure_future(bench.receive(wait_ms=30_000))
        await bench.sleep(1)
        await lead(bench, 0)
        await bench.publish("jobs", OutgoingMessage(b"y", partition=0))
        assert values(await asyncio.wait_for(waiting, 1)) == [b"y"]

    play(scenario, partitions=2)


def test_receipts_of_a_partition_led_elsewhere_are_not_unknown():
    async def scenario(bench: Bench) -> None:
        await publish_to_each(bench, 2, b"x")
        some = await bench.receive(max_messages=2)
        lose(bench, 0)
        outcomes = await queue_verbs.ack(bench.queues, [each.receipt for each in some])
        kinds = {each.partition: type(out) for each, out in zip(some, outcomes, strict=True)}
        assert kinds == {0: NotLeader, 1: Settled}
        await lead(bench, 0)
        (again,) = (each for each in some if each.partition == 0)
        assert isinstance((await queue_verbs.ack(bench.queues, [again.receipt]))[0], Settled)
        assert await bench.drain() == []

    play(scenario, partitions=2)


def test_what_waits_for_the_ledgers_commit_hears_that_another_node_leads():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(2))
        (first,) = await bench.receive(max_messages=1)
        acking = asyncio.ensure_future(queue_verbs.ack(bench.queues, [first.receipt]))
        receiving = asyncio.ensure_future(bench.receive(max_messages=1))
        ledger = await bench.broker.partitions.ledger(bench.broker.topic("jobs"), 0)
        written = ledger.log.end_offset
        await turns_until(lambda: ledger.log.end_offset == written + 2)
        lose(bench)
        told = await asyncio.gather(acking, receiving, return_exceptions=True)
        assert isinstance(told[0], LeadershipLost)
        assert isinstance(told[1], LeadershipLost | list)  # it may have been committed before
        await lead(bench)
        await bench.sleep(60)
        assert await bench.drain() == [b"1"]  # the ack is in the log all the same

    play(scenario)


def test_a_ledger_that_is_led_again_is_replayed():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(6))
        done = await bench.receive(max_messages=2)
        await bench.ack(done)
        held = await bench.receive(max_messages=2)
        former = bench.queues.ledgers.find("jobs", 0)
        assert former is not None
        lose(bench)
        assert bench.queues.ledgers.find("jobs", 0) is None
        with pytest.raises(NotLeader, match="not led here any more"):
            await former.read(lambda machine: len(machine.states))
        with pytest.raises(LeadershipLost):  # it may have been committed
            await former.durable(Offset(3))
        await lead(bench)
        now = bench.queues.ledgers.find("jobs", 0)
        assert now is not None
        assert now is not former
        assert now.epoch == 2
        assert [each.offset for each in bench.queues.in_flight("workers")] == [2, 3]
        await bench.ack(held)
        assert await bench.drain() == numbered(2, first=4)

    play(scenario)


def test_what_a_ledger_replays_is_not_counted_again():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(4))
        await bench.ack(await bench.receive(max_messages=2))
        lose(bench)
        await lead(bench)
        await bench.ack(await bench.receive(max_messages=1))
        (stats,) = await bench.queues.stats(GROUP)
        assert (stats.totals.delivered, stats.totals.acked) == (3, 3)

    play(scenario)


def test_leases_of_a_ledger_that_is_led_again_run_out_although_nobody_asks():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"x")
        await bench.receive()
        lose(bench)
        await bench.sleep(100)
        await lead(bench)
        await bench.sleep(60)
        (again,) = await bench.receive()
        assert again.attempt == 2

    play(scenario)


def test_no_snapshot_is_kept_of_a_ledger_that_was_dropped_meanwhile():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(2_000))
        await bench.receive(max_messages=1_000)
        ledger = bench.queues.ledgers.find("jobs", 0)
        assert ledger is not None
        for number in range(300):
            await bench.queues.begin(f"group-{number}", ["jobs"], QueueSettings())
        await ledger.wait_settled()
        log = bench.broker.partitions.bundle(bench.broker.topic("jobs"), 0).find(LEDGER)
        assert log is not None
        end = log.log.end_offset
        taking = asyncio.ensure_future(ledger.take_snapshot())
        while log.log.end_offset == end:  # noqa: ASYNC110 # no event tells of the first slice
            await asyncio.sleep(0)
        lose(bench)
        with pytest.raises(GoQueueError, match=r"dropped meanwhile|node 2 leads jobs-0 \(ledger\)"):
            await taking
        await lead(bench)
        assert len(bench.queues.in_flight("workers")) == 1_000

    play(scenario)


def test_a_transaction_is_completed_when_the_ledger_is_led_again():
    async def scenario(bench: Bench) -> None:
        transactions = bench.broker.transactions
        await bench.publish("jobs", b"x", b"y")
        some = await bench.receive(max_messages=2)
        who = await transactions.init("worker", timeout_ms=60_000)
        await transactions.begin("worker", who)
        assert await transactions.add_acks("worker", who, [some[0].receipt]) == {}
        lose(bench)
        refused = await transactions.add_acks("worker", who, [some[1].receipt])
        assert [type(each) for each in refused.values()] == [NotLeader]
        await transactions.end("worker", who, commits=True, bumps_epoch=False)
        assert transactions.ahead.get("worker").state.is_prepared
        await lead(bench)
        assert await transactions.wait_completed("worker")
        await bench.sleep(60)
        assert await bench.drain() == [b"y"]

    play(scenario)
