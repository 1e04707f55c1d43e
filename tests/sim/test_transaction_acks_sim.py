"""A queue worked off by transactions on a broker that dies at any disk operation: exactly once."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from goqueue.broker.transactions.acks import TransactionAcks
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.model.markers import Marker
from goqueue.queue.partition_state import PartitionState
from goqueue.testing.sim.world import World
from goqueue.txn import QueueLedger
from tests.sim.ack_world import HOST, Work

LIVES = 4
OPERATIONS_A_LIFE = 300
LATE_SECONDS = 4.0  # longer than every sync, and shorter than a worker waits for its next job


def run(seed: int | str, *, lives: int = LIVES, crashes: bool = True) -> Work:
    """Several lives, then a last one in which all is worked off."""
    with World(seed) as world:
        work = Work(world)
        for _ in range(lives):
            if crashes:
                disk = world.disk(HOST)
                disk.crash_at(disk.operations + 1 + world.random.randrange(OPERATIONS_A_LIFE))
            world.start(HOST, work.live)
            world.run_until(lambda: work.done or not world.alive(HOST))
            if world.random.random() < 0.5 or not world.alive(HOST):
                world.power_loss(HOST, in_order=world.random.random() < 0.3)
            else:
                world.kill(HOST)
            if work.done:
                break
        _finish(world, work)
        return work


def _finish(world: World, work: Work) -> None:
    work.done = False
    world.start(HOST, work.finish)
    world.run_until(lambda: work.done)
    world.kill(HOST)


def test_each_job_has_one_result(seed):
    assert not run(seed).problems


def test_without_deaths_too():
    work = run("calm", lives=1, crashes=False)
    assert not work.problems
    assert len(work.committed) == len(work.jobs)


async def _write_completions(work: Work) -> None:
    assert work.broker is not None
    work.broker.transactions.host.write_deferred()


def lose_power_after_a_commit(seed: int | str) -> Work:
    """One job is committed, all logs are synced, and then the power is lost."""
    with World(seed) as world:
        work = Work(world, jobs=1, workers=1)
        world.start(HOST, work.live)
        world.run_until(lambda: bool(work.committed))
        world.run(_write_completions(work))
        world.run_for(LATE_SECONDS / 2)
        world.power_loss(HOST)
        _finish(world, work)
        return work


def test_acks_survive_a_power_loss_after_the_commit(seed):
    assert not lose_power_after_a_commit(seed).problems


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dies_at", range(1, OPERATIONS_A_LIFE))
def test_every_disk_operation_may_be_the_last(dies_at):
    with World("each") as world:
        work = Work(world, jobs=6)
        world.disk(HOST).crash_at(dies_at)
        for _ in range(2):
            work.done = False
            world.start(HOST, work.live)
            world.run_until(lambda: work.done or not world.alive(HOST))
            world.power_loss(HOST)
        _finish(world, work)
        assert not work.problems


# --- it sees what it is there for ---------------------------------------------------------------


def catches(name: str, seeds: int = 20) -> bool:
    return any(run(f"{name} {seed}").problems for seed in range(seeds))


def test_it_catches_pins_that_run_out(monkeypatch):
    reserve = PartitionState.reserve_for_transaction

    def leaky(self: PartitionState, record: Any) -> None:
        reserve(self, record)
        for lease in list(self.reserved.get(record.transactional_id, {})):
            lease.deadline = lease.delivered_at + lease.visibility_ms  # type: ignore[assignment]
            self._watch(lease)

    monkeypatch.setattr(PartitionState, "reserve_for_transaction", leaky)
    assert catches("leaky")


def test_it_catches_acks_at_once(monkeypatch):
    """A job is acked, and the transaction is aborted: no result."""
    add = Transactions.add_acks

    async def at_once(self: Transactions, name: Any, who: Any, receipts: Any) -> Any:
        refused = await add(self, name, who, receipts)
        marker = Marker(who.producer_id, who.epoch, self.host.epoch, commits=not refused)
        for place, _ in list(self.acks.owners()):
            await self.acks.end(QueueLedger(*place), marker)
        return refused

    monkeypatch.setattr(Transactions, "add_acks", at_once)
    assert catches("hasty")


def test_it_catches_a_commit_that_forgets_its_acks(monkeypatch):
    end, turns = TransactionAcks.end, itertools.count()

    def undone(self: TransactionAcks, at: QueueLedger, marker: Marker) -> asyncio.Future[None]:
        commits = marker.commits and next(turns) % 3 > 0
        return end(self, at, msgspec.structs.replace(marker, commits=commits))

    monkeypatch.setattr(TransactionAcks, "end", undone)
    assert catches("forgetful")


def test_it_catches_completion_before_the_acks_are_durable(monkeypatch):
    """The power takes the acks, and nobody carries them out again."""
    end = TransactionAcks.end

    def end_later(self: TransactionAcks, at: QueueLedger, marker: Marker) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        loop.call_later(LATE_SECONDS, lambda: end(self, at, marker))
        done: asyncio.Future[None] = loop.create_future()
        done.set_result(None)
        return done

    monkeypatch.setattr(TransactionAcks, "end", end_later)
    assert lose_power_after_a_commit("early").problems
