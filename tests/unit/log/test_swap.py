"""A crash at every step of a compaction, and files that move under their readers."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from goqueue.log import Log, compaction
from goqueue.log.compaction import Result
from goqueue.log.swap import CLEANED, MANIFEST, MovingFile, finish_swap
from goqueue.model.errors import CorruptData, DiskFull, StorageFailed
from goqueue.model.record import Record
from goqueue.testing.sim import Moment, SimCrash, SimDisk
from goqueue.testing.sim.disk import SimFile
from tests.unit.log.compacted_logs import (
    DIRECTORY,
    LATER,
    append,
    compact,
    fill,
    offsets_in,
    opened,
    record,
    records_in,
    replace,
    settings,
    table,
)

PATH = f"{DIRECTORY}/{MANIFEST}"
FATES = range(2)  # ways in which one power loss may end
SETTINGS = settings(delete_retention_ms=0)


def history(disk: SimDisk) -> Log:
    """Compacted once, with more to compact: merges, splits, tombstones that go, a last batch."""
    log = opened(disk, SETTINGS)
    fill(log, [(f"key {number % 20}", str(number)) for number in range(40)])
    fill(log, [("key 7", None), ("key 8", None)])
    compact(disk, log)
    fill(log, [(f"key {number % 14}", f"new {number}") for number in range(20)])
    append(log, [record("active", "1")])
    return log


def write_both() -> tuple[list[Record], list[Record]]:
    """What is read before the compaction under test and after it."""
    disk = SimDisk()
    log = history(disk)
    before = records_in(log)
    compact(disk, log, LATER + 1)
    return before, records_in(log)


BEFORE, AFTER = write_both()


def operations(work: Callable[[SimDisk, Log], object]) -> tuple[int, int]:
    """The numbers of the operations that `work` is."""
    disk = SimDisk()
    log = history(disk)
    first = disk.operations + 1
    work(disk, log)
    return first, disk.operations + 1


def compact_again(disk: SimDisk, log: Log) -> None:
    compact(disk, log, LATER + 1)


def crash_during(operation: int, moment: Moment) -> SimDisk:
    disk = SimDisk()
    log = history(disk)
    disk.crash_at(operation, moment)
    with pytest.raises(SimCrash):
        compact_again(disk, log)
    return disk


def check_survivor(disk: SimDisk) -> list[Record]:
    """The log opens as it was or as it was to be, and can be compacted."""
    log = opened(disk, SETTINGS)
    found = records_in(log)
    assert found in (BEFORE, AFTER)
    assert found == BEFORE or log.cleaned_offset == 62, "it says where offsets may be missing"
    assert (log.start_offset, log.end_offset) == (0, 63)
    names = disk.list_directory(DIRECTORY)
    assert not [name for name in names if name.endswith(CLEANED) or name == MANIFEST]
    append(log, [record("key 1", "after the crash")])
    log.roll()
    compact(disk, log, LATER + 2, force=True)
    expected = table(BEFORE) | {b"key 1": b"after the crash"}
    assert table(records_in(log)) == table(records_in(opened(disk, SETTINGS))) == expected
    return found


def fates(disk: SimDisk) -> Iterator[SimDisk]:
    for fate in FATES:
        yield disk.crash(fate)
        yield disk.crash(fate, in_order=True)
    yield disk.kill()


@pytest.mark.parametrize("moment", list(Moment))
def test_power_may_go_at_every_operation(moment: Moment):
    first, end = operations(compact_again)
    assert end - first > 25
    outcomes = []
    for operation in range(first, end):
        for survivor in fates(crash_during(operation, moment)):
            outcomes.append(check_survivor(survivor))
    assert BEFORE in outcomes
    assert AFTER in outcomes


def test_power_may_go_again_while_the_swap_is_finished():
    disk = SimDisk()
    log = history(disk)
    committed: list[SimDisk] = []

    def look(number: int, _operation: str, _path: str) -> None:
        if disk.exists(PATH):
            committed.append(disk.crash(number))

    disk.watch(look)
    compact_again(disk, log)
    assert len(committed) > 10
    for survivor in committed[::4]:
        crash_in_recovery(survivor)


def crash_in_recovery(disk: SimDisk) -> None:
    """At each of its operations."""
    for step in itertools.count(1):
        again = disk.crash(0)
        again.crash_at(again.operations + step)
        try:
            opened(again, SETTINGS)
        except SimCrash:
            check_survivor(again.crash(step))
        else:
            return


def test_finishing_twice_changes_nothing():
    disk = SimDisk()
    log = history(disk)
    compact_again(disk, log)
    before = disk.operations
    finish_swap(disk, DIRECTORY)
    assert disk.operations == before
    assert records_in(log) == AFTER


def prepare(disk: SimDisk) -> tuple[Log, Result]:
    log = history(disk)
    plan = compaction.plan(log, LATER)
    assert plan is not None
    result = compaction.run(disk, plan)
    assert result is not None
    return log, result


def test_a_file_that_is_not_what_the_manifest_says_costs_an_error_and_no_data():
    disk = SimDisk()
    log, result = prepare(disk)
    log.announce_replacement(result.old, result.new, result.report.cleaned_offset)
    replacement = log.replace_segments(result.old, result.new, result.report.cleaned_offset)
    names = set(disk.list_directory(DIRECTORY))
    disk.remove(f"{result.new[0].log.path}{CLEANED}")
    with pytest.raises(CorruptData, match=MANIFEST):
        log.run_replacement(replacement)
    with pytest.raises(CorruptData, match=MANIFEST):
        opened(disk, SETTINGS)
    assert len(names - set(disk.list_directory(DIRECTORY))) == 1


def test_a_swap_that_fails_is_finished_at_the_next_opening():
    disk = SimDisk()
    log, result = prepare(disk)
    log.announce_replacement(result.old, result.new, result.report.cleaned_offset)
    replacement = log.replace_segments(result.old, result.new, result.report.cleaned_offset)
    disk.fail_sync(DIRECTORY)
    with pytest.raises(StorageFailed):
        log.run_replacement(replacement)
    assert table(records_in(log)) == table(BEFORE), "it serves on"
    assert table(records_in(opened(disk, SETTINGS))) == table(BEFORE)


def test_a_swap_that_cannot_be_announced_changes_nothing():
    for pattern in (f"*{MANIFEST}*", DIRECTORY):
        disk = SimDisk()
        log, result = prepare(disk)
        disk.fail_sync(pattern)
        with pytest.raises(StorageFailed):
            log.announce_replacement(result.old, result.new, result.report.cleaned_offset)
        assert table(records_in(log)) == table(BEFORE), "it serves on"
        assert table(records_in(opened(disk, SETTINGS))) == table(BEFORE)
    disk = SimDisk()
    log, result = prepare(disk)
    disk.fill_up(0)
    with pytest.raises(DiskFull):
        log.announce_replacement(result.old, result.new, result.report.cleaned_offset)
    assert not disk.exists(f"{DIRECTORY}/{MANIFEST}")
    assert table(records_in(log)) == table(BEFORE), "it serves on"
    disk.make_room()
    log.announce_replacement(result.old, result.new, result.report.cleaned_offset)
    log.run_replacement(log.replace_segments(result.old, result.new, result.report.cleaned_offset))
    assert table(records_in(log)) == table(BEFORE)


def test_a_swap_without_room_for_its_end_may_be_tried_again():
    disk = SimDisk()
    log, result = prepare(disk)
    log.announce_replacement(result.old, result.new, result.report.cleaned_offset)
    replacement = log.replace_segments(result.old, result.new, result.report.cleaned_offset)
    disk.fill_up(-(10**6))
    for _ in range(2):
        with pytest.raises(DiskFull):
            log.run_replacement(replacement)
        assert table(records_in(log)) == table(BEFORE), "it serves on"
    disk.make_room()
    log.run_replacement(replacement)
    assert table(records_in(log)) == table(BEFORE)
    assert not disk.exists(f"{DIRECTORY}/{MANIFEST}")
    assert table(records_in(opened(disk.kill(), SETTINGS))) == table(BEFORE)


def test_new_segments_are_read_before_while_and_after_their_files_move():
    disk = SimDisk()
    log, result = prepare(disk)
    seen = []

    def look(_number: int, operation: str, _path: str) -> None:
        for segment in log.segments:
            segment.close()  # so that the next read opens by name
        seen.append(operation)
        assert table(records_in(log)) == table(BEFORE)
        assert offsets_in(log) == offsets_in(log)

    disk.watch(look)
    replace(log, result)
    look(0, "end", "")
    assert {"rename", "remove", "sync_directory"} <= set(seen)
    assert not any(isinstance(segment.log, MovingFile) for segment in log.segments)


def test_a_moving_file_is_read_in_either_place():
    disk = SimDisk(cold_reads=0.0)
    disk.make_directory("/d")
    before = disk.open("/d/a")
    before.append(b"0123456789")
    file = MovingFile(before, disk.open("/d/b"))
    reads = [(0, 4), (8, 4), (10, 4), (20, 4)]
    expected = [b"0123", b"89", b"", b""]
    assert [file.read(*each) for each in reads] == expected
    disk.rename("/d/a", "/d/b")
    assert [file.read(*each) for each in reads] == expected
    before.close()
    assert [file.read(*each) for each in reads] == expected
    assert [file.read_cached(*each) for each in reads] == expected
    file.arrive()
    disk.replace_file("/d/a", b"another one")
    assert [file.read(*each) for each in reads] == expected
    assert (file.size, file.path) == (10, "/d/b")


def test_a_reader_held_up_on_its_way_to_the_first_place_is_sent_to_the_second():
    disk = SimDisk()
    disk.make_directory("/d")
    disk.replace_file("/d/a", b"0123456789")

    class HeldUp(SimFile):
        def read(self, position: int, length: int) -> bytes:
            disk.rename("/d/a", "/d/b")
            file.arrive()
            disk.replace_file("/d/a", b"another one")
            return super().read(position, length)

    file = MovingFile(HeldUp(disk, "/d/a"), disk.open("/d/b"))
    file.close()
    assert file.read(0, 10) == b"0123456789"
