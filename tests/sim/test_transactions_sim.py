"""Transactions on a broker that dies at any disk operation: all of it or nothing, always.

Each seed is another order of events, another set of deaths, another fate of what was not synced.
"""

import asyncio
from typing import Any

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.broker.messages.read import read_page
from goqueue.broker.storage import partition as partition_module
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.transactions.log import TransactionLog
from goqueue.log.aborted import AbortIndex
from goqueue.log.log import Log
from goqueue.log.producers import Producers
from goqueue.model.config import Config
from goqueue.model.ids import Offset, TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.testing.sim.world import World
from tests.sim.transaction_history import Anomaly
from tests.sim.transaction_world import HOST, Workload, batch_of

LIVES = 4
OPERATIONS_A_LIFE = 250


def run(seed: int | str, *, lives: int = LIVES, crashes: bool = True) -> Workload:
    """Several lives, then a last one in which everything comes to its end."""
    with World(seed) as world:
        workload = Workload(world)
        world.after_each(workload.check_stable_offsets)
        for _ in range(lives):
            if crashes:
                disk = world.disk(HOST)
                dies_at = disk.operations + 1 + world.random.randrange(OPERATIONS_A_LIFE)
                disk.crash_at(dies_at)
            world.start(HOST, workload.live)
            world.run_until(lambda: workload.done or not world.alive(HOST))
            workload.broker = None
            if world.random.random() < 0.5 or not world.alive(HOST):
                world.power_loss(HOST, in_order=world.random.random() < 0.3)
            else:
                world.kill(HOST)
            if world.random.random() < 0.3:
                world.clock(HOST).jump(world.random.randrange(-60_000, 60_000))
            if workload.done:
                break
        workload.done = False
        world.start(HOST, workload.finish)
        world.run_until(lambda: workload.done)
        world.kill(HOST)
        return workload


def test_nothing_is_lost_doubled_or_seen_too_early(seed):
    workload = run(seed)
    assert not workload.problems
    assert not workload.history.anomalies()


def test_a_history_without_deaths_is_sound_and_not_empty():
    workload = run("calm", lives=1, crashes=False)
    assert not workload.problems
    assert not workload.history.anomalies()
    assert len(workload.history.final) > 20
    assert len(workload.history.seen) > 10


def test_a_zombie_is_shut_out(seed):
    with World(seed) as world:
        workload = Workload(world, transactions=1)

        async def life(environment: Any) -> None:
            await workload.live(environment)

        world.start(HOST, life)
        world.run_until(lambda: workload.done)
        assert workload.broker is not None
        world.run(workload.fenced(workload.broker))
        assert not workload.problems


class Successor:
    """Two transactions of one producer; the power takes all that the coordinator knows of the
    second, and that the first one is complete, but not the second one's record.
    """

    def __init__(self, bumps_epoch: bool) -> None:
        self.bumps_epoch = bumps_epoch
        self.done = False
        self.visible: list[bytes | None] = []

    async def before(self, environment: Any) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await broker.create_topic("orders", partitions=1)
            who = await broker.transactions.init("tx", timeout_ms=5_000)
            partition = await self._send(broker, who, 0, b"first")
            who = await broker.transactions.end(
                "tx", who, commits=True, bumps_epoch=self.bumps_epoch
            )
            await broker.transactions.wait_ready("tx")
            journal = broker.transactions.host._journal
            assert isinstance(journal, PartitionJournal)
            journal._partition.demand_flush = lambda: None  # type: ignore[method-assign]
            broker.transactions.admit("tx", who, TopicPartition(TopicName("orders"), 0), adds=True)
            sequence = 0 if self.bumps_epoch else 1
            broker.append(partition, batch_of(broker, who, sequence, b"second"))
            await partition.flush()
            self.done = True
            await asyncio.sleep(3600)

    async def _send(self, broker: Any, who: Any, sequence: int, value: bytes) -> Any:
        partition = await broker.partition("orders", 0)
        broker.transactions.admit("tx", who, (TopicName("orders"), 0), adds=True)
        appended = broker.append(partition, batch_of(broker, who, sequence, value))
        await partition.wait_committed(appended.last_offset)
        await broker.transactions.wait_durable("tx")
        return partition

    async def after(self, environment: Any) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            assert [each.transactional_id for each in broker.transactions.ahead.prepared] == ["tx"]
            partition = await broker.partition("orders", 0)
            await asyncio.sleep(60)
            assert broker.transactions.ahead.prepared == []
            assert partition.log.stable_offset == partition.log.high_watermark
            page = await read_page(partition, Offset(0), limit=10, bytes_max=10_000)
            self.visible = [record.value for record in page.records]
            self.done = True
            await asyncio.sleep(3600)


