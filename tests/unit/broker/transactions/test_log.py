"""The coordinator's log: nobody relies on what a power cut could take back."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.transactions.log import TransactionLog, copy_result
from goqueue.model.errors import DiskFull, ShuttingDown, StorageFailed
from goqueue.model.machine import Decision
from goqueue.testing.sim import SimClock, SimDisk, SimLoop, run
from goqueue.txn import ProducerIdentity, TransactionMachine, TransactionRecord
from tests.unit.broker.brokers import NOW, LonePartition

Story = Callable[[TransactionLog, SimDisk], Awaitable[None]]
LOG = f"/log/{0:020d}.log"


async def opened(disk: SimDisk) -> TransactionLog:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    clock = SimClock(loop)
    journal = PartitionJournal(LonePartition(disk), disk, clock, "/snapshots")
    host = MachineHost(TransactionMachine(), journal, clock)
    await host.open()
    log = TransactionLog()
    log.attach(host)
    return log


def play(story: Story) -> None:
    async def main() -> None:
        disk = SimDisk()
        await story(await opened(disk), disk)

    run(main())


def init(number: int) -> Callable[[TransactionMachine], Decision[TransactionRecord, object]]:
    """A producer of the id `tx`."""

    def decide(machine: TransactionMachine) -> Decision[TransactionRecord, object]:
        return machine.init(  # type: ignore[return-value]
            NOW, "tx", timeout_ms=60_000, new_producer_id=number, expected=None
        )

    return decide


async def survives(disk: SimDisk) -> bool:
    return (await opened(disk.crash(1))).ahead.find("tx") is not None


def test_a_decision_is_pending_until_it_is_durable():
    async def story(log: TransactionLog, disk: SimDisk) -> None:
        assert log.pending("tx") is None
        reply, _ = log.submit("tx", init(7))
        assert isinstance(reply, ProducerIdentity)
        assert log.pending("tx") is not None
        assert log.pending("another") is None
        await log.wait_durable("tx")
        assert log.pending("tx") is None
        assert await survives(disk)

    play(story)


def test_what_is_submitted_soon_is_written_after_the_answer_and_waited_for():
    async def story(log: TransactionLog, disk: SimDisk) -> None:
        before = disk.operations
        log.submit_soon("tx", init(7))
        assert log.ahead.find("tx") is not None
        assert disk.operations == before, "the caller gives its answer first"
        await log.wait_durable("tx")
        assert await survives(disk)

    play(story)


def test_without_room_a_decision_waits_and_is_written_when_there_is_some():
    async def story(log: TransactionLog, disk: SimDisk) -> None:
        disk.fill_up(0)
        log.submit_soon("tx", init(7))
        await asyncio.sleep(0.01)
        with pytest.raises(DiskFull):
            log.pending("tx")
        await log.wait_settled()  # holds nobody up
        disk.make_room()
        await log.wait_durable("tx")
        assert await survives(disk)

    play(story)


def test_a_log_that_failed_is_told_to_all_who_rely_on_it():
    async def story(log: TransactionLog, disk: SimDisk) -> None:
        log.refuse_if_failed("tx")
        disk.fail_sync(LOG)
        log.submit("tx", init(7))
        with pytest.raises(StorageFailed):
            await log.wait_durable("tx")
        with pytest.raises(StorageFailed, match="read-only"):
            log.refuse_if_failed("tx")
        with pytest.raises(StorageFailed):
            await log.wait_durable("another id")  # its state may rest on what is lost

    play(story)


def test_a_waiter_that_goes_away_does_not_take_the_decision_along():
    async def story(log: TransactionLog, disk: SimDisk) -> None:
        log.submit("tx", init(7))
        waiting = asyncio.ensure_future(log.wait_durable("tx"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert log.pending("tx") is not None
        await log.wait_durable("tx")
        assert await survives(disk)

    play(story)


async def test_a_result_is_copied_once_and_an_end_is_no_cancellation():
    loop = asyncio.get_running_loop()
    done, failed, cancelled = (loop.create_future() for _ in range(3))
    done.set_result(None)
    failed.set_exception(StorageFailed("broken"))
    cancelled.cancel()
    for source, error in ((done, None), (failed, StorageFailed), (cancelled, ShuttingDown)):
        target: asyncio.Future[None] = loop.create_future()
        copy_result(source, target)
        copy_result(done, target)
        assert (type(target.exception()) if target.exception() else None) is error
