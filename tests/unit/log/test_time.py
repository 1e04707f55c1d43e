"""Looking by time: right over many segments, whatever the order of stamps."""

import random

from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import TimedOffset
from goqueue.model.compression import Codec
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.record import Record
from goqueue.testing.sim import SimDisk
from tests.unit.log.logs import NOW, Book, settings, some_records


def place(found: TimedOffset | None) -> tuple[int, int] | None:
    return (found.offset, found.timestamp) if found else None


def assert_right(book: Book, moment: int, limit: int) -> None:
    readable = [r for r in book.records if book.log.start_offset <= r.offset < limit]
    first = next((r for r in readable if r.timestamp >= moment), None)
    found = book.log.offset_for_time(Timestamp(moment), Offset(limit))
    assert place(found) == (first and (first.offset, first.timestamp))
    newest = max(readable, key=lambda r: (r.timestamp, -r.offset), default=None)
    if newest is not None and newest.timestamp < 0:
        newest = None
    found = book.log.newest_record(Offset(limit))
    assert place(found) == (newest and (newest.offset, newest.timestamp))


@given(
    seed=st.integers(0, 2**32),
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=50),
    spread_ms=st.sampled_from((0, 3, 1000)),
    interval=st.sampled_from((64, 500, 4096)),
    reopen=st.sampled_from(("no", "clean", "killed")),
    data=st.data(),
)
def test_looking_by_time_is_as_right_as_looking_at_every_record(
    seed: int,
    counts: list[int],
    spread_ms: int,
    interval: int,
    reopen: str,
    data: st.DataObject,
):
    chance = random.Random(seed)
    book = Book(SimDisk(seed), settings(segment_bytes=1024, index_interval_bytes=interval))
    for count in counts:
        records = some_records(chance, count, spread_ms=spread_ms)
        if chance.random() < 0.2:
            records = [Record(0, -1, r.key, r.value) for r in records]  # without a time
        book.append(records, codec=chance.choice((0, Codec.ZSTD)))
    if reopen != "no":
        if reopen == "clean":
            book.close()
        book.reopen()
    if data.draw(st.booleans()):
        book.remove_before(data.draw(st.integers(0, book.log.end_offset)))
    starts = [first for first, _ in book.batches if first > book.log.start_offset]
    for _ in range(6):
        moment = data.draw(st.integers(NOW - spread_ms - 1, NOW + spread_ms + 1))
        limit = data.draw(st.sampled_from([*starts, book.log.end_offset]))
        assert_right(book, moment, limit)


def test_an_old_record_late_in_the_log_does_not_hide_newer_ones_before_it():
    book = Book(SimDisk())
    for timestamp in (NOW, NOW + 100, NOW + 5, NOW + 200, NOW + 1):
        book.append([Record(0, timestamp, None, bytes(400))])
    assert len(book.log.segments) > 2
    for moment in range(NOW - 2, NOW + 202):
        assert_right(book, moment, 5)


def test_the_newest_record_may_be_deleted_or_not_yet_visible():
    book = Book(SimDisk())
    for number, timestamp in enumerate((NOW + 90, NOW + 1, NOW + 2, NOW + 99)):
        book.append([Record(0, timestamp, None, b"%d" % number)])
    assert place(book.log.newest_record(Offset(4))) == (3, NOW + 99)
    assert place(book.log.newest_record(Offset(3))) == (0, NOW + 90)
    book.remove_before(1)
    assert place(book.log.newest_record(Offset(3))) == (2, NOW + 2)
    book.remove_before(4)
    assert book.log.newest_record(Offset(4)) is None


def test_an_empty_log_has_no_times():
    book = Book(SimDisk())
    assert book.log.newest_record(Offset(0)) is None
    assert book.log.offset_for_time(Timestamp(0), Offset(0)) is None
