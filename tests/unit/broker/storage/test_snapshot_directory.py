"""Snapshots as files: three are kept, the log is cut, and damaged ones are passed over."""

import pytest

from goqueue.broker.storage import snapshot_file
from goqueue.broker.storage.snapshot_directory import SNAPSHOTS_KEPT, SnapshotDirectory
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Offset
from goqueue.testing.sim import SimDisk, run
from tests.unit.broker.brokers import LonePartition, append

DIRECTORY = "/snapshots"


async def filled(disk: SimDisk, count: int = 10) -> SnapshotDirectory:
    """A snapshot after each record."""
    partition = LonePartition(disk)
    directory = SnapshotDirectory(partition, disk, DIRECTORY)
    for number in range(1, count + 1):
        append(partition, str(number))
        await directory.store(Offset(number), [[b"%d" % number], [b"more"]])
    return directory


def paths(disk: SimDisk) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in sorted(disk.list_directory(DIRECTORY))]


def test_snapshots_shorten_the_log_and_three_are_kept():
    async def story() -> None:
        disk = SimDisk()
        directory = await filled(disk)
        assert len(paths(disk)) == SNAPSHOTS_KEPT
        assert directory._partition.log.start_offset == 8
        again = SnapshotDirectory(LonePartition(disk.crash(1)), disk.crash(1), DIRECTORY)
        newest = await again.newest()
        assert newest is not None
        assert newest.offset == 10
        assert [each async for each in again.read(newest)] == [[b"10"], [b"more"]]

    run(story())


def test_a_damaged_snapshot_is_passed_over_while_an_older_one_and_the_log_are_there():
    async def story() -> None:
        disk = SimDisk()
        directory = await filled(disk)
        for number, path in zip((10, 9, 8), reversed(paths(disk)), strict=True):
            newest = await directory.newest()
            assert newest is not None
            assert newest.offset == number
            directory.check_continued(newest)
            disk.flip_bit(path, 12)
        with pytest.raises(CorruptData, match="restore"):
            directory.check_continued(await directory.newest())

    run(story())


def test_a_snapshot_that_is_ahead_of_its_log_is_refused():
    async def story() -> None:
        disk = SimDisk()
        directory = await filled(disk, 1)
        writer = snapshot_file.SnapshotWriter(disk, f"{DIRECTORY}/{2:020d}.snapshot", Offset(2))
        writer.finish()
        with pytest.raises(CorruptData, match="restore"):
            directory.check_continued(await directory.newest())

    run(story())
