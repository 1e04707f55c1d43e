"""The abort index against a list; cut, dropped from the front, and damaged."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import Log, open_log
from goqueue.log.aborted import DEAD_ENTRIES_MAX, HEAD_BYTES, AbortedRange, AbortIndex
from goqueue.model import batch as batches
from goqueue.model.errors import CorruptBatch, CorruptData
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.markers import Marker, decode, encode
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.testing.sim.disk import SimDisk
from tests.unit.log.transactional_logs import NOW, mark, opened, show_all, write


def aborted_ranges(log) -> list[tuple[int, int, int]]:
    found = log.aborted.between(log.start_offset, log.end_offset)
    return [(each.producer_id, each.first_offset, each.marker_offset) for each in found]


# --- searching --------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from("wca")), max_size=60),
    st.integers(0, 70),
    st.integers(0, 70),
)
def test_a_search_finds_what_looking_at_all_would(steps, first, end):
    log = opened(SimDisk(1))
    expected: list[tuple[int, int, int]] = []
    open_at: dict[int, int] = {}
    sequences: dict[int, int] = {}
    for producer_id, step in steps:
        if step == "w":
            sequence = sequences.get(producer_id, 0)
            sequences[producer_id] = sequence + 1
            open_at.setdefault(producer_id, write(log, producer_id, sequence=sequence))
        else:
            marker = mark(log, producer_id, commits=step == "c")
            start = open_at.pop(producer_id, None)
            if start is not None and step == "a":
                expected.append((producer_id, start, marker))
    show_all(log)
    found = log.aborted.between(Offset(first), Offset(end))
    held = {(each.producer_id, each.first_offset, each.marker_offset) for each in found}
    assert held == {each for each in expected if each[1] < end and each[2] >= first}


def test_a_search_reads_no_further_than_it_must():
    disk = SimDisk(1)
    disk.make_directory("/log")
    index = AbortIndex(disk, "/log")
    for number in range(1000):
        offset = Offset(number * 10)
        index.append(AbortedRange(7, offset, Offset(offset + 5), Offset(offset + 6)))
    looked_at = list(index.between(Offset(100), Offset(110)))
    assert [each.first_offset for each in looked_at] == [100]


# --- keeping ----------------------------------------------------------------------------------


def test_a_long_transaction_is_found_from_within():
    log = opened(SimDisk(1))
    write(log, 1)
    for number in range(20):
        write(log, 2, sequence=number)
        mark(log, 2, commits=False)
    write(log, 1, sequence=1)
    mark(log, 1, commits=False)
    show_all(log)
    assert (1, 0, 42) in [
        (each.producer_id, each.first_offset, each.marker_offset)
        for each in log.aborted.between(Offset(20), Offset(21))
    ]


def test_a_damaged_index_is_made_anew_from_the_log():
    disk = SimDisk(1)
    log = opened(disk)
    write(log, 1)
    mark(log, 1, commits=False)
    write(log, 2)
    show_all(log)
    log.run_checkpoint(log.checkpoint_point())
    before = aborted_ranges(log)
    disk.open("/log/aborted").truncate(0)
    reopened = opened(disk.kill())
    assert aborted_ranges(reopened) == before == [(1, 0, 1)]
    assert reopened.stable_offset == 2


def log_with_aborts(disk: SimDisk) -> Log:
    log = opened(disk)
    for number in range(8):
        write(log, 1, sequence=number)
        write(log, 2, sequence=number)
        mark(log, 1, commits=number % 3 == 0)
        mark(log, 2, commits=number % 2 == 0)
    show_all(log)
    log.run_checkpoint(log.checkpoint_point())
    return log


def test_a_flipped_byte_anywhere_in_the_index_changes_nothing():
    """Neither is an aborted record shown nor a committed one hidden, whatever byte it is."""
    disk = SimDisk(1)
    before = aborted_ranges(log_with_aborts(disk))
    assert len(before) == 9
    disk = disk.kill()
    content = disk.read_file("/log/aborted")
    assert content is not None
    for position in range(len(content)):
        disk.flip_bit("/log/aborted", position)
        assert aborted_ranges(opened(disk)) == before, position
        assert disk.read_file("/log/aborted") == content, position  # made anew


def test_damage_that_comes_later_is_refused_and_never_believed():
    disk = SimDisk(1)
    log = log_with_aborts(disk)
    before = aborted_ranges(log)
    size = log.aborted.file.size
    for position in range(HEAD_BYTES, size):
        for bit in range(8):
            disk.flip_bit("/log/aborted", position, bit)
            with pytest.raises(CorruptData, match="restart"):
                aborted_ranges(log)
            disk.flip_bit("/log/aborted", position, bit)
    assert aborted_ranges(log) == before


def test_retention_goes_on_with_a_damaged_index():
    disk = SimDisk(1)
    log = log_with_aborts(disk)
    disk.flip_bit("/log/aborted", HEAD_BYTES + 40)
    disk.flip_bit("/log/aborted", HEAD_BYTES + 170)
    log.run_removal(log.remove_before(Offset(20)))
    assert log.start_offset == 20


def test_an_index_of_the_format_without_checksums_is_made_anew():
    disk = SimDisk(1)
    log = log_with_aborts(disk)
    before = aborted_ranges(log)
    entries = log.aborted.between(Offset(0), log.end_offset)
    disk = disk.kill()
    head = struct.pack(">4sq", b"GQA\x01", 0)
    disk.replace_file(
        "/log/aborted",
        head
        + struct.pack(">I", crc32c(head))
        + b"".join(
            struct.pack(">qqqq", e.producer_id, e.first_offset, e.marker_offset, e.stable_offset)
            for e in entries
        ),
    )
    assert aborted_ranges(opened(disk)) == before
    _, recovery = open_log(disk, "/log", topic_settings({}))
    assert not recovery.problems


def test_a_head_that_a_crash_tore_is_no_damage():
    disk = SimDisk(1)
    write(opened(disk), 1)
    disk.open("/log/aborted").append(b"GQA\x01\x00")
    log, recovery = open_log(disk.kill(), "/log", topic_settings({}))
    assert not recovery.problems
    mark(log, 1, commits=False)
    show_all(log)
    assert aborted_ranges(log) == [(1, 0, 1)]


def test_what_the_checkpoint_did_not_know_is_not_there_twice():
    disk = SimDisk(1)
    log = opened(disk)
    write(log, 1)
    log.run_checkpoint(log.checkpoint_point())
    mark(log, 1, commits=False)
    show_all(log)
    disk = disk.kill()
    assert aborted_ranges(opened(disk)) == [(1, 0, 1)]
    assert aborted_ranges(opened(disk.kill())) == [(1, 0, 1)]


def test_entries_before_the_start_go_and_the_checkpoint_still_counts_right():
    disk = SimDisk(1)
    log = opened(disk, segment_bytes="1048576")
    for number in range(DEAD_ENTRIES_MAX + 100):
        write(log, 1, sequence=number)
        mark(log, 1, commits=False)
    show_all(log)
    log.run_checkpoint(log.checkpoint_point())
    before = aborted_ranges(log)
    start = Offset(2 * (DEAD_ENTRIES_MAX + 50))
    removal = log.remove_before(start)
    assert log.aborted.file.size < 60 * 36
    write(log, 1, sequence=DEAD_ENTRIES_MAX + 100)
    mark(log, 1, commits=False)
    for fate in range(10):  # the power goes before the new checkpoint is written
        reopened = opened(disk.crash(fate))
        kept = [each for each in aborted_ranges(reopened) if each in before]
        assert [each for each in kept if each[2] >= start] == [
            each for each in before if each[2] >= start
        ]
    log.run_removal(removal)
    kept = aborted_ranges(log)
    assert aborted_ranges(opened(disk.kill())) == kept


# --- markers ----------------------------------------------------------------------------------


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.booleans(),
    st.integers(-1, 2**63 - 1),
)
def test_a_marker_says_what_it_was_told(producer_id, epoch, coordinator_epoch, commits, decided_at):
    marker = Marker(
        producer_id, epoch, coordinator_epoch, commits=commits, decided_at=Timestamp(decided_at)
    )
    data = encode(marker, NOW)
    header = batches.verified_header_at(data, 0)
    assert (header.producer_id, header.producer_epoch) == (producer_id, epoch)
    assert header.is_control
    assert header.is_transactional
    assert decode(data, header) == marker


def test_a_marker_of_a_former_version_or_of_kafka_does_not_say_when_it_was_decided():
    record = Record(0, NOW, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07")
    data = batches.encode([record], attributes=0x30, producer=(5, 2, -1))
    assert decode(data, batches.header_at(data, 0)) == Marker(5, 2, 7, commits=True)


def test_a_control_batch_that_is_no_marker_is_told_apart():
    other = batches.encode(
        [Record(0, Timestamp(0), b"\x00\x00\x00\x05", b"\x00\x00\x00\x00\x00\x00")], attributes=0x30
    )
    assert decode(other, batches.header_at(other, 0)) is None
    broken = batches.encode([Record(0, Timestamp(0), b"\x00", b"")], attributes=0x30)
    with pytest.raises(CorruptBatch):
        decode(broken, batches.header_at(broken, 0))
