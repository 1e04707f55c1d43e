"""Floors that do not fit their log: beyond its end by a commit, or since the log lost its end."""

from typing import Any

from goqueue.broker.dlq.browse import DeadLetterFilter
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.queue import QueueSettings, ReceiptExpired, Where
from goqueue.queue.partition_state import PartitionState
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play, running, values

# --- committed offsets --------------------------------------------------------------------------


def test_messages_published_after_a_commit_beyond_the_end_are_delivered():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        assert values(await bench.receive(max_messages=1)) == [b"0"]
        await commit(bench, 1_000_000)
        assert await bench.receive() == []
        await bench.publish("jobs", *numbered(4, first=3))
        assert await bench.drain() == numbered(4, first=3)
        await bench.sleep(2)
        assert committed(bench) == 7

    play(scenario)


def test_a_commit_beyond_the_end_counts_for_the_end_at_the_time_when_nobody_receives():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        await bench.ack(await bench.receive(max_messages=1))
        await commit(bench, 1_000_000)
        await bench.sleep(2)
        await bench.publish("jobs", *numbered(2, first=3))
        assert await bench.drain() == numbered(2, first=3)

    play(scenario)


def test_a_negative_offset_moves_a_queue_group_to_the_first_message():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        assert await bench.drain() == numbered(3)
        await commit(bench, -1)
        assert await bench.drain() == numbered(3)

    play(scenario)


def test_an_offset_before_the_first_message_that_is_left_moves_a_queue_group_to_that_one():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        assert await bench.drain() == numbered(5)
        await bench.broker.delete_records(await bench.broker.partition("jobs", 0), Offset(3))
        await commit(bench, 1)
        assert await bench.drain() == numbered(2, first=3)

    play(scenario)


def test_the_second_of_two_commits_in_one_millisecond_moves_the_floor_too():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(9))
        await bench.ack(await bench.receive(max_messages=1))
        bench.broker.groups.host.submit_now(lambda machine: machine.commit(at, request(7)))
        assert values(await bench.receive(max_messages=1)) == [b"7"]
        bench.broker.groups.host.submit_now(lambda machine: machine.commit(at, request(2)))
        assert values(await bench.receive(max_messages=1)) == [b"2"]

    at: Any = 1_750_000_000_000
    play(scenario)


def test_moving_back_forgets_messages_that_wait_for_their_key():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"0", *map(keyed_message, numbered(4, first=1)))
        some = await bench.receive(max_messages=5)
        assert values(some) == [b"0", b"1"]
        await bench.ack(some[:1])
        await bench.queues.move_ack_floor("workers", "jobs", 0, 0)
        assert await bench.drain() == numbered(5)

    play(scenario, settings=QueueSettings(ordering="key"))


# --- a log that lost its end --------------------------------------------------------------------


def test_messages_written_after_the_log_lost_its_end_are_delivered():
    async def work(bench: Bench) -> None:
        assert await bench.drain() == numbered(20)

    async def look(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(15, first=100))
        assert await bench.drain() == numbered(15, first=100)

    after_a_lost_end(work, look, kept=10)


def test_a_floor_that_was_drawn_back_stays_so_after_another_restart():
    async def work(bench: Bench) -> None:
        assert await bench.drain() == numbered(20)

    async def publish(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(15, first=100))

    async def look(bench: Bench) -> None:
        assert floor(bench) == 10
        assert await bench.drain() == numbered(15, first=100)

    after_a_lost_end(work, publish, look, kept=10)


def test_what_was_done_in_the_lost_end_is_forgotten_and_the_rest_is_kept():
    receipts: list[str] = []

    async def work(bench: Bench) -> None:
        some = await bench.receive(max_messages=16)
        await bench.ack([some[0], some[5], some[12]])
        await queue_verbs.reject(bench.queues, [some[13].receipt], reason="bad")
        await queue_verbs.nack(bench.queues, [some[14].receipt], delay_ms=60_000)
        receipts.extend(some[place].receipt for place in (9, 11))

    async def look(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(6, first=100))
        assert values(await bench.receive(max_messages=100)) == numbered(6, first=100)
        kept, lost = await queue_verbs.ack(bench.queues, receipts)
        assert not isinstance(kept, Exception)
        assert isinstance(lost, ReceiptExpired)
        in_flight = bench.queues.in_flight("workers")
        assert sorted(each.offset for each in in_flight) == [
            *(each for each in range(1, 9) if each != 5),
            *range(10, 16),
        ]

    after_a_lost_end(work, look, kept=10, settings=QueueSettings(visibility_ms=3_600_000))


