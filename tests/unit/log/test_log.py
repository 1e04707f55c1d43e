"""Appending, reading, rolling: the fast way equals the dumb way."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log.segment import RELATIVE_OFFSET_MAX
from goqueue.model import batch as batches
from goqueue.model.compression import Codec
from goqueue.model.errors import DiskFull, OffsetOutOfRange, StorageFailed
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.record import Record
from goqueue.runtime import RealDisk
from goqueue.testing.sim import SimDisk
from tests.unit.log.logs import ALL, DIRECTORY, NOW, Book, read_all, settings, some_records


@pytest.fixture
def book() -> Book:
    return Book(SimDisk())


def text(number: int, timestamp: int = NOW) -> list[Record]:
    return [Record(0, timestamp, None, f"{number}".encode())]


# --- at random ---------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32),
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=40),
    segment_bytes=st.sampled_from((1024, 2000, 10_000)),
    index_interval_bytes=st.sampled_from((64, 300, 4096)),
    reopens=st.booleans(),
)
def test_every_offset_can_be_read_whatever_the_sizes(
    seed: int, counts: list[int], segment_bytes: int, index_interval_bytes: int, reopens: bool
):
    chance = random.Random(seed)
    chosen = settings(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
    book = Book(SimDisk(seed), chosen)
    for count in counts:
        book.append(some_records(chance, count), codec=chance.choice(list(Codec)))
        if reopens and chance.random() < 0.1:
            if chance.random() < 0.5:
                book.close()
            book.reopen()
    book.check()
    book.close()
    book.reopen()
    assert book.recovery.verified_bytes == 0
    book.check()


@given(seed=st.integers(0, 2**32), data=st.data())
def test_a_read_gives_whole_batches_within_its_limits(seed: int, data: st.DataObject):
    chance = random.Random(seed)
    book = Book(SimDisk(seed, cold_reads=0.0))
    for _ in range(20):
        book.append(some_records(chance, chance.randint(1, 5)))
    end = book.log.end_offset
    offset = data.draw(st.integers(0, end - 1))
    bytes_max = data.draw(st.integers(0, 3000))
    limit = data.draw(
        st.sampled_from([first for first, _ in book.batches if first > offset] or [end])
    )
    chunk = book.log.read(Offset(offset), bytes_max, Offset(limit))
    cached = book.log.read_cached(Offset(offset), bytes_max, Offset(limit))
    assert cached is not None
    assert bytes(cached.data) == bytes(chunk.data)
    headers = batches.verified_headers(chunk.data)
    assert headers[0].base_offset == book.batch_of(offset)[0]
    assert headers[-1].next_offset == chunk.next_offset <= limit
    assert len(chunk.data) <= bytes_max or len(headers) == 1


# --- reading -----------------------------------------------------------------------------------


def test_a_reader_at_the_end_follows_into_the_next_segment(book: Book):
    """Its cursor stands at the end of a segment that is sealed before the next batch comes."""
    offset = Offset(0)
    log = book.log
    for number in range(100):
        book.append(text(number))
        chunk = log.read_cached(offset, ALL, log.high_watermark) or log.read(
            offset, ALL, log.high_watermark
        )
        assert [record.value for record in batches.decode_all(chunk.data)] == [b"%d" % number]
        offset = chunk.next_offset
    assert len(log.segments) > 5
    assert log.damaged == {}


def test_a_batch_larger_than_asked_for_comes_whole(book: Book):
    book.append([Record(0, NOW, None, bytes(5000))])
    assert len(book.log.read(Offset(0), 10, Offset(1)).data) > 5000


def test_nothing_at_the_limit_and_an_error_outside(book: Book):
    book.fill(3)
    assert book.log.read(Offset(3), ALL, Offset(3)).data == b""
    assert book.log.read(Offset(2), ALL, Offset(1)).data == b""
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange, match="outside 0 to 3"):
            book.log.read(Offset(offset), ALL, Offset(3))


def test_sealed_segments_hold_no_handles(tmp_path: Path):
    disk = RealDisk(open_files_max=8)
    try:
        book = Book(disk, directory=f"{tmp_path}/log")
        log = book.log
        book.fill(400)
        assert len(log.segments) > 30
        assert disk.open_files <= 8
        assert list(read_all(log, 100)) == book.records
        for offset in random.Random(1).sample(range(400), 100):
            log.read(Offset(offset), 1, log.end_offset)
        assert disk.open_files <= 8
    finally:
        disk.close()


# --- rolling -----------------------------------------------------------------------------------


def test_a_segment_is_closed_by_size(book: Book):
    book.fill(100)
    sizes = [segment.size for segment in book.log.segments]
    assert all(size <= 1024 for size in sizes)
    assert len(sizes) > 5
    book.check()


def test_a_segment_is_closed_by_age_on_the_clock(book: Book):
    book.settings = book.log.settings = settings(segment_bytes=1 << 20, segment_ms=1000)
    for age in (0, 500, 999):
        book.append(text(age), now=NOW + age)
    assert len(book.log.segments) == 1
    book.append(text(1000), now=NOW + 1000)
    assert len(book.log.segments) == 2
    book.check()


def test_old_records_do_not_close_a_segment_each(book: Book):
    """A backfill: every record is older than `segment.ms`."""
    book.settings = book.log.settings = settings(segment_bytes=1 << 20, segment_ms=1000)
    for number in range(20):
        book.append(text(number, timestamp=NOW - 10_000_000))
    assert len(book.log.segments) == 1


def test_a_segment_is_closed_before_an_offset_would_not_fit_its_index(book: Book):
    """Batches may claim many offsets; what a compacted one holds is its own affair."""
    book.settings = book.log.settings = settings(segment_bytes=1 << 20)
    wide = batches.assemble(
        b"",
        base_offset=0,
        last_offset_delta=RELATIVE_OFFSET_MAX // 2,
        base_timestamp=NOW,
        max_timestamp=NOW,
        count=0,
        attributes=0,
        producer=(-1, -1, -1),
    )
    for _ in range(5):
        data = bytearray(wide)
        book.log.append(data, batches.verified_headers(data), epoch=Epoch(0), now=NOW)
    for segment in book.log.segments:
        assert segment.next_offset - segment.base_offset <= RELATIVE_OFFSET_MAX + 1
    assert len(book.log.segments) >= 3
    book.sync()
    offset = Offset(0)
    for _ in range(5):
        offset = book.log.read(offset, 1, book.log.end_offset).next_offset
    assert offset == book.log.end_offset


def test_a_roll_alone_survives_and_needs_no_verification(book: Book):
    book.fill(3)
    book.log.roll()
    book.close()
    book.reopen()
    assert book.recovery.verified_bytes == 0
    assert [segment.base_offset for segment in book.log.segments] == [0, 3]
    book.check()


# --- append time -------------------------------------------------------------------------------


def test_append_time_is_stamped_and_indexed():
    book = Book(SimDisk(), settings(message_timestamp_type="LogAppendTime"))
    for number in range(30):
        book.append([Record(0, 5, None, b"x"), Record(0, 9, None, b"y")], now=NOW + number)
    assert {record.timestamp for record in read_all(book.log)} == {NOW + n for n in range(30)}
    found = book.log.offset_for_time(Timestamp(NOW + 7), book.log.end_offset)
    assert found is not None
    assert (found.offset, found.timestamp) == (14, NOW + 7)
    book.check()


# --- epochs ------------------------------------------------------------------------------------


def test_epochs_are_stamped_kept_and_found_again(book: Book):
    for number in range(60):
        book.append(text(number), epoch=number // 20)
    for way in ("clean", "killed", "no epochs file"):
        if way == "clean":
            book.close()
        if way == "no epochs file":
            book.disk.remove(f"{DIRECTORY}/leader-epochs")
            book.disk.remove(f"{DIRECTORY}/checkpoint")
        book.reopen()
        epochs = book.log.epochs
        assert [(each.epoch, each.start_offset) for each in epochs.entries] == [
            (0, 0),
            (1, 20),
            (2, 40),
        ]
        assert epochs.end_offset_for(Epoch(1), book.log.end_offset) == (1, 40)
        assert epochs.end_offset_for(Epoch(2), book.log.end_offset) == (2, 60)
        assert epochs.epoch_of(Offset(39)) == 1
    book.remove_before(30)
    assert [(each.epoch, each.start_offset) for each in book.log.epochs.entries] == [
        (1, 30),
        (2, 40),
    ]
    book.check()


# --- trouble with the disk ----------------------------------------------------------------------


@pytest.mark.parametrize("room", range(0, 400, 7))
def test_a_full_disk_changes_nothing_and_appends_go_on_later(room: int):
    disk = SimDisk()
    book = Book(disk)
    book.fill(12)
    disk.fill_up(room, partial_writes=True)
    refused = 0
    for number in range(10):
        try:
            book.append(text(number), sync=False)
        except DiskFull:
            refused += 1
    assert refused > 0
    assert list(read_all(book.log)) == book.records[: book.log.high_watermark]
    disk.make_room()
    book.fill(12)
    book.check()
    book.close()
    book.reopen()
    book.check()


def test_a_full_disk_does_not_keep_a_log_from_being_opened_and_read():
    disk = SimDisk()
    book = Book(disk)
    book.fill(30)
    crashed = disk.crash(1)
    crashed.fill_up(0)
    book.reopen(crashed)
    assert list(read_all(book.log)) == book.records
    with pytest.raises(DiskFull):
        book.append(text(1))
    assert book.log.needs_checkpoint
    crashed.make_room()
    book.append(text(2))
    book.close()
    book.reopen()  # an index that was made anew in memory is written now
    book.check()
    book.reopen()
    assert book.recovery.verified_bytes == 0


def test_a_full_disk_lets_old_segments_go():
    """Their room is what the checkpoint is then written in."""
    disk = SimDisk()
    book = Book(disk)
    book.fill(40)
    disk.fill_up(0)
    book.remove_before(20)
    assert book.log.segments[0].base_offset > 0
    book.reopen(disk.crash(1))
    assert book.log.start_offset == 20
    book.check()


def test_a_failed_write_makes_the_log_read_only(book: Book):
    disk = book.disk
    assert isinstance(disk, SimDisk)
    book.fill(3)
    disk.fail_append("*.log")
    with pytest.raises(StorageFailed):
        book.append(text(1))
    with pytest.raises(StorageFailed, match="read-only"):
        book.append(text(2))
    assert list(read_all(book.log)) == book.records
    book.reopen()
    book.append(text(3))
    book.check()


def test_an_index_that_cannot_be_written_fails_no_append(book: Book):
    disk = book.disk
    assert isinstance(disk, SimDisk)
    disk.fail_append("*index", times=None, probability=0.5)
    book.settings = book.log.settings = settings(segment_bytes=1 << 20)
    for number in range(50):
        book.append(text(number))
    assert list(read_all(book.log, 1)) == book.records
    for offset in range(50):
        book.log.read(Offset(offset), 1, book.log.end_offset)