@pytest.mark.parametrize("bumps_epoch", [False, True], ids=["same epoch", "own epoch"])
def test_a_transaction_that_is_completed_again_leaves_the_next_one_s_records_alone(bumps_epoch):
    with World("successor") as world:
        work = Successor(bumps_epoch)
        for life in (work.before, work.after):
            work.done = False
            world.start(HOST, life)
            world.run_until(lambda: work.done)
            world.power_loss(HOST, in_order=True)
    assert work.visible == [b"first"]


# --- the checker sees what it is there for ------------------------------------------------------


def catches(anomaly: Anomaly, seeds: int = 10) -> bool:
    """Whether some seed shows the anomaly.  A broken broker may also fall over: that counts not."""
    for seed in range(seeds):
        try:
            if anomaly in run(f"planted {seed}", lives=1, crashes=False).history.anomalies():
                return True
        except AssertionError:
            continue
    return False


def test_it_catches_an_abort_index_that_is_not_written(monkeypatch):
    monkeypatch.setattr(AbortIndex, "append", lambda *_: None)
    assert catches(Anomaly.ABORTED_READ)


def test_it_catches_readers_that_pass_open_transactions(monkeypatch):
    monkeypatch.setattr(Log, "stable_offset", property(lambda log: log.high_watermark))
    assert catches(Anomaly.INTERMEDIATE_READ)


def test_it_catches_sequences_that_nobody_checks(monkeypatch):
    monkeypatch.setattr(Producers, "check", lambda *_: None)
    assert catches(Anomaly.DUPLICATE)


def test_it_catches_a_commit_that_one_partition_takes_for_an_abort(monkeypatch):
    mark = partition_module.Partition.append_marker

    def half(self: Any, marker: Marker, now: Any) -> Any:
        commits = marker.commits and self.index > 0
        return mark(self, msgspec.structs.replace(marker, commits=commits), now)

    monkeypatch.setattr(partition_module.Partition, "append_marker", half)
    assert catches(Anomaly.LOST_WRITE)


def test_it_catches_a_reader_that_is_send_back(monkeypatch):
    read = Workload._read_some

    async def send_back(self: Workload, broker: Any, place: Any) -> None:
        await read(self, broker, place)
        self.positions[place] = max(0, self.positions[place] - 1)

    monkeypatch.setattr(Workload, "_read_some", send_back)
    assert catches(Anomaly.NON_MONOTONIC_POLL)


def test_it_catches_markers_that_go_ahead_of_their_decision(monkeypatch):
    """The power goes between a marker and the decision: half a transaction."""
    monkeypatch.setattr(TransactionLog, "_is_durable", lambda *_: True)
    assert any(_is_broken(f"hasty {seed}") for seed in range(60))


def _is_broken(seed: str) -> bool:
    try:
        workload = run(seed)
    except AssertionError:
        return True
    return bool(workload.problems or workload.history.anomalies())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dies_at", range(1, OPERATIONS_A_LIFE))
def test_every_disk_operation_may_be_the_last(dies_at):
    """One history, cut at each of its disk operations."""
    with World("each") as world:
        workload = Workload(world, transactions=3)
        world.after_each(workload.check_stable_offsets)
        world.disk(HOST).crash_at(dies_at)
        for life in (workload.live, workload.live, workload.finish):
            workload.broker, workload.done = None, False
            world.start(HOST, life)
            world.run_until(lambda: workload.done or not world.alive(HOST))
            workload.broker = None
            world.power_loss(HOST)
        assert not workload.problems
        assert not workload.history.anomalies()
