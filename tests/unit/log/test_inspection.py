"""What an inspection says of a log is what opening it would find."""

import pytest

from goqueue.log.inspection import inspect_log
from goqueue.model.record import Record
from goqueue.testing.sim import SimDisk
from tests.unit.log.logs import DIRECTORY, NOW, Book, headers_in, settings
from tests.unit.log.test_damage import reopen_killed


@pytest.mark.parametrize("which", [0, 5, -1])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_batch_that_was_synced_is_damaged_and_one_that_was_not_is_a_torn_end(
    which: int, is_synced: bool
):
    disk = SimDisk(cold_reads=0.0)
    book = Book(disk, settings(segment_bytes=1 << 20))
    book.fill(3)
    book.checkpoint()
    for number in range(8):
        book.append([Record(0, NOW, None, b"%d" % number)], sync=is_synced)
    header = headers_in(book.log.active)[3:][which]
    disk.flip_bit(book.log.active.log.path, header.position + 62)
    report = inspect_log(disk, DIRECTORY)
    is_torn = not is_synced and which == -1
    damaged = [] if is_torn else [(header.base_offset, header.next_offset)]
    assert [(each.first_offset, each.next_offset) for each in report.damage] == damaged
    assert bool(report.warnings) is is_torn
    reopen_killed(book)
    if is_synced:
        assert book.recovery.cut_bytes == 0
        assert report.end_offset == book.log.end_offset == 11
