"""Fetch: the log's own bytes, within limits, and how long a fetch waits for them."""

import asyncio

import pytest

from goqueue.broker.messages.fetch import FetchedPartition, FetchLimits, PartitionFetch, fetch
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.batch import headers
from goqueue.model.errors import (
    FencedLeaderEpoch,
    OffsetOutOfRange,
    PartitionNotFound,
    TopicNotFound,
    UnknownLeaderEpoch,
)
from goqueue.model.ids import Epoch, Offset
from tests.unit.broker.queue_world import Bench, play

LARGE = 2**30


def wanted(index: int = 0, offset: int = 0, bytes_max: int = LARGE, **more: int) -> PartitionFetch:
    return PartitionFetch("jobs", index, Offset(offset), bytes_max, **more)


async def fetched(
    bench: Bench,
    *partitions: PartitionFetch,
    bytes_min: int = 1,
    bytes_max: int = LARGE,
    wait_ms: int = 0,
) -> list[FetchedPartition]:
    limits = FetchLimits(bytes_min, bytes_max, wait_ms, committed_only=False)
    return await fetch(bench.broker, partitions, limits)


async def publish(bench: Bench, index: int, *values: bytes) -> None:
    for value in values:  # a batch each
        await bench.publish("jobs", OutgoingMessage(value, partition=index))


def offsets(found: FetchedPartition) -> list[int]:
    return [header.base_offset for header in headers(found.records)]


def test_whole_batches_come_from_an_offset_on():
    async def scenario(bench: Bench) -> None:
        await publish(bench, 0, b"a", b"b", b"c")
        (found,) = await fetched(bench, wanted(offset=1))
        assert (offsets(found), found.next_offset) == ([1, 2], 3)
        assert (found.start_offset, found.high_watermark, found.stable_offset) == (0, 3, 3)
        partition = await bench.broker.partition("jobs", 0)
        assert (partition.messages_out, partition.bytes_out) == (2, len(found.records))

    play(scenario)


def test_a_topic_may_be_named_by_its_id():
    async def scenario(bench: Bench) -> None:
        await publish(bench, 0, b"a")
        topic_id = bench.broker.topic("jobs").topic_id
        (found,) = await fetched(bench, PartitionFetch(topic_id, 0, Offset(0), LARGE))
        assert offsets(found) == [0]

    play(scenario)


def test_the_limits_of_a_partition_and_of_all_together_let_one_batch_through():
    async def scenario(bench: Bench) -> None:
        await publish(bench, 0, *[b"x" * 100] * 3)
        await publish(bench, 1, *[b"x" * 100] * 3)
        first, second = await fetched(bench, wanted(0, bytes_max=1), wanted(1, bytes_max=1))
        assert (offsets(first), offsets(second)) == ([0], [])
        size = len(first.records)
        first, second = await fetched(bench, wanted(0), wanted(1), bytes_max=4 * size)
        assert (offsets(first), offsets(second)) == ([0, 1, 2], [0])

    play(scenario, partitions=2)


def test_a_fetch_waits_until_there_are_enough_bytes():
    async def scenario(bench: Bench) -> None:
        await publish(bench, 0, b"a")
        (one,) = await fetched(bench, wanted())
        task = asyncio.create_task(
            fetched(bench, wanted(), bytes_min=2 * len(one.records), wait_ms=60_000)
        )
        await bench.sleep(1)
        assert not task.done()
        await publish(bench, 0, b"b")
        assert offsets((await task)[0]) == [0, 1]

    play(scenario)


def test_a_fetch_gives_what_there_is_when_its_time_is_over():
    async def scenario(bench: Bench) -> None:
        await publish(bench, 0, b"a")
        clock = bench.broker.environment.clock
        began = clock.instant()
        (found,) = await fetched(bench, wanted(), bytes_min=LARGE, wait_ms=5_000)
        assert offsets(found) == [0]
        assert clock.instant() - began >= 5e9

    play(scenario)


def test_a_partition_that_is_refused_ends_the_wait_and_the_others_are_served():
    async def scenario(bench: Bench) -> None:
        await publish(bench, 0, b"a")
        there, *refused = await fetched(
            bench,
            wanted(),
            wanted(7),
            PartitionFetch("nowhere", 0, Offset(0), LARGE),
            wanted(offset=5),
            bytes_min=LARGE,
            wait_ms=60_000,
        )
        assert offsets(there) == [0]
        kinds = [PartitionNotFound, TopicNotFound, OffsetOutOfRange]
        assert [type(each.error) for each in refused] == kinds
        assert [each.high_watermark for each in refused] == [-1, -1, 1]

    play(scenario)


@pytest.mark.parametrize(("ahead", "kind"), [(-1, FencedLeaderEpoch), (1, UnknownLeaderEpoch)])
def test_a_client_that_knows_another_leader_is_refused(ahead: int, kind: type[Exception]):
    async def scenario(bench: Bench) -> None:
        partition = await bench.broker.partition("jobs", 0)
        now = partition.leader_epoch = Epoch(5)  # so that there are earlier ones
        (found,) = await fetched(bench, wanted(leader_epoch=now + ahead))
        assert isinstance(found.error, kind)
        (found,) = await fetched(bench, wanted(leader_epoch=now))
        assert found.error is None

    play(scenario)
