"""Queues from the outside: what workers, operators and other groups see."""

import asyncio

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit
from goqueue.model import batch as batches
from goqueue.model.errors import GoQueueError, TopicNotFound
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.queue import (
    Delivered,
    QueueSettings,
    ReceiptExpired,
    ReceiptMalformed,
    ReceiptUnknown,
    Settled,
    Where,
)
from goqueue.queue.partition_state import PartitionState
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play, running, values


def test_ack_alone_advances_the_group_and_lag_tools_see_it():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(10))
        some = await bench.receive(max_messages=6)
        assert values(some) == numbered(6)
        await bench.ack([some[0], some[1], some[4]])
        assert floor(bench) == 2
        assert await bench.receive(max_messages=6) != some
        await bench.sleep(2)
        assert committed(bench) == 2
        await bench.ack(some[2:4])
        await bench.sleep(2)
        assert committed(bench) == 5

    play(scenario)


def test_a_broker_stops_although_its_last_floors_cannot_be_committed():
    """The replicas that a commit needs may have stopped before."""

    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(2))
        await bench.ack(await bench.receive(max_messages=1))
        bench.queues._offset_sync.commit_ack_floors = wait_for_ever  # type: ignore[method-assign]

    play(scenario)


def test_nack_returns_after_the_backoff_and_the_last_failure_is_the_end():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"bad", b"good")
        await bench.ack((await bench.receive(max_messages=2))[1:])
        (first,) = bench.queues.in_flight("workers")
        waits = []
        receipt = first.receipt
        for attempt in (1, 2, 3):
            (outcome,) = await queue_verbs.nack(bench.queues, [receipt], reason=f"no {attempt}")
            assert isinstance(outcome, Settled)
            if attempt == 3:
                assert (outcome.action, outcome.dlq_topic) == ("dead", "jobs.dlq")
                break
            assert outcome.action == "requeued"
            assert await bench.receive() == []
            started = bench.broker.environment.clock.now()
            (again,) = await bench.receive(wait_ms=10_000)
            assert (again.record.value, again.attempt) == (b"bad", attempt + 1)
            assert (again.failures, again.timeouts) == (attempt, 0)
            waits.append(bench.broker.environment.clock.now() - started)
            receipt = again.receipt
        assert 790 <= waits[0] <= 1210
        assert 1590 <= waits[1] <= 2410
        await bench.sleep(1)
        assert await bench.receive() == []
        (letter,) = await bench.queues.dead_letters.browse("jobs")
        story = letter.history
        assert story is not None
        assert (story.reason, story.error, story.attempts) == ("max_failures", "no 3", 3)
        assert (letter.record.value, letter.record.offset) == (b"bad", 0)
        assert floor(bench) == 2

    play(scenario, settings=QueueSettings(max_failures=3))


def test_a_dead_workers_messages_go_to_another():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        held = await bench.receive(max_messages=3, visibility_ms=5_000)
        await bench.sleep(4.9)
        assert await bench.receive(consumer="bob") == []
        again = await bench.receive(consumer="bob", max_messages=3, wait_ms=10_000)
        while len(again) < 3:
            again += await bench.receive(consumer="bob", max_messages=3, wait_ms=10_000)
        assert sorted(values(again)) == numbered(3)
        assert {each.attempt for each in again} == {2}
        late = await queue_verbs.ack(bench.queues, [each.receipt for each in held])
        assert all(isinstance(each, ReceiptExpired) for each in late)
        await bench.ack(again)

    play(scenario)


def test_extend_keeps_a_message_and_release_gives_it_back_without_blame():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"a", b"b")
        kept, given = await bench.receive(max_messages=2, visibility_ms=2_000)
        await bench.queues.release([given.receipt])
        for _ in range(5):
            await bench.sleep(1.5)
            (outcome,) = await bench.queues.extend([kept.receipt], visibility_ms=2_000)
            assert isinstance(outcome, Settled)
        (again,) = await bench.receive(consumer="bob")
        assert (again.record.value, again.attempt) == (b"b", 2)
        assert state(bench).failures(again.record.offset) == 0
        await bench.ack([kept, again])

    play(scenario)


def test_two_groups_never_disturb_each_other():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(4))
        mine = await bench.receive(group="one", max_messages=4)
        theirs = await bench.receive(group="two", max_messages=4)
        assert values(mine) == values(theirs) == numbered(4)
        await bench.ack(mine)
        assert len(bench.queues.in_flight("two")) == 4
        await queue_verbs.reject(bench.queues, [theirs[0].receipt], reason="not for us")
        assert bench.queues.in_flight("one") == []

    play(scenario)


