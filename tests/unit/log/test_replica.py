"""A log with several replicas remembers how far it is committed, and whose it is."""

from uuid import UUID

import pytest
from msgspec import structs

from goqueue.log import Log, Recovery, checkpoint, open_log
from goqueue.log.inspection import inspect_log
from goqueue.log.replica import FILE, Replica, ReplicaFile
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Offset, TopicId
from goqueue.model.settings import topic_settings
from goqueue.testing.sim import SimDisk
from tests.unit.log.logs import DIRECTORY, Book, settings
from tests.unit.log.transactional_logs import append, batch, mark, write

MINE = Replica(TopicId(UUID(int=7)), 3)
PATH = f"{DIRECTORY}/{FILE}"


def open_replica(disk: SimDisk, replica: Replica | None = MINE) -> Log:
    return reopen(disk, replica)[0]


def reopen(disk: SimDisk, replica: Replica | None = MINE) -> tuple[Log, Recovery]:
    return open_log(disk, DIRECTORY, topic_settings({}), replica)


def write_log(disk: SimDisk, count: int) -> Log:
    """A replica with `count` records, all synced, none of them known to be committed."""
    log = open_replica(disk)
    for number in range(count):
        append(log, batch(1, sequence=number))
    sync(log)
    return log


def sync(log: Log) -> None:
    point = log.sync_point()
    log.run_sync(point)
    log.note_synced(point)


def save(log: Log) -> None:
    point = log.checkpoint_point()
    log.run_checkpoint(point)
    log.note_synced(point.sync)


def test_a_replica_does_not_take_its_end_for_committed():
    disk = SimDisk()
    log = write_log(disk, 10)
    log.high_watermark = Offset(4)
    save(log)
    log = open_replica(disk.kill())
    assert (log.high_watermark, log.synced_offset, log.end_offset) == (4, 10, 10)


def test_the_only_replica_does():
    disk = SimDisk()
    log = write_log(disk, 10)
    log.high_watermark = Offset(4)
    save(log)
    assert open_replica(disk.kill(), None).high_watermark == 10


def test_the_watermark_of_the_last_second_survives_the_process():
    disk = SimDisk()
    log = write_log(disk, 10)
    log.high_watermark = Offset(4)
    save(log)
    log.high_watermark = Offset(7)
    log.store_watermark()
    assert open_replica(disk.kill()).high_watermark == 7


def test_the_watermark_is_kept_at_the_close():
    disk = SimDisk()
    log = write_log(disk, 10)
    log.high_watermark = Offset(9)
    log.close()
    assert open_replica(disk.kill()).high_watermark == 9


def test_a_deleted_log_writes_no_watermark():
    """Another topic may have the directory's name by then."""
    disk = SimDisk()
    log = write_log(disk, 10)
    before = disk.read_file(PATH)
    log.high_watermark = Offset(9)
    log.abandoned = True
    log.close()
    assert disk.read_file(PATH) == before


@pytest.mark.parametrize("fate", range(10))
def test_after_power_loss_the_watermark_may_be_old_but_is_never_ahead(fate: int):
    disk = SimDisk(fate)
    log = write_log(disk, 10)
    log.high_watermark = Offset(4)
    save(log)
    for watermark in (5, 7, 9):
        log.high_watermark = Offset(watermark)
        log.store_watermark()
    log, recovery = reopen(disk.crash(fate))
    assert log.high_watermark in range(4, 10)
    assert not recovery.problems
    assert not recovery.is_new_replica


def test_a_directory_from_before_opens_and_all_of_it_was_committed():
    """Its checkpoint knows no watermark: whoever wrote it was the only replica."""
    disk = SimDisk()
    book = Book(disk, settings())
    book.fill(30)
    book.close()
    saved = checkpoint.load(disk, DIRECTORY)
    assert saved is not None
    checkpoint.store(disk, DIRECTORY, structs.replace(saved, high_watermark=None))
    log, recovery = reopen(disk)
    assert (log.high_watermark, log.end_offset) == (30, 30)
    assert recovery.is_new_replica
    assert not recovery.problems
    log, recovery = reopen(disk)
    assert not recovery.is_new_replica


def test_an_empty_directory_is_a_new_replica_with_nothing_committed():
    log, recovery = reopen(SimDisk())
    assert recovery.is_new_replica
    assert log.high_watermark == log.start_offset == 0


def test_without_checkpoint_and_file_nothing_is_known_to_be_committed():
    disk = SimDisk()
    log = write_log(disk, 10)
    log.high_watermark = Offset(4)
    save(log)
    disk.remove(f"{DIRECTORY}/{checkpoint.FILE}")
    disk.remove(PATH)
    assert open_replica(disk).high_watermark == 0


@pytest.mark.parametrize("position", [0, 10, 30, 42, 47, 53])
def test_a_damaged_file_is_told_and_made_anew_with_the_checkpoint_s_watermark(position: int):
    disk = SimDisk()
    log = write_log(disk, 10)
    log.high_watermark = Offset(4)
    save(log)
    log.high_watermark = Offset(6)
    log.store_watermark()
    disk.flip_bit(PATH, position)
    assert len(inspect_log(disk, DIRECTORY).warnings) == 1
    log, recovery = reopen(disk)
    is_identity = position < 44
    assert log.high_watermark == (6 if is_identity else 4)
    assert bool(recovery.problems) is is_identity
    assert ReplicaFile(disk, DIRECTORY).load() == MINE
    assert not inspect_log(disk, DIRECTORY).warnings


@pytest.mark.parametrize(
    "other",
    [
        Replica(TopicId(UUID(int=8)), 3),
        Replica(MINE.topic_id, 4),
        Replica(None, 3),
        Replica(MINE.topic_id, 3, UUID(int=2)),
    ],
)
def test_the_log_of_another_replica_is_not_opened(other: Replica):
    disk = SimDisk()
    open_replica(disk, structs.replace(MINE, directory_id=UUID(int=1)))
    with pytest.raises(CorruptData, match="is that of topic"):
        open_replica(disk, other)


def test_a_directory_gets_its_id_when_the_data_directory_has_one():
    disk = SimDisk()
    open_replica(disk)
    named = structs.replace(MINE, directory_id=UUID(int=1))
    open_replica(disk, named)
    assert ReplicaFile(disk, DIRECTORY).load() == named


@pytest.mark.parametrize("fate", range(6))
def test_a_watermark_above_the_end_falls_for_good(fate: int):
    """With `flush=interval` power loss may take what was committed.  What is fetched instead is
    not committed because the old watermark says so.
    """
    disk = SimDisk(fate)
    log = write_log(disk, 5)
    save(log)
    for number in range(5, 10):
        append(log, batch(1, sequence=number))
    log.high_watermark = Offset(10)
    log.store_watermark()
    log.active.log.truncate(log.active.size - 10)
    disk = disk.kill()
    assert open_replica(disk).high_watermark == 9
    disk = disk.crash(fate)
    log = open_replica(disk)
    assert log.high_watermark == 9
    append(log, batch(2, sequence=0))
    assert open_replica(disk.kill()).high_watermark == 9


def test_a_transaction_that_ended_above_the_watermark_is_not_stable_after_a_restart():
    disk = SimDisk()
    log = open_replica(disk)
    first = write(log, 1)
    log.high_watermark = log.end_offset
    mark(log, 1, commits=False)
    sync(log)
    log = open_replica(disk.kill())
    assert log.high_watermark <= log.end_offset - 1
    assert log.stable_offset <= first
    log.high_watermark = log.end_offset
    log.producers.settle(log.high_watermark)
    assert log.stable_offset == log.end_offset
