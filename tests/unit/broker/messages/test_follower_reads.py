"""Consumers that read from followers (KIP-392): whole brokers in the simulator."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from goqueue.broker import Broker, Partition
from goqueue.broker.messages.fetch import FetchedPartition, FetchLimits, PartitionFetch, fetch
from goqueue.broker.messages.follower_reads import FollowerReads
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.errors import (
    FencedLeaderEpoch,
    GoQueueError,
    NotLeader,
    OffsetNotAvailable,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from goqueue.model.ids import Offset
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from tests.unit.broker.brokers import publish
from tests.unit.broker.cluster.cluster_world import NUMBERS, ClusterWorld
from tests.unit.broker.cluster.test_failover import create, leads, state, three_nodes

LARGE = 2**30
WITHOUT_RACK = None


async def read(
    node: Broker,
    offset: int = 0,
    *,
    rack: str | None = "rack-3",
    wait_ms: int = 0,
    committed_only: bool = False,
    **more: int,
) -> FetchedPartition:
    wanted = PartitionFetch("orders", 0, Offset(offset), LARGE, **more)
    limits = FetchLimits(1, LARGE, wait_ms, committed_only)
    reads = None if rack is WITHOUT_RACK else FollowerReads(node, rack)
    (found,) = await fetch(node, [wanted], limits, reads)
    return found


def values(found: FetchedPartition) -> list[str]:
    assert found.error is None, found.error
    return [(each.value or b"").decode() for each in batches.decode_all(found.records)]


Story = Callable[[ClusterWorld], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    """Node 2, on host b, leads `orders`; three records are on all nodes, and all know of it."""
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish(nodes.brokers["b"], "orders", "one", "two", "three"))
        nodes.world.run_until(lambda: all(watermark(nodes, host) == 3 for host in "abc"))
        nodes.world.run(story(nodes))


def log(nodes: ClusterWorld, host: str) -> Partition:
    found = nodes.brokers[host].partitions.find_open("orders", 0)
    assert found is not None
    return found


def watermark(nodes: ClusterWorld, host: str) -> int:
    opened = nodes.brokers[host].partitions.find_open("orders", 0)
    return -1 if opened is None else opened.log.high_watermark


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 # nobody tells of it
            await asyncio.sleep(0.01)


# --- at the leader --------------------------------------------------------------------------------


def test_a_consumer_is_sent_to_the_follower_in_its_rack():
    async def story(nodes: ClusterWorld) -> None:
        found = await read(nodes.brokers["b"], rack="rack-3", wait_ms=60_000)
        assert (found.read_replica, len(found.records), found.error) == (3, 0, None)
        assert found.high_watermark == 3

    play(story)


@pytest.mark.parametrize("rack", ["rack-2", "elsewhere", WITHOUT_RACK])
def test_the_leader_serves_all_others_itself(rack: str | None):
    async def story(nodes: ClusterWorld) -> None:
        found = await read(nodes.brokers["b"], rack=rack)
        assert found.read_replica is None
        assert values(found) == ["one", "two", "three"]

    play(story)


def test_a_follower_that_is_not_there_is_not_named():
    async def story(nodes: ClusterWorld) -> None:
        nodes.stop("c")
        await until(lambda: set(state(nodes).isr) == {1, 2})
        await until(lambda: set(_isr(nodes.brokers["b"])) == {1, 2})
        assert values(await read(nodes.brokers["b"], rack="rack-3")) == ["one", "two", "three"]

    play(story)


def test_an_offset_out_of_range_is_said_by_the_leader():
    async def story(nodes: ClusterWorld) -> None:
        found = await read(nodes.brokers["b"], 17, rack="rack-3")
        assert isinstance(found.error, OffsetOutOfRange)

    play(story)


# --- at a follower --------------------------------------------------------------------------------


@pytest.mark.parametrize("rack", ["rack-3", "elsewhere"])
def test_a_follower_serves_what_is_committed(rack: str):
    async def story(nodes: ClusterWorld) -> None:
        found = await read(nodes.brokers["c"], 1, rack=rack)
        assert [each.base_offset for each in batches.headers(found.records)] == [0]
        assert (found.high_watermark, found.stable_offset, found.start_offset) == (3, 3, 0)

    play(story)


def test_a_fetch_at_a_follower_waits_until_the_watermark_moves():
    async def story(nodes: ClusterWorld) -> None:
        waiting = asyncio.ensure_future(read(nodes.brokers["c"], 3, wait_ms=300_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await publish(nodes.brokers["b"], "orders", "four")
        async with asyncio.timeout(5):
            assert values(await waiting) == ["four"]

    play(story)


def test_a_follower_shows_nothing_above_the_watermark_that_it_knows():
    async def story(nodes: ClusterWorld) -> None:
        follower = log(nodes, "c")
        follower.log.high_watermark = Offset(0)  # as after a restart: the leader has not said yet
        found = await read(nodes.brokers["c"], 2)
        assert (found.error, len(found.records)) == (None, 0)

    play(story)


def test_consumers_without_a_rack_are_sent_to_the_leader():
    async def story(nodes: ClusterWorld) -> None:
        found = await read(nodes.brokers["c"], rack=WITHOUT_RACK)
        assert isinstance(found.error, NotLeader)
        assert found.error.leader == (2, 0)

    play(story)


@pytest.mark.parametrize(
    ("offset", "epoch", "refusal"),
    [(4, 0, OffsetNotAvailable), (2, 1, UnknownLeaderEpoch), (3, 0, None)],
)
def test_a_follower_refuses_what_it_cannot_know(
    offset: int, epoch: int, refusal: type[GoQueueError] | None
):
    async def story(nodes: ClusterWorld) -> None:
        found = await read(nodes.brokers["c"], offset, leader_epoch=epoch)
        assert found.error is None if refusal is None else type(found.error) is refusal

    play(story)


def test_a_follower_of_a_newer_leader_fences_consumers_that_do_not_know_it():
    async def story(nodes: ClusterWorld) -> None:
        nodes.stop("b")
        await until(lambda: state(nodes).leader == 1 and log(nodes, "c").leader_epoch == 1)
        found = await read(nodes.brokers["c"], leader_epoch=0)
        assert isinstance(found.error, FencedLeaderEpoch)
        assert values(await read(nodes.brokers["c"], leader_epoch=1)) == ["one", "two", "three"]

    play(story)


def test_below_its_start_a_follower_says_out_of_range():
    async def story(nodes: ClusterWorld) -> None:
        leader = nodes.brokers["b"]
        await leader.delete_records(await leader.partition("orders", 0), Offset(2))
        await publish(leader, "orders", "four")
        await until(lambda: log(nodes, "c").log.start_offset == 2)
        assert isinstance((await read(nodes.brokers["c"], 1)).error, OffsetOutOfRange)

    play(story)


def test_a_follower_that_fell_out_of_sync_sends_consumers_back_to_the_leader():
    async def story(nodes: ClusterWorld) -> None:
        nodes.world.fabric.cut("b", "c")  # it hears the controller, and not the leader
        lagging = asyncio.ensure_future(_publish_while_lagging(nodes))
        await until(lambda: set(_isr(nodes.brokers["c"])) == {1, 2})
        found = await read(nodes.brokers["c"])
        assert isinstance(found.error, NotLeader)
        assert found.error.leader == (2, 0)
        await lagging
        nodes.world.fabric.heal()
        await until(lambda: set(_isr(nodes.brokers["c"])) == {1, 2, 3})
        assert (await read(nodes.brokers["c"])).error is None

    play(story)


async def _publish_while_lagging(nodes: ClusterWorld) -> None:
    await publish(nodes.brokers["b"], "orders", "four")


def _isr(node: Broker) -> tuple[int, ...]:
    return node.metadata.partition(node.topic("orders").topic_id, 0).isr


# --- transactions, epochs -------------------------------------------------------------------------


def test_committed_reads_of_a_follower_stop_at_open_transactions_and_name_the_aborted():
    async def story(nodes: ClusterWorld) -> None:
        leader = nodes.brokers["b"]
        partition = await leader.partition("orders", 0)
        _append_in_transaction(leader, partition, producer_id=7, value="undecided")
        await publish(leader, "orders", "plain")
        await until(lambda: watermark(nodes, "c") == 5)
        found = await read(nodes.brokers["c"], 3, committed_only=True)
        assert (len(found.records), found.stable_offset, found.high_watermark) == (0, 3, 5)
        waiting = asyncio.ensure_future(
            read(nodes.brokers["c"], 3, committed_only=True, wait_ms=300_000)
        )
        await asyncio.sleep(1)
        assert not waiting.done()
        partition.append_marker(
            Marker(7, 0, coordinator_epoch=0, commits=False), leader.environment.clock.now()
        )
        async with asyncio.timeout(5):
            found = await waiting
        same = await read(leader, 3, rack="", committed_only=True)
        assert found.aborted == same.aborted
        assert [(each.producer_id, each.first_offset) for each in found.aborted or ()] == [(7, 3)]
        assert (found.stable_offset, found.records) == (6, same.records)

    play(story)


def _append_in_transaction(
    leader: Broker, partition: Partition, *, producer_id: int, value: str
) -> None:
    now = leader.environment.clock.now()
    record = Record(0, now, None, value.encode())
    data = batches.encode([record], attributes=TRANSACTIONAL, producer=(producer_id, 0, 0))
    partition.append(data, batches.verified_headers(data), now)


@pytest.mark.parametrize("host", ["b", "c"])
def test_a_consumer_whose_last_record_was_cut_away_is_told_where_the_logs_part(host: str):
    async def story(nodes: ClusterWorld) -> None:
        rack = f"rack-{NUMBERS[host]}"
        found = await read(nodes.brokers[host], 3, rack=rack, last_fetched_epoch=4, wait_ms=60_000)
        assert found.diverged is not None
        assert (found.diverged.epoch, found.diverged.end_offset) == (0, 3)
        same = await read(nodes.brokers[host], 3, rack=rack, last_fetched_epoch=0)
        assert same.diverged is None

    play(story)