def test_receipts_are_fenced_and_acks_may_be_repeated():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"a")
        (old,) = await bench.receive()
        await bench.queues.release([old.receipt])
        (new,) = await bench.receive(consumer="bob")
        (refused,) = await queue_verbs.ack(bench.queues, [old.receipt])
        assert isinstance(refused, ReceiptExpired)
        await bench.ack([new])
        await bench.ack([new])
        outcomes = await queue_verbs.ack(
            bench.queues,
            [old.receipt, "rubbish", "jobs:0:0:1:fffffffffffffff.workers", "other:0:0:1:1.workers"],
        )
        kinds = [type(each) for each in outcomes]
        assert kinds == [ReceiptExpired, ReceiptMalformed, ReceiptUnknown, ReceiptUnknown]

    play(scenario)


def test_a_message_past_its_time_to_live_is_not_delivered():
    async def scenario(bench: Bench) -> None:
        short = OutgoingMessage(b"short", headers=(("gq-ttl-ms", b"1000"),))
        await bench.publish("jobs", short, b"forever")
        await bench.sleep(1.5)
        assert await bench.drain() == [b"forever"]
        await bench.sleep(1)
        (letter,) = await bench.queues.dead_letters.browse("jobs")
        assert letter.history is not None
        assert (letter.record.value, letter.history.reason) == (b"short", "expired")
        await bench.queues.configure("workers", QueueSettings(expired="drop", ttl_ms=500))
        await bench.publish("jobs", b"a", b"b")
        assert len(await bench.receive(max_messages=1, visibility_ms=600)) == 1
        await bench.sleep(2)
        assert await bench.drain() == []
        assert await bench.queues.dead_letters.count("jobs") == 1
        assert floor(bench) == 4

    play(scenario)


def test_a_topic_says_how_long_its_messages_live_and_how_they_end():
    async def scenario(bench: Bench) -> None:
        def own(ttl_ms: bytes) -> OutgoingMessage:
            return OutgoingMessage(b"own", headers=(("gq-ttl-ms", ttl_ms),))

        settings = {"goqueue.ttl.ms": "1000"}
        await bench.broker.change_settings("jobs", settings)
        await bench.publish("jobs", b"short", own(b"10000"))
        await bench.sleep(2)
        assert await bench.drain() == [b"own"]
        await bench.sleep(1)
        (letter,) = await bench.queues.dead_letters.browse("jobs")
        assert (letter.record.value, letter.history and letter.history.reason) == (
            b"short",
            "expired",
        )

        await bench.broker.change_settings("jobs", {**settings, "goqueue.expired": "drop"})
        await bench.publish("jobs", b"dropped", own(b"1000"))
        await bench.sleep(2)
        assert await bench.drain() == []
        assert await bench.drain(group="others") == [b"own"]  # that lives longest
        assert await bench.queues.dead_letters.count("jobs") == 1

        await bench.queues.configure("workers", QueueSettings(expired="dead_letter", ttl_ms=3000))
        await bench.publish("jobs", b"for the group")
        await bench.sleep(2)
        assert await bench.drain() == [b"for the group"]
        await bench.publish("jobs", b"too old for the group")
        await bench.sleep(4)
        assert await bench.drain() == []
        await bench.sleep(1)
        assert await bench.queues.dead_letters.count("jobs") == 2

        await bench.queues.configure("workers", QueueSettings())
        await bench.broker.change_settings("jobs", dict.fromkeys(settings))
        await bench.publish("jobs", b"for ever")
        await bench.sleep(100)
        assert await bench.drain() == [b"for ever"]

    play(scenario)


def test_partitions_are_served_in_turn():
    async def scenario(bench: Bench) -> None:
        for index in range(4):
            await bench.publish(
                "jobs", *(OutgoingMessage(b"%d" % index, partition=index) for _ in range(50))
            )
        seen = [each.partition for _ in range(40) for each in await bench.receive(max_messages=2)]
        assert all(seen.count(index) == 20 for index in range(4))

    play(scenario, partitions=4)


def test_an_offset_commit_moves_the_floor_and_so_does_the_operator():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(10))
        held = await bench.receive(max_messages=4)
        await bench.sleep(2)
        await bench.broker.groups.commit(
            CommitRequest(
                group_id=GroupId("workers"),
                offsets=(OffsetToCommit(TopicName("jobs"), 0, Offset(8)),),
            )
        )
        assert values(await bench.receive(max_messages=10)) == [b"8", b"9"]
        await bench.queues.move_ack_floor("workers", "jobs", 0, 1)
        late = await queue_verbs.ack(bench.queues, [each.receipt for each in held])
        assert all(isinstance(each, ReceiptExpired) for each in late)
        assert await bench.drain() == numbered(9, 1)
        await bench.sleep(2)
        assert committed(bench) == 10

    play(scenario)


