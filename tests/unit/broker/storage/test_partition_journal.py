"""A journal on a partition: what it takes, and which snapshots it keeps and reads."""

import pytest

from goqueue.broker import MachineHost
from goqueue.broker.storage import snapshot_file
from goqueue.broker.storage.partition_journal import (
    BATCH_RECORDS_MAX,
    SNAPSHOTS_KEPT,
    PartitionJournal,
)
from goqueue.broker.storage.snapshot_file import WholeSnapshot
from goqueue.cluster.replication import Leader
from goqueue.log import framed
from goqueue.model.errors import CorruptData, NotEnoughReplicas
from goqueue.model.ids import Epoch, NodeId, Offset
from goqueue.testing.sim import SimDisk, run
from tests.unit.broker.brokers import NODE, LonePartition
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


def test_nothing_is_decided_while_too_few_replicas_are_in_sync():
    async def story() -> None:
        disk = SimDisk()
        partition = LonePartition(disk, **{"min.insync.replicas": "2"})
        host = MachineHost(Sum(), PartitionJournal(partition, disk, clock(), SNAPSHOTS), clock())
        await host.open()
        both = (NODE, NodeId(2))
        alone = Leader(node=NODE, epoch=Epoch(1), replicas=both, isr=frozenset((NODE,)))
        partition.take_role(alone)
        with pytest.raises(NotEnoughReplicas):
            await add(host, 1)
        assert host.ahead.total == 0, "the machine is not ahead of what can be committed"
        assert partition.log.end_offset == 0
        assert host.epoch == 1

    run(story())


def test_many_values_are_appended_together_in_several_batches():
    async def story() -> None:
        disk = SimDisk()
        journal = PartitionJournal(LonePartition(disk), disk, clock(), SNAPSHOTS)
        values = [b"%d" % number for number in range(BATCH_RECORDS_MAX + 1)]
        assert journal.append(values) == BATCH_RECORDS_MAX
        assert journal.has_uncommitted
        await journal.settled()
        assert not journal.has_uncommitted
        assert journal.is_committed(Offset(BATCH_RECORDS_MAX))
        read = [value async for some in journal.read(Offset(1)) for value in some.values]
        assert read == values[1:]
        part = [value async for some in journal.read(Offset(0), Offset(2)) for value in some.values]
        assert part[:2] == values[:2]

    run(story())
