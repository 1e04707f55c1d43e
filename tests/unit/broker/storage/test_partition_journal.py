"""Snapshots of a journal: how many are kept, and which one is read."""

import pytest

from goqueue.broker import MachineHost
from goqueue.broker.storage import snapshot_file
from goqueue.broker.storage.partition_journal import SNAPSHOTS_KEPT, PartitionJournal
from goqueue.broker.storage.snapshot_file import WholeSnapshot
from goqueue.log import framed
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Offset
from goqueue.testing.sim import SimDisk, run
from tests.unit.broker.brokers import LonePartition
from tests.unit.broker.test_machine_host import (
    Added,
    Sum,
    add,
    clock,
    opened,
    reopened,
    snapshots_in,
)

SNAPSHOTS = "/snapshots"


def test_snapshots_shorten_the_log_and_three_are_kept():
    async def story() -> None:
        disk = SimDisk()
        partition = LonePartition(disk)
        host = MachineHost(Sum(), PartitionJournal(partition, disk, clock(), SNAPSHOTS), clock())
        await host.open()
        for number in range(1, 11):
            await add(host, number)
            await host.take_snapshot()
        assert len(snapshots_in(disk)) == SNAPSHOTS_KEPT
        assert partition.log.start_offset == 8
        machine = await reopened(disk.crash(1))
        assert machine.total == 55
        assert machine.applied == 1

    run(story())


def test_a_damaged_snapshot_is_passed_over_while_an_older_one_and_the_log_are_there():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        for number in range(1, 11):
            await add(host, number)
            if number % 2:
                await host.take_snapshot()
        for path in reversed(snapshots_in(disk)):
            assert (await reopened(disk)).total == 55
            disk.flip_bit(path, 12)
        with pytest.raises(CorruptData, match="restore"):
            await opened(disk)

    run(story())


def test_snapshots_of_the_first_version_are_read():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        for number in range(1, 11):
            await add(host, number)
        old = WholeSnapshot(Offset(10), [Sum().encode(Added(55))])
        disk.make_directory(SNAPSHOTS)
        framed.store(disk, snapshot_file.path_of(SNAPSHOTS, Offset(10)), b"S", 1, old)
        await add(host, 100)
        machine = await reopened(disk)
        assert (machine.total, machine.applied) == (155, 2)

    run(story())