def test_a_group_that_consumed_as_a_stream_goes_on_from_its_offset():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        await bench.broker.groups.commit(
            CommitRequest(
                group_id=GroupId("workers"),
                offsets=(OffsetToCommit(TopicName("jobs"), 0, Offset(3)),),
            )
        )
        assert await bench.drain() == [b"3", b"4"]
        await bench.queues.configure("late", QueueSettings(start="latest"))
        assert await bench.drain(group="late") == []
        await bench.publish("jobs", b"new")
        assert await bench.drain(group="late") == [b"new"]

    play(scenario)


def test_an_operator_can_take_away_what_a_consumer_holds():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        await bench.receive(max_messages=3)
        assert await bench.queues.remove_consumer("workers", "ann", failed=False) == 3
        again = await bench.receive(consumer="cleo", max_messages=9)
        assert [(each.record.value, each.attempt) for each in again] == [
            (b"0", 2),
            (b"1", 2),
            (b"2", 2),
        ]
        assert await bench.queues.remove_consumer("workers", "cleo", failed=True) == 3
        assert await bench.receive(consumer="cleo") == []

    play(scenario)


def test_a_deleted_topic_is_forgotten():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(6))
        held = await bench.receive(max_messages=6)
        await bench.broker.delete_topic("jobs")
        with pytest.raises(TopicNotFound):
            await bench.receive()
        assert bench.queues.in_flight("workers") == []
        (late, *_) = await queue_verbs.ack(bench.queues, [each.receipt for each in held])
        assert isinstance(late, ReceiptUnknown)
        await bench.broker.create_topic("jobs", partitions=1)
        await bench.publish("jobs", b"new")
        assert await bench.drain() == [b"new"]

    play(scenario)


def test_records_that_were_never_committed_are_never_delivered():
    async def scenario(bench: Bench) -> None:
        partition = await bench.broker.partition("jobs", 0)
        await bench.publish("jobs", b"before")
        who = await bench.broker.transactions.init("tx", timeout_ms=60_000)
        for commits, value in ((False, b"aborted"), (True, b"committed")):
            await bench.broker.transactions.add_partitions(
                "tx", who, [TopicPartition(TopicName("jobs"), 0)]
            )
            append_transactional(bench, partition, who, value)
            await bench.publish("jobs", b"after " + value)
            expected = [b"after aborted"] if commits else [b"before"]
            assert await bench.drain() == expected, "nothing of an open transaction or behind it"
            who = await bench.broker.transactions.end("tx", who, commits=commits, bumps_epoch=True)
        assert await bench.drain() == [b"committed", b"after committed"]
        assert floor(bench) == partition.log.end_offset

    play(scenario)


def append_transactional(bench: Bench, partition, who, value: bytes) -> None:
    data = batches.encode(
        [Record(0, bench.broker.environment.clock.now(), None, value)],
        attributes=batches.TRANSACTIONAL,
        producer=(who.producer_id, who.epoch, 0),
    )
    bench.broker.append(partition, data)


def committed(bench: Bench) -> int | None:
    fetched = bench.broker.groups.host.ahead.fetch(
        [FetchRequest(group_id=GroupId("workers"))]
    ).reply.reply
    found = fetched[0].offsets.get(TopicPartition(TopicName("jobs"), 0))
    return None if found is None else found.offset


def state(bench: Bench) -> PartitionState:
    found = bench.queues.state(Where(GroupId("workers"), TopicName("jobs"), 0))
    assert found is not None
    return found


def floor(bench: Bench) -> int:
    return state(bench).ack_floor


def test_a_receipt_of_a_forgotten_delivery_does_not_become_anothers(seed: int):
    """Deliveries that were not synced may be lost: their numbers are not used again."""
    before: list[Delivered] = []

    async def first(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic("jobs", partitions=1)
            settings = QueueSettings(delivery_durability="async", visibility_ms=1_000)
            await bench.queues.configure("workers", settings)
            await bench.receive()  # the group begins
            await bench.queues.registry.wait_settled()
            await bench.sleep(1)
            await bench.publish("jobs", b"work")
            before.extend(await bench.receive())
            await bench.sleep(1_000)

    async def second(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.sleep(60)
            (again,) = await bench.receive(consumer="bob")
            assert again.receipt != before[0].receipt
            (late,) = await queue_verbs.ack(bench.queues, [before[0].receipt])
            assert isinstance(late, GoQueueError)
            assert len(bench.queues.in_flight("workers")) == 1

    with World(seed) as world:
        world.disk("a").slow_syncs(0.2, 0.2)
        world.start("a", first)
        world.run_until(lambda: bool(before))
        world.power_loss("a")
        world.run(second(world.environment("a")))


def test_a_group_may_begin_in_no_topic():
    """A share session does: its settings are there before it names its topics."""

    async def scenario(bench: Bench) -> None:
        await bench.queues.begin("workers", (), QueueSettings(start="latest"))
        assert bench.queues.settings("workers").start == "latest"

    play(scenario)
