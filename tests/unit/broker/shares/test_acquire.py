"""The log's own batches for the offsets that a member has acquired."""

from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.shares import acquire as acquiring
from goqueue.broker.shares.acquire import Acquired, AcquiredRange, acquire, batches_with
from goqueue.model import batch as batches
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.queue import QueueSettings
from goqueue.testing.sim import SimDisk
from tests.unit.broker.brokers import LonePartition, append
from tests.unit.broker.queue_world import Bench, numbered, play
from tests.unit.broker.storage.test_partition import told

JOBS = TopicPartition(TopicName("jobs"), 0)


async def found(partition: LonePartition, *offsets: int) -> list[int]:
    data = await batches_with(partition, offsets)
    return [header.base_offset for header in batches.headers(data)]


async def six_in_three_batches(disk: SimDisk) -> LonePartition:
    partition = LonePartition(disk)
    for values in (("0", "1"), ("2", "3"), ("4", "5")):
        append(partition, *values)
    await partition.flush()
    return partition


def test_a_batch_comes_whole_and_once():
    async def story(disk: SimDisk) -> None:
        partition = await six_in_three_batches(disk)
        assert await found(partition, 0, 1) == [0]
        assert await found(partition, 1, 4) == [0, 4]
        assert await found(partition, 2, 3, 4) == [2, 4]
        assert await found(partition) == []

    told(story)


def test_batches_are_found_although_a_read_gives_one_at_a_time(monkeypatch):
    async def story(disk: SimDisk) -> None:
        partition = await six_in_three_batches(disk)
        assert await found(partition, 0, 1, 3, 5) == [0, 2, 4]

    monkeypatch.setattr(acquiring, "READ_BYTES", 1)
    told(story)


def test_what_retention_removed_meanwhile_is_left_out():
    async def story(disk: SimDisk) -> None:
        partition = await six_in_three_batches(disk)
        await partition.remove_before(Offset(3))
        assert await found(partition, 0, 2, 5) == [4]

    told(story)


async def ask(bench: Bench, member: str, max_records: int = 100) -> list[Acquired]:
    group_id, topics = GroupId("workers"), [JOBS.topic]
    request = ReceiveRequest(
        topics, group_id, member, max_messages=max_records, places=frozenset({JOBS})
    )
    return await acquire(bench.broker, bench.queues.receiver, request, 0)


def test_ranges_say_which_records_of_the_batches_are_acquired():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        (first,) = await ask(bench, "ann", max_records=2)
        assert first.ranges == [AcquiredRange(0, 1, 1)]
        assert len(list(batches.decode_all(first.data))) == 3, "the batch is whole"
        (second,) = await ask(bench, "bob")
        assert second.ranges == [AcquiredRange(2, 2, 1)]

    play(scenario)


def test_who_holds_too_many_gets_none_and_no_error():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        assert len(await ask(bench, "ann")) == 1
        assert await ask(bench, "ann") == []

    play(scenario, settings=QueueSettings(max_in_flight_consumer=2))