def test_messages_that_wait_for_a_key_in_the_lost_end_are_forgotten():
    async def work(bench: Bench) -> None:
        assert values(await bench.receive(max_messages=16)) == [b"0"]

    async def look(bench: Bench) -> None:
        await bench.publish("jobs", *map(keyed_message, numbered(3, first=100)))
        for each in bench.queues.in_flight("workers"):
            await queue_verbs.ack(bench.queues, [each.receipt])
        assert await bench.drain() == [*numbered(9, first=1), *numbered(3, first=100)]

    after_a_lost_end(work, look, kept=10, settings=QueueSettings(ordering="key"), keyed=True)


def test_dead_letters_written_after_their_log_lost_its_end_are_there():
    async def work(bench: Bench) -> None:
        some = await bench.receive(max_messages=4)
        await queue_verbs.reject(bench.queues, [each.receipt for each in some], reason="bad")
        await bench.sleep(1)
        every = DeadLetterFilter(reason="rejected")
        assert await bench.queues.dead_letters.purge("jobs", which=every) == 4

    async def look(bench: Bench) -> None:
        (one,) = await bench.receive(max_messages=1)
        await queue_verbs.reject(bench.queues, [one.receipt], reason="worse")
        await bench.sleep(1)
        (letter,) = await bench.queues.dead_letters.browse("jobs")
        assert letter.record.value == one.record.value

    after_a_lost_end(work, look, kept=0, topic="jobs.dlq")


# --- helpers ------------------------------------------------------------------------------------


def after_a_lost_end(
    work: Any,
    *looks: Any,
    kept: int,
    topic: str = "jobs",
    settings: QueueSettings | None = None,
    keyed: bool = False,
) -> None:
    """Twenty messages are worked on; the log comes back with `kept` of them; then look."""

    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic("jobs", partitions=1)
            if settings is not None:
                await bench.queues.configure("workers", settings)
            for value in numbered(20):
                await bench.publish("jobs", keyed_message(value) if keyed else value)
            await work(bench)
            await bench.sleep(2)

    async def after(environment: Environment, look: Any) -> None:
        async with running(environment) as bench:
            await look(bench)

    with World(seed=3) as world:
        world.run(before(world.environment("a")))
        world.kill("a")
        lose_end(world, f"/data/logs/{topic}/0", kept)
        for look in looks:
            world.run(after(world.environment("a"), look))
            world.kill("a")


def lose_end(world: World, directory: str, kept: int) -> None:
    """Cut the log behind so many batches, and take away what would say how long it was."""
    disk = world.disk("a")
    log = disk.open(f"{directory}/00000000000000000000.log")
    data = log.read(0, log.size)
    position = 0
    for _ in range(kept):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    log.truncate(position)
    for name in disk.list_directory(directory):
        if name == "ledger":
            continue
        if not name.endswith(".log"):
            disk.remove(f"{directory}/{name}")


async def commit(bench: Bench, offset: int) -> None:
    await bench.broker.groups.commit(request(offset))


def request(offset: int) -> CommitRequest:
    offsets = (OffsetToCommit(TopicName("jobs"), 0, Offset(offset)),)
    return CommitRequest(group_id=GroupId("workers"), offsets=offsets)


def committed(bench: Bench) -> int:
    return bench.broker.groups.committed_offsets(GroupId("workers"))[
        TopicPartition(TopicName("jobs"), 0)
    ].offset


def floor(bench: Bench) -> int:
    found: PartitionState | None = bench.queues.state(
        Where(GroupId("workers"), TopicName("jobs"), 0)
    )
    assert found is not None
    return found.ack_floor


def keyed_message(value: bytes) -> OutgoingMessage:
    return OutgoingMessage(value, key=b"k")
