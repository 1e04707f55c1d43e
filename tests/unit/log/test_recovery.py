"""Opening a log: believe what was durable, verify the rest, and depend on no amount of data."""

import contextlib
import random

import pytest

from goqueue.log.checkpoint import load
from goqueue.model.record import Record
from goqueue.testing.sim import SimCrash, SimDisk, SimFile
from goqueue.testing.sim.device import Node
from tests.unit.log.logs import DIRECTORY, NOW, Book, headers_in, settings


class Counter(SimDisk):
    """A disk that counts what is asked of it, reads included."""

    def reset(self) -> None:
        self.opened = 0
        self.looked = 0
        self._before = self.operations

    def open(self, path: str) -> SimFile:
        self.opened += 1
        return super().open(path)

    def open_node(self, path: str, *, create: bool) -> Node:
        self.looked += 1
        return super().open_node(path, create=create)

    @property
    def changes(self) -> int:
        return self.operations - self._before


def long_log(segments: int) -> Book:
    disk = Counter()
    disk.reset()
    book = Book(disk)
    while len(book.log.segments) < segments:
        book.fill(1)
    return book


def test_after_a_clean_stop_nothing_is_verified_or_written():
    for segments in (1, 2, 40):
        book = long_log(segments)
        book.close()
        disk = book.disk
        assert isinstance(disk, Counter)
        disk.reset()
        book.reopen()
        assert book.recovery.verified_bytes == book.recovery.cut_bytes == 0
        assert book.recovery.problems == []
        assert disk.changes <= 1  # the directory is synced
        book.check()


def test_opening_looks_at_no_more_files_the_longer_the_log_is():
    looks = []
    for segments in (3, 30, 100):
        book = long_log(segments)
        book.close()
        disk = book.disk
        assert isinstance(disk, Counter)
        disk.reset()
        book.reopen()
        looks.append(disk.looked)
    assert looks[0] == looks[1] == looks[2]


def test_after_a_crash_only_what_is_newer_than_the_checkpoint_is_verified():
    for segments in (3, 30, 100):
        book = long_log(segments)
        book.checkpoint()
        size = book.log.active.size
        book.fill(2)
        written = sum(s.size for s in book.log.segments[segments - 1 :]) - size
        assert isinstance(book.disk, SimDisk)
        book.reopen(book.disk.crash(1))
        assert book.recovery.verified_bytes == written
        book.check()


def test_a_torn_end_is_cut_and_told():
    book = Book(SimDisk())
    book.fill(20)
    book.checkpoint()
    whole = book.log.active.size
    for extra in range(1, 100, 9):
        book.log.active.log.append(random.Random(extra).randbytes(extra))
        book.reopen()
        assert book.recovery.cut_bytes == extra
        assert len(book.recovery.problems) == 1
        assert book.log.active.size == whole
        book.check()
        book.reopen()
        assert book.recovery.verified_bytes == book.recovery.cut_bytes == 0


def test_a_batch_that_is_whole_but_wrong_is_cut_with_all_that_follows():
    book = Book(SimDisk())
    book.fill(5)
    book.checkpoint()
    kept = list(book.records)
    for number in range(40):
        book.append([Record(0, NOW, None, b"%d" % number)], sync=False)
    assert len(book.log.segments) > 3
    assert isinstance(book.disk, SimDisk)
    first = book.log.segments[0]
    book.disk.flip_bit(first.log.path, first.size - 1)
    book.reopen()
    assert book.recovery.removed_segments >= 3
    assert len(kept) <= book.log.end_offset < len(book.records)
    book.records = book.records[: book.log.end_offset]
    book.check()


def test_segments_behind_a_hole_go_too():
    """The bytes between reached the device only in part; nothing behind them was acked."""
    book = Book(SimDisk())
    book.fill(5)
    book.checkpoint()
    for number in range(40):
        book.append([Record(0, NOW, None, b"%d" % number)], sync=False)
    second = book.log.segments[1]
    edge = headers_in(second)[3].position
    assert isinstance(book.disk, SimDisk)
    del book.disk._device.file(second.log.path).content[edge:]
    book.reopen()
    assert len(book.log.segments) == 2
    assert book.log.active.size == edge
    book.records = book.records[: book.log.end_offset]
    book.check()


def test_a_settled_log_is_checkpointed_at_once():
    book = Book(SimDisk())
    book.fill(20)
    book.reopen()
    assert book.recovery.verified_bytes > 0
    saved = load(book.disk, DIRECTORY)
    assert saved is not None
    assert saved.tail.next_offset == 20
    book.reopen()
    assert book.recovery.verified_bytes == 0


@pytest.mark.parametrize("fate", range(10))
def test_what_recovery_writes_into_an_index_is_made_durable(fate: int):
    """It closes a segment that a dead process had left for a new one, and finds nothing new."""
    disk = SimDisk(fate)
    book = Book(disk)
    book.fill(5)
    book.checkpoint()
    book.log.roll()
    killed = disk.kill()
    book.reopen(killed)
    assert book.recovery.verified_bytes == 0
    book.fill(3)
    book.checkpoint()
    book.reopen(killed.crash(fate, holes=True))
    book.check()


@pytest.mark.parametrize("fate", range(10))
def test_what_a_killed_process_left_in_memory_is_made_durable_before_it_is_served(fate: int):
    """It was written, not synced; the next process shows it, so a power cut must not take it."""
    disk = SimDisk(fate)
    book = Book(disk)
    book.fill(5)
    for number in range(30):
        book.append([Record(0, NOW, None, b"%d" % number)], sync=False)
    killed = disk.kill()
    book.reopen(killed)
    assert book.log.high_watermark == 35
    book.check()
    book.reopen(killed.crash(fate))
    assert book.log.high_watermark == 35
    book.check()


def test_directories_that_a_dead_process_made_are_made_durable():
    for operation in range(1, 12):
        disk = SimDisk(operation)
        disk.crash_at(operation)
        with contextlib.suppress(SimCrash):
            Book(disk, directory="/data/logs/topic/0")
        survivor = disk.kill()
        book = Book(survivor, directory="/data/logs/topic/0")
        book.fill(3)
        book.reopen(survivor.crash("later"))
        book.check()


def test_strange_names_in_a_log_are_left_alone():
    book = Book(SimDisk(), settings())
    book.fill(20)
    book.close()
    for name in ("notes.txt", "12.log.bak", "x.log", "00000000000000000005.txt"):
        book.disk.replace_file(f"{DIRECTORY}/{name}", b"mine")
    book.reopen()
    book.check()
    assert book.disk.read_file(f"{DIRECTORY}/x.log") == b"mine"
