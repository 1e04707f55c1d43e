"""What compaction keeps, what it removes, and when."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from goqueue.log import Log, checkpoint, compaction, open_log
from goqueue.log.compaction import Report
from goqueue.log.sieve import ENTRY_BYTES, SupersededOffsets
from goqueue.model import batch as batches
from goqueue.model import records
from goqueue.model.batch import DELETE_HORIZON, HEADER_BYTES, TRANSACTIONAL
from goqueue.model.errors import CorruptData, DiskFull, OutOfOrderSequence
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from goqueue.runtime.disk import RealDisk
from goqueue.testing.sim import SimDisk
from tests.unit.log.compacted_logs import (
    DIRECTORY,
    LATER,
    START,
    append,
    append_bytes,
    chunks,
    commit,
    compact,
    fill,
    headers_in,
    offsets_in,
    opened,
    record,
    records_in,
    replace,
    settings,
    table,
)

DAY_MS = 86_400_000


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


# --- any history ---------------------------------------------------------------------------------

keys = st.sampled_from([None, b"", b"a", b"b", b"c", b"a key of more than sixteen bytes"])
values = st.one_of(st.none(), st.binary(max_size=8), st.just(b"v" * 100))


class Write(msgspec.Struct, frozen=True):
    records: list[tuple[bytes | None, bytes | None, int]]  # key, value, milliseconds from START
    codec: int
    producer: int


writes = st.builds(
    Write,
    records=st.lists(st.tuples(keys, values, st.integers(0, 500)), min_size=1, max_size=6),
    codec=st.integers(0, 4),
    producer=st.integers(-1, 2),
)
rounds = st.lists(st.lists(writes, max_size=25), min_size=1, max_size=4)


@hypothesis_settings(max_examples=60)
@given(
    history=rounds,
    segment_bytes=st.sampled_from([1024, 2048, 1 << 20]),
    keys_max=st.sampled_from([1, 3, 1000]),
    append_time=st.booleans(),
    pause_ms=st.sampled_from([0, 50, 1000]),
)
def test_a_compacted_log_holds_the_same_table(
    history: list[list[Write]],
    segment_bytes: int,
    keys_max: int,
    append_time: bool,
    pause_ms: int,
):
    disk = SimDisk(cold_reads=0.0)
    chosen = settings(
        segment_bytes=segment_bytes,
        delete_retention_ms=100,
        message_timestamp_type="LogAppendTime" if append_time else "CreateTime",
    )
    log = opened(disk, chosen)
    now = START + 1000
    sequences = dict.fromkeys(range(3), 0)
    for round_of_writes in history:
        for write in round_of_writes:
            append_write(log, write, sequences)
        if round_of_writes:
            log.roll()
        written = records_in(log)
        for _ in range(50):
            report = compact(disk, log, now, memory_bytes_max=keys_max * ENTRY_BYTES)
            if report is None or report.is_complete:
                break
        check_compacted(log, written, now)
        log = opened(disk, chosen)
        check_compacted(log, written, now)
        now += pause_ms


@hypothesis_settings(max_examples=40)
@given(history=rounds, ends_early=st.booleans())
def test_bits_from_elsewhere_do_the_same_as_keys(history: list[list[Write]], ends_early: bool):
    disk, sequences = SimDisk(cold_reads=0.0), dict.fromkeys(range(3), 0)
    log = opened(disk, settings(delete_retention_ms=100))
    for round_of_writes in history:
        for write in round_of_writes:
            append_write(log, write, sequences)
        if round_of_writes:
            log.roll()
        written = records_in(log)
        end = log.segments[-2 if ends_early and len(log.segments) > 1 else -1].base_offset
        compact(disk, log, START + 1000, force=True, superseded=superseded_bits(written, end))
        check_compacted(log, written, START + 1000)
        log = opened(disk, log.settings)
        check_compacted(log, written, START + 1000)


def superseded_bits(written: list[Record], end: Offset) -> SupersededOffsets:
    last = {each.key: each.offset for each in written if each.key is not None and each.offset < end}
    bits = bytearray((end + 7) // 8)
    for each in written:
        if each.offset < end and each.key is not None and each.offset < last[each.key]:
            bits[each.offset >> 3] |= 1 << (each.offset & 7)
    return SupersededOffsets(Offset(0), end, bytes(bits))


def append_write(log: Log, write: Write, sequences: dict[int, int]) -> None:
    batch = [Record(0, START + at, key, value) for key, value, at in write.records]
    sequence = sequences.get(write.producer, -1)
    append(log, batch, codec=write.codec, producer=(write.producer, 0, sequence))
    sequences[write.producer] = sequence + len(batch)


def check_compacted(log: Log, written: list[Record], now: int) -> None:
    found = records_in(log)
    offsets = [each.offset for each in found]
    assert offsets == sorted(set(offsets))
    originals = {each.offset: each for each in written}
    assert all(each == originals[each.offset] for each in found)
    assert [each for each in found if each.key is None] == [
        each for each in written if each.key is None
    ]
    assert table(found) == table(written)
    cleaned = [each.key for each in found if each.offset < log.cleaned_offset and each.key]
    assert len(cleaned) == len(set(cleaned))
    check_every_offset(log, found)
    check_times(log, found)


def check_every_offset(log: Log, found: list[Record]) -> None:
    for offset in range(log.start_offset, log.high_watermark):
        expected = [each for each in found if each.offset >= offset]
        assert records_in(log, offset, 1 << 20) == expected


def check_times(log: Log, found: list[Record]) -> None:
    limit = log.high_watermark
    for timestamp in {each.timestamp + step for each in found for step in (0, 1)} | {START}:
        answer = log.offset_for_time(Timestamp(timestamp), limit)
        expected = next((each for each in found if each.timestamp >= timestamp), None)
        assert (answer and answer.offset) == (expected and expected.offset)
    newest = log.newest_record(limit)
    expected = max(found, key=lambda each: each.timestamp, default=None)
    assert (newest and newest.offset) == (expected and expected.offset)


# --- records -------------------------------------------------------------------------------------


def test_the_last_value_of_a_key_stays_at_its_offset(disk: SimDisk):
    log = opened(disk)
    fill(log, [("a", "1"), ("b", "1"), ("a", "2"), ("a", "3"), ("c", "1")])
    report = compact(disk, log)
    assert offsets_in(log) == [1, 3, 4]
    assert report is not None
    assert (report.records_before, report.records_after) == (5, 3)
    assert report.bytes_before > report.bytes_after == log.size
    assert (log.start_offset, log.end_offset, log.cleaned_offset) == (0, 5, 5)


def test_values_of_the_clean_part_are_superseded_by_the_dirty_part(disk: SimDisk):
    log = opened(disk)
    fill(log, [("a", "1"), ("b", "1")])
    compact(disk, log)
    fill(log, [("a", "2"), ("c", "1")])
    compact(disk, log)
    assert offsets_in(log) == [1, 2, 3]


def test_a_batch_that_loses_nothing_is_the_same_bytes(disk: SimDisk):
    log = opened(disk)
    append(log, [record("a", "1"), record("b", "1")], codec=4)
    append(log, [record("a", "2"), record(None, "x")], codec=1)
    log.roll()
    before = log.read(Offset(2), 1000, log.high_watermark).data
    compact(disk, log)
    first, second = (bytes(chunk) for chunk in chunks(log, bytes_max=1))
    assert second == bytes(before)
    header = batches.verified_header_at(first, 0)
    assert (header.base_offset, header.last_offset, header.count, header.codec) == (0, 1, 1, 4)


def test_headers_that_are_not_unicode_survive(disk: SimDisk):
    odd = [Record(0, START, b"a", b"1"), Record(0, START + 5, b"b", None, (("name", b"x"),))]
    data = batches.encode(odd)
    at = data.index(b"name")
    data[at : at + 4] = b"\xff\xfe\xfd\xfc"
    batches.stamp_append_time(data, batches.header_at(data, 0), Timestamp(START + 5))
    attributes_of_create_time = data[22] & ~batches.APPEND_TIME
    data[22] = attributes_of_create_time
    batches._renew_checksum(data, 0, len(data))
    log = opened(disk)
    append_bytes(log, data)
    fill(log, [("a", "2")])
    compact(disk, log)
    (chunk, *_) = (bytes(chunk) for chunk in chunks(log, bytes_max=1))
    assert b"\xff\xfe\xfd\xfc" in chunk
    (tombstone,) = batches.decode_all(chunk)
    assert (tombstone.offset, tombstone.timestamp) == (1, START + 5)


def test_what_is_not_records_is_kept_and_counted(disk: SimDisk):
    log = opened(disk)
    nonsense = batches.assemble(
        b"\xff" * 40,
        base_offset=0,
        last_offset_delta=1,
        base_timestamp=START,
        max_timestamp=START,
        count=2,
        attributes=0,
        producer=(-1, -1, -1),
    )
    append_bytes(log, nonsense)
    fill(log, [("a", "1"), ("a", "2")])
    report = compact(disk, log)
    assert report is not None
    assert report.unreadable_batches == 1
    assert [header.base_offset for header in headers_in(log)] == [0, 3]


# --- tombstones ----------------------------------------------------------------------------------


def test_a_tombstone_stays_readable_for_its_time_and_then_goes(disk: SimDisk):
    log = opened(disk, settings(delete_retention_ms=DAY_MS))
    append(log, [record("a", "1", START), record("b", "1", START + 7)], codec=3)
    append(log, [record("a", None, START + 8), record("c", "1", START + 9)], codec=3)
    log.roll()
    compact(disk, log)
    times = [(each.offset, each.timestamp) for each in records_in(log)]
    assert times == [(1, START + 7), (2, START + 8), (3, START + 9)]
    header = headers_in(log)[1]
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == LATER + DAY_MS
    assert header.max_timestamp == START + 9

    fill(log, [("d", "1")])
    compact(disk, log, LATER + DAY_MS - 1)
    assert offsets_in(log) == [1, 2, 3, 4]
    assert headers_in(log)[1].base_timestamp == LATER + DAY_MS, "the horizon is set once"

    fill(log, [("e", "1")])
    compact(disk, log, LATER + DAY_MS)
    assert offsets_in(log) == [1, 3, 4, 5]
    assert records_in(log)[1].timestamp == START + 9


def test_a_tombstone_keeps_its_append_time(disk: SimDisk):
    log = opened(disk, settings(message_timestamp_type="LogAppendTime"))
    fill(log, [("a", "1"), ("a", None)])
    compact(disk, log)
    assert [each.timestamp for each in records_in(log)] == [START + 1]
    assert headers_in(log)[-1].attributes & DELETE_HORIZON


def test_a_superseded_tombstone_goes_at_once(disk: SimDisk):
    log = opened(disk)
    fill(log, [("a", None), ("a", "1")])
    compact(disk, log)
    assert offsets_in(log) == [1]
    assert not headers_in(log)[0].attributes & DELETE_HORIZON


def test_a_record_with_neither_key_nor_value_is_no_tombstone(disk: SimDisk):
    log = opened(disk, settings(delete_retention_ms=0))
    fill(log, [(None, None), ("a", "1")])
    compact(disk, log)
    compact(disk, log, LATER + 1, force=True)
    assert offsets_in(log) == [0, 1]


def test_the_longest_retention_and_the_oddest_timestamp_meet(disk: SimDisk):
    log = opened(disk, settings(delete_retention_ms=2**63 - 1))
    append(log, [record("a", None, -(2**63))])
    append(log, [record("b", None, -1)])
    log.roll()
    compact(disk, log)
    assert [each.timestamp for each in records_in(log)] == [-(2**63), -1]


# --- producers, transactions, ends ---------------------------------------------------------------


def test_the_last_batch_of_a_producer_stays_though_empty(disk: SimDisk):
    log = opened(disk)
    append(log, [record("a", "1")], producer=(7, 2, 0))
    append(log, [record("a", "2"), record("b", "2")], producer=(7, 2, 1))
    append(log, [record("a", "3"), record("b", "3")], codec=2)
    log.roll()
    compact(disk, log)
    assert offsets_in(log) == [3, 4]
    empty = headers_in(log)[0]
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence) == (7, 2, 1)
    assert (empty.base_offset, empty.last_offset, empty.count) == (1, 2, 0)
    assert empty.size == HEADER_BYTES
    append(log, [record("c", "1")], producer=(7, 2, 3))
    log.roll()
    compact(disk, log)
    assert [header.base_offset for header in headers_in(log)] == [3, 5]


def test_producers_are_known_again_without_a_checkpoint(disk: SimDisk):
    log = opened(disk)
    append(log, [record("a", "1"), record("b", "1")], producer=(7, 0, 0))
    in_transaction(log, ("a", "2"), 0, commits=True)
    in_transaction(log, ("a", "3"), 1, commits=False)
    fill(log, [("a", "4"), ("b", "4")])
    compact(disk, log)
    assert offsets_in(log) == [6, 7]
    disk.remove(f"{DIRECTORY}/{checkpoint.FILE}")
    log = opened(disk)
    append(log, [record("c", "1")], producer=(7, 0, 2))
    in_transaction(log, ("c", "2"), 2, commits=True)
    for producer in ((7, 0, 4), (5, 0, 4)):
        with pytest.raises(OutOfOrderSequence):
            append(log, [record("c", "1")], producer=producer)


def test_a_log_whose_last_segment_is_empty_opens_with_what_the_checkpoint_knows(disk: SimDisk):
    log = opened(disk)
    in_transaction(log, ("a", "1"), 0, commits=False)
    in_transaction(log, ("a", "2"), 1, commits=False)
    log.roll()
    compact(disk, log)
    for _ in range(3):
        log = opened(disk)
        assert log.aborted.count == 2
    in_transaction(log, ("a", "3"), 2, commits=True)


def test_too_many_producers_keep_their_empty_batches(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compaction, "PRODUCERS_MAX", 1)
    log = opened(disk)
    for producer_id, sequence in [(1, 0), (2, 0), (1, 1), (2, 1)]:
        append(log, [record("a", "1")], producer=(producer_id, 0, sequence))
    log.roll()
    compact(disk, log)
    assert len(headers_in(log)) == 4


def test_the_last_batch_stays_though_empty_until_another_follows(disk: SimDisk):
    log = opened(disk, settings(delete_retention_ms=0))
    fill(log, [("a", None)])
    compact(disk, log)
    compact(disk, log, LATER + 1, force=True)
    assert [header.count for header in headers_in(log)] == [0]
    assert records_in(log, 0) == []
    assert log.newest_record(log.high_watermark) is None
    reopened = opened(disk)
    assert (reopened.start_offset, reopened.end_offset) == (0, 1)
    fill(log, [("b", "1")])
    compact(disk, log)
    assert [header.base_offset for header in headers_in(log)] == [1]
    assert opened(disk).start_offset == 0


def in_transaction(log: Log, pair: tuple[str, str], sequence: int, *, commits: bool) -> None:
    append(log, [record(*pair)], attributes=TRANSACTIONAL, producer=(5, 0, sequence))
    log.append_marker(
        Marker(5, 0, coordinator_epoch=0, commits=commits), epoch=Epoch(0), now=Timestamp(START)
    )
    commit(log)


def test_markers_stay_and_aborted_records_go_and_supersede_nothing(disk: SimDisk):
    log = opened(disk)
    append(log, [record("a", "committed")])
    in_transaction(log, ("a", "aborted"), 0, commits=False)
    in_transaction(log, ("b", "1"), 1, commits=True)
    in_transaction(log, ("b", "2"), 2, commits=True)
    log.roll()
    compact(disk, log)
    assert table(records_in(log)) == {b"a": b"committed", b"b": b"2"}
    assert [header.base_offset for header in headers_in(log)] == [0, 2, 4, 5, 6]
    assert [header.is_control for header in headers_in(log)] == [False, True, True, False, True]


def test_an_open_transaction_holds_compaction_back(disk: SimDisk):
    log = opened(disk)
    fill(log, [("a", "1"), ("a", "2")])
    append(log, [record("a", "3")], attributes=TRANSACTIONAL, producer=(5, 0, 0))
    log.roll()
    fill(log, [("a", "4")])
    compact(disk, log)
    assert offsets_in(log) == [1, 2, 3]
    assert log.cleaned_offset == 2


# --- what is touched, and when -------------------------------------------------------------------


def test_a_topic_that_is_not_compacted_is_left_alone(disk: SimDisk):
    log = opened(disk, settings(cleanup_policy="delete"))
    fill(log, [("a", "1"), ("a", "2")])
    assert compaction.plan(log, LATER, force=True) is None


def test_the_active_segment_and_what_readers_cannot_see_are_left_alone(disk: SimDisk):
    log = opened(disk)
    fill(log, [("a", "1"), ("a", "2")])
    fill(log, [("a", "3")], roll=False)
    compact(disk, log)
    assert offsets_in(log) == [1, 2]
    fill(log, [("a", "4")])
    fill(log, [("a", "5")])
    log.high_watermark = Offset(4)
    compact(disk, log)
    log.high_watermark = log.end_offset
    assert offsets_in(log) == [3, 4]


def test_the_dirty_share_decides(disk: SimDisk):
    log = opened(disk, settings(min_cleanable_dirty_ratio=0.5))
    fill(log, [(f"key {number}", "1") for number in range(10)])
    assert compact(disk, log) is not None
    fill(log, [("key 1", "2")])
    assert compact(disk, log) is None
    fill(log, [(f"key {number}", "2") for number in range(12)])
    report = compact(disk, log)
    assert report is not None
    assert 0.5 <= report.dirty_ratio < 0.7
    assert compact(disk, log) is None


def test_records_stay_uncompacted_for_the_shortest_time(disk: SimDisk):
    log = opened(disk, settings(min_compaction_lag_ms=5000))
    fill(log, [("a", "1"), ("a", "2")])
    newest = START + 1
    assert compact(disk, log, newest + 4999) is None
    assert compact(disk, log, newest + 5000) is not None


@pytest.mark.parametrize("reopen", [False, True])
def test_the_longest_time_forces_compaction_whatever_the_share(disk: SimDisk, reopen: bool):
    chosen = settings(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5000)
    log = opened(disk, chosen)
    fill(log, [(f"key {number}", "1") for number in range(10)])
    compact(disk, log)
    fill(log, [("key 1", "2")])
    fill(log, [("key 1", "3")], roll=False)
    dirty_since = START + 10
    if reopen:
        log = opened(disk, chosen)
    assert compact(disk, log, dirty_since + 4999) is None
    assert compact(disk, log, dirty_since + 5000) is not None
    assert not compaction.should_roll(log, Timestamp(dirty_since + 5000))
    assert compaction.should_roll(log, Timestamp(dirty_since + 5001))
    assert compact(disk, log, dirty_since + 50_000) is None, "the active segment is the owner's"


def test_compaction_goes_on_where_memory_ended(disk: SimDisk):
    log = opened(disk)
    fill(log, [(f"key {number % 40}", str(number)) for number in range(120)])
    runs = 0
    while (report := compact(disk, log, memory_bytes_max=7 * ENTRY_BYTES)) is not None:
        assert report.cleaned_offset == log.cleaned_offset
        runs += 1
    assert runs > 10
    assert offsets_in(log) == list(range(80, 120))


def test_neighbours_are_merged_up_to_the_segment_size(disk: SimDisk):
    log = opened(disk)
    fill(log, [(f"key {number % 30}", str(number)) for number in range(300)])
    assert len(log.segments) > 20
    compact(disk, log)
    sizes = [segment.size for segment in log.segments[:-1]]
    assert 2 <= len(sizes) <= 4
    assert all(size > 900 for size in sizes[:-1])
    assert max(sizes) <= 1024
    assert [segment.base_offset for segment in opened(disk).segments if segment.size] == [
        segment.base_offset for segment in log.segments if segment.size
    ]


def test_a_gap_that_no_index_spans_starts_a_segment(disk: SimDisk):
    log = opened(disk, settings(segment_bytes=1 << 20))
    fill(log, [("a", "1")])
    data = batches.encode([record("a", "2")])
    batches.stamp(data, batches.header_at(data, 0), 2**33, 0)
    log.segments[-1].next_offset = log.segments[-1].base_offset
    far = Offset(2**33)
    log.segments[-1] = type(log.active)(disk, DIRECTORY, far)
    append_bytes(log, data)
    fill(log, [("b", "1")])
    compact(disk, log)
    assert offsets_in(log) == [far, far + 1]
    assert log.start_offset == opened(disk).start_offset == far


# --- stopping and failing ------------------------------------------------------------------------


def cleaned_files(disk: SimDisk) -> list[str]:
    return [name for name in disk.list_directory(DIRECTORY) if "." in name and "clean" in name]


def full_log(disk: SimDisk) -> Log:
    log = opened(disk)
    fill(log, [(f"key {number % 30}", str(number)) for number in range(100)])
    return log


def test_a_dry_run_says_what_would_happen_and_writes_nothing(disk: SimDisk):
    log = full_log(disk)
    plan = compaction.plan(log, LATER)
    assert plan is not None
    before = disk.operations
    result = compaction.run(disk, plan, dry_run=True)
    assert disk.operations == before
    assert result is not None
    assert result.new == ()
    assert result.report == compact(disk, log)
    assert result.report.bytes_after == log.size


@pytest.mark.parametrize("steps", [0, 1, 5, 15])
def test_a_stopped_run_leaves_nothing(disk: SimDisk, steps: int):
    log = full_log(disk)
    left = iter(range(steps))
    assert compact(disk, log, should_stop=lambda: next(left, None) is None) is None
    assert cleaned_files(disk) == []
    assert len(records_in(log)) == 100


def test_a_full_disk_leaves_nothing(disk: SimDisk):
    log = full_log(disk)
    disk.fill_up(500)
    with pytest.raises(DiskFull):
        compact(disk, log)
    assert cleaned_files(disk) == []
    disk.make_room()
    with pytest.raises(DiskFull):
        compact(disk, log, free_bytes_min=1 << 50)
    assert cleaned_files(disk) == []
    compact(disk, log)
    assert len(records_in(log)) == 30


def test_a_damaged_batch_stops_compaction(disk: SimDisk):
    log = full_log(disk)
    disk.flip_bit(log.segments[2].log.path, 100)
    with pytest.raises(CorruptData, match="position"):
        compact(disk, log)
    assert cleaned_files(disk) == []


def test_removal_waits_for_compaction_with_the_files_not_with_the_start(disk: SimDisk):
    log = opened(disk, settings(cleanup_policy="compact,delete"))
    fill(log, [(f"key {number}", str(number)) for number in range(100)])
    plan = compaction.plan(log, LATER)
    assert plan is not None
    log.rewriting = True
    removal = log.remove_before(Offset(60))
    log.run_removal(removal)
    assert removal.segments == ()
    result = compaction.run(disk, plan)
    assert result is not None
    replace(log, result)
    log.rewriting = False
    assert offsets_in(log) == list(range(60, 100))
    assert log.segments[0].next_offset > 60
    assert offsets_in(opened(disk)) == list(range(60, 100))
    log.run_removal(log.remove_before(Offset(95)))
    assert offsets_in(opened(disk)) == list(range(95, 100))


def test_a_run_whose_segments_are_removed_stops(disk: SimDisk):
    log = opened(disk, settings(cleanup_policy="compact,delete"))
    fill(log, [(f"key {number}", str(number)) for number in range(100)])
    plan = compaction.plan(log, LATER)
    assert plan is not None
    log.run_removal(log.remove_before(Offset(60)))
    assert compaction.run(disk, plan) is None
    assert cleaned_files(disk) == []


# --- readers in other threads --------------------------------------------------------------------


class Reader(threading.Thread):
    """Reads the log from its start to its end, over and over, and looks up times."""

    def __init__(self, log: Log, is_over: Callable[[], bool], seed: int) -> None:
        super().__init__()
        self.problem: BaseException | None = None
        self.rounds = 0
        self._log = log
        self._is_over = is_over
        self._random = random.Random(seed)

    def run(self) -> None:
        try:
            while not self._is_over():
                self._read_all()
                self.rounds += 1
        except BaseException as error:  # told by the test's own thread
            self.problem = error

    def _read_all(self) -> None:
        expected = table(self._written)
        found = records_in(self._log, 0, self._random.choice([100, 1000, 10_000]))
        values = table(found)
        assert all(int(values[key]) >= int(value) for key, value in expected.items())
        offsets = [each.offset for each in found]
        assert offsets == sorted(set(offsets))
        answer = self._log.offset_for_time(Timestamp(START), self._log.high_watermark)
        assert answer is not None

    @property
    def _written(self) -> list[Record]:
        return list(written_records)


written_records: list[Record] = []


def test_readers_see_every_last_value_while_the_log_is_compacted(tmp_path: Path):
    """Few handles, so that files are opened again and again under their changing names."""
    written_records.clear()
    disk = RealDisk(open_files_max=3)
    log = opened(disk, settings(segment_bytes=2000, delete_retention_ms=0), str(tmp_path / "log"))
    over = threading.Event()
    readers = [Reader(log, over.is_set, seed) for seed in range(3)]
    chance = random.Random(1)
    reports: list[Report] = []
    write_numbers(log, chance, 0)
    for reader in readers:
        reader.start()
    try:
        for number in range(1, 25):
            write_numbers(log, chance, number)
            if report := compact(disk, log, force=True):
                reports.append(report)
    finally:
        over.set()
        for reader in readers:
            reader.join()
        disk.close()
    assert [reader.problem for reader in readers] == [None] * len(readers)
    assert all(reader.rounds > 0 for reader in readers)
    assert len(reports) == 24
    assert sum(report.records_before - report.records_after for report in reports) > 2000


def write_numbers(log: Log, chance: random.Random, number: int) -> None:
    """Values only grow, so that a reader can tell an old one."""
    batch = [record(f"key {chance.randrange(50)}", str(number)) for _ in range(10)]
    for _ in range(10):
        data = batches.encode(batch, codec=chance.choice([0, 3]))
        log.append(data, batches.verified_headers(data), epoch=Epoch(0), now=Timestamp(START))
    commit(log)
    written_records.extend(batch)
    log.roll()


def test_a_reopened_log_goes_on_compacting(disk: SimDisk):
    log = full_log(disk)
    compact(disk, log)
    for value in range(5):
        log, report = open_log(disk, DIRECTORY, settings())
        assert report.problems == []
        assert log.cleaned_offset > 0
        fill(log, [("key 1", f"new {value}"), ("key 2", None)])
        compact(disk, log)
        assert table(records_in(log))[b"key 1"] == f"new {value}".encode()
    assert len(records_in(log)) == 30


def test_varints_of_a_horizon_are_what_the_codec_reads(disk: SimDisk):
    log = opened(disk)
    append(log, [record(None, "x" * size, START + size) for size in (0, 60, 200)])
    append(log, [record("a", None, START + 5), record("b", "1", START)])
    log.roll()
    before = records_in(log)
    compact(disk, log)
    assert records_in(log) == before
    assert records.read_varlong(records.write_varlong(START - LATER), 0)[0] == START - LATER
