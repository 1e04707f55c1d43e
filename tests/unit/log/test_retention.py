"""What goes: by time, by size, by order; and what it leaves behind after a restart."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import OffsetOutOfRange
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.record import Record
from goqueue.testing.sim import SimDisk
from tests.unit.log.logs import DIRECTORY, NOW, Book, settings, some_records


def files_of(book: Book) -> list[str]:
    return [name for name in book.disk.list_directory(DIRECTORY) if name.endswith(".log")]


def retain(book: Book, now: int) -> None:
    start = book.log.retention_start(Timestamp(now))
    if start > book.log.start_offset:
        book.remove_before(start)


@given(
    seed=st.integers(0, 2**32),
    retention_ms=st.sampled_from((-1, 0, 500, 1500)),
    retention_bytes=st.sampled_from((-1, 0, 2500, 1 << 20)),
    reopen=st.sampled_from(("no", "clean", "killed")),
    age=st.integers(-1000, 4000),
)
def test_segments_go_from_the_front_while_they_are_too_old_or_too_many(
    seed: int, retention_ms: int, retention_bytes: int, reopen: str, age: int
):
    chance = random.Random(seed)
    chosen = settings(
        segment_bytes=1024, retention_ms=retention_ms, retention_bytes=retention_bytes
    )
    book = Book(SimDisk(seed), chosen)
    for _ in range(30):
        book.append(some_records(chance, 2))
    if reopen != "no":
        if reopen == "clean":
            book.close()
        book.reopen()
    segments = [(s.base_offset, s.next_offset, s.size) for s in book.log.segments]
    now = NOW + age
    too_old = 0
    for first, end, _ in segments:
        newest = max(r.timestamp for r in book.records[first:end])
        if retention_ms < 0 or newest >= now - retention_ms:
            break
        too_old = end
    too_many, total = 0, sum(size for *_, size in segments)
    for _, end, size in segments[:-1]:
        total -= size
        if retention_bytes < 0 or total < retention_bytes:
            break
        too_many = end
    retain(book, now)
    assert book.log.start_offset == max(too_old, too_many)
    book.check()
    assert len(files_of(book)) == len(book.log.segments)
    book.reopen()
    assert book.log.start_offset == max(too_old, too_many)
    book.check()


def test_a_log_that_is_wholly_too_old_goes_wholly_and_goes_on():
    book = Book(SimDisk(), settings(segment_bytes=1024, retention_ms=1000))
    book.fill(50)
    retain(book, NOW + 10_000)
    assert book.log.start_offset == book.log.end_offset == 50
    assert len(files_of(book)) == 1
    for _ in range(2):
        book.reopen()
        assert book.log.start_offset == book.log.end_offset == 50
    assert book.append([Record(0, NOW, None, b"next")]) == 50
    book.check()


def test_nothing_goes_that_readers_have_not_seen():
    book = Book(SimDisk(), settings(segment_bytes=1024, retention_ms=1000))
    book.fill(10)
    for _ in range(30):
        book.append([Record(0, NOW, None, bytes(100))], sync=False)
    assert book.log.high_watermark == 10
    assert book.log.retention_start(Timestamp(NOW * 2)) <= 10
    with pytest.raises(OffsetOutOfRange, match="the last one readers see is 9"):
        book.log.remove_before(Offset(11))


@given(seed=st.integers(0, 1000), data=st.data())
def test_records_are_deleted_up_to_any_offset(seed: int, data: st.DataObject):
    chance = random.Random(seed)
    book = Book(SimDisk(seed), settings(segment_bytes=1500))
    for _ in range(25):
        book.append(some_records(chance, chance.randint(1, 5)))
    for _ in range(3):
        start = book.log.start_offset
        target = data.draw(st.integers(0, book.log.end_offset))
        book.remove_before(target)
        assert book.log.start_offset == max(start, target)
        for offset in range(start, book.log.start_offset):
            with pytest.raises(OffsetOutOfRange):
                book.log.read(Offset(offset), 1, book.log.end_offset)
        if data.draw(st.booleans()):
            book.reopen()
        assert book.log.start_offset == max(start, target)
        book.check()
        wanted = [s for s in book.log.segments if s.next_offset > target or s is book.log.active]
        assert len(files_of(book)) == len(wanted)


def test_a_removal_that_a_crash_interrupts_is_finished():
    book = Book(SimDisk())
    book.fill(60)
    assert isinstance(book.disk, SimDisk)
    before = book.disk.operations
    book.remove_before(41)
    operations = book.disk.operations - before
    assert operations > 10
    for operation in range(1, operations + 1):
        for fate in range(4):
            book = Book(SimDisk(operation))
            book.fill(60)
            disk = book.disk
            assert isinstance(disk, SimDisk)
            disk.crash_at(disk.operations + operation)
            with pytest.raises(BaseException, match="died"):
                book.remove_before(41)
            book.reopen(disk.crash(fate))
            assert book.log.start_offset in (0, 41)
            book.check()
            book.reopen()
            book.check()
            if book.log.start_offset == 41:
                assert book.log.segments[0].next_offset > 41
                assert len(files_of(book)) == len(book.log.segments)


# --- records without a time -----------------------------------------------------------------------


def append_untimed(count: int, now: int, book: Book) -> None:
    for _ in range(count):
        book.append([Record(0, -1, None, bytes(200))], now=now)


@pytest.mark.parametrize("again", ["running", "stopped", "killed"])
def test_records_without_a_timestamp_age_from_when_they_were_appended(again: str):
    disk = SimDisk()
    book = Book(disk, settings(retention_ms=1000))
    append_untimed(20, NOW, book)
    book.checkpoint()
    append_untimed(20, NOW + 5000, book)
    assert len(book.log.segments) > 6
    if again == "stopped":
        book.close()
        book.reopen()
    elif again == "killed":
        book.checkpoint()
        book.reopen(disk.kill())
    log = book.log
    assert log.retention_start(Timestamp(NOW + 900)) == 0
    assert 15 <= log.retention_start(Timestamp(NOW + 1100)) <= 20
    assert log.retention_start(Timestamp(NOW + 5900)) <= 20
    assert log.retention_start(Timestamp(NOW + 6100)) == 40


def test_records_without_a_timestamp_do_not_keep_those_behind_them():
    """Also when nobody knows when they were appended: what lies behind them is younger."""
    book = Book(SimDisk(), settings(retention_ms=1000))
    append_untimed(6, NOW, book)
    book.fill(30, size=200)
    for segment in book.log.segments:
        segment.written_at = Timestamp(-1)
    assert book.log.retention_start(Timestamp(NOW + 900)) == 0
    assert book.log.retention_start(Timestamp(NOW + 1020)) > 6


def test_a_segment_of_unknown_age_ages_from_the_first_look():
    book = Book(SimDisk(), settings(retention_ms=1000))
    append_untimed(10, NOW, book)
    for segment in book.log.segments:
        segment.written_at = Timestamp(-1)
    assert book.log.retention_start(Timestamp(NOW + 5000)) == 0
    assert book.log.retention_start(Timestamp(NOW + 5900)) == 0
    assert book.log.retention_start(Timestamp(NOW + 6100)) == 10
