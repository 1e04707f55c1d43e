"""Snapshot files: whole or not there, and damage is always seen."""

import pytest

from goqueue.broker.storage import snapshot_file
from goqueue.broker.storage.snapshot_file import SnapshotWriter, WholeSnapshot
from goqueue.log import framed
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Offset
from goqueue.testing.sim import SimDisk

PATH = snapshot_file.path_of("/snapshots", Offset(7))
BLOCKS = [[b"one", b"two"], [b"three"], []]


def stored() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/snapshots")
    writer = SnapshotWriter(disk, PATH, Offset(7))
    for block in BLOCKS:
        writer.add(block)
    assert snapshot_file.stored_offsets(disk, "/snapshots") == [], "it is not whole yet"
    assert writer.finish() == disk.size(PATH)
    return disk


def test_blocks_are_read_as_they_were_written():
    for fate in range(5):
        disk = stored().crash(fate)
        assert snapshot_file.stored_offsets(disk, "/snapshots") == [7]
        assert list(snapshot_file.read_blocks(disk, PATH)) == BLOCKS


def test_every_damaged_bit_is_seen():
    for bit in range(8 * stored().size(PATH)):
        disk = stored()
        disk.flip_bit(PATH, bit // 8, bit % 8)
        with pytest.raises(CorruptData, match="snapshot"):
            snapshot_file.check(disk, PATH)


def test_a_missing_end_is_seen():
    for size in range(stored().size(PATH)):
        disk = stored()
        disk.open(PATH).truncate(size)
        with pytest.raises(CorruptData):
            snapshot_file.check(disk, PATH)


def test_a_file_of_the_first_version_is_read():
    disk = SimDisk()
    disk.make_directory("/snapshots")
    framed.store(disk, PATH, b"S", 1, WholeSnapshot(Offset(7), [b"one", b"two"]))
    assert list(snapshot_file.read_blocks(disk, PATH)) == [[b"one", b"two"]]
    disk.flip_bit(PATH, 20)
    with pytest.raises(CorruptData):
        snapshot_file.check(disk, PATH)


def test_what_a_crash_left_is_removed_and_nothing_else():
    disk = stored()
    SnapshotWriter(disk, snapshot_file.path_of("/snapshots", Offset(9)), Offset(9)).add([b"x"])
    snapshot_file.remove_unfinished(disk, "/snapshots")
    assert list(disk.list_directory("/snapshots")) == [PATH.rpartition("/")[2]]
