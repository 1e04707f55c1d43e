"""One of several replicas that lost what it had synced says so, and gets it back from another."""

import pytest
from msgspec import structs

from goqueue.log import checkpoint, open_log
from goqueue.log.inspection import inspect_log
from goqueue.log.recovery import LOST, LostRange, Recovery
from goqueue.model.batch import BatchHeader
from goqueue.model.ids import Epoch, Offset
from goqueue.testing.sim import SimDisk
from tests.unit.log.logs import check_indexes
from tests.unit.log.replicated_logs import (
    FOLLOWER,
    REPLICA,
    SETTINGS,
    Follower,
    History,
    State,
    Step,
    headers_of,
    state_of,
)

STORY: list[Step] = [
    ("plain", 4),
    ("transactional", 1),
    ("idempotent", 2),
    ("abort", 1),
    ("elect", 1),
    ("plain", 4),
    ("transactional", 3),
    ("transactional", 1),
    ("elect", 2),
    ("plain", 4),
    ("abort", 3),
    ("idempotent", 2),
]
LEADER = History().play(STORY * 3)
HEADERS = headers_of(LEADER.log)


def follower(*, checkpointed: int = 0, watermark: int | None = None) -> Follower:
    """A copy of the leader's log, all synced, with a checkpoint after some of its batches."""
    found = Follower()
    while found.fetch(LEADER.log, 1 << 20, 1):
        if len(headers_of(found.log)) == checkpointed:
            found.checkpoint()
    found.sync()
    found.log.high_watermark = Offset(watermark or 0)
    found.log.store_watermark()
    return found


def state_before(header: BatchHeader) -> State:
    """Of a log that never had this batch and what follows."""
    found = Follower()
    while found.log.end_offset < header.base_offset:
        found.fetch(LEADER.log, 1 << 20, 1)
    return state_of(found.log)


def place_of(found: Follower, header: BatchHeader) -> tuple[str, int]:
    """The file that the batch is in, and where."""
    segment = next(s for s in reversed(found.log.segments) if s.base_offset <= header.base_offset)
    position = segment.surveyed_position(header.base_offset, found.log)
    return segment.log.path, position


def reopen(found: Follower) -> Recovery:
    found.disk = found.disk.kill()
    found.log, recovery = open_log(found.disk, FOLLOWER, SETTINGS, REPLICA)
    return recovery


def lose_from(found: Follower, header: BatchHeader) -> None:
    """The device forgets this batch and all behind it, in this file and later ones."""
    path, position = place_of(found, header)
    for segment in found.log.segments:
        if segment.base_offset > header.base_offset:
            found.disk.remove(segment.log.path)
    found.disk.open(path).truncate(position)


def check_recovered(found: Follower, recovery: Recovery, header: BatchHeader) -> None:
    """It ends before the batch, says what is missing, and gets it back."""
    assert recovery.lost == LostRange(header.base_offset, LEADER.log.end_offset)
    assert any("are missing" in problem for problem in recovery.problems)
    assert state_of(found.log) == state_before(header)
    assert found.log.high_watermark <= header.base_offset
    check_indexes(found.log)
    again = found.disk.crash()
    log, recovery = open_log(again, FOLLOWER, SETTINGS, REPLICA)
    assert recovery.lost is None, "it is told once; whoever is told must act"
    assert state_of(log) == state_of(found.log)
    while found.fetch(LEADER.log, 1 << 20, 100):
        pass
    assert state_of(found.log) == state_of(LEADER.log)
    assert reopen(found).lost is None


@pytest.mark.parametrize("lost", range(1, len(HEADERS), 3))
@pytest.mark.parametrize("checkpointed", [0, 20, len(HEADERS)])
def test_what_the_device_forgot_is_lost_and_fetched_again(checkpointed: int, lost: int):
    found = follower(checkpointed=checkpointed, watermark=HEADERS[lost].base_offset + 1)
    lose_from(found, HEADERS[lost])
    check_recovered(found, reopen(found), HEADERS[lost])


@pytest.mark.parametrize("damaged", [21, 25, len(HEADERS) - 1])
def test_a_damaged_batch_ends_the_log_and_what_followed_is_lost_too(damaged: int):
    found = follower(checkpointed=20)
    path, position = place_of(found, HEADERS[damaged])
    found.disk.flip_bit(path, position + 65)
    check_recovered(found, reopen(found), HEADERS[damaged])


def test_what_lay_behind_the_damage_is_set_aside():
    """No other replica may have it.  The next opening does not take it for a segment."""
    found = follower(checkpointed=1)
    path, position = place_of(found, HEADERS[5])
    found.disk.flip_bit(path, position + 65)
    gone = {
        segment.log.path: segment.log.read(position if segment.log.path == path else 0, 1 << 20)
        for segment in found.log.segments
        if segment.next_offset > HEADERS[5].base_offset
    }
    assert len(gone) > 1
    reopen(found)
    for name, content in gone.items():
        assert found.disk.read_file(name + LOST) == content
    assert not reopen(found).problems
    assert not inspect_log(found.disk, FOLLOWER).damage


def test_the_only_replica_keeps_what_follows_damage():
    found = follower(checkpointed=20)
    path, position = place_of(found, HEADERS[25])
    found.disk.flip_bit(path, position + 65)
    log, recovery = open_log(found.disk.kill(), FOLLOWER, SETTINGS)
    assert recovery.lost is None
    assert log.end_offset == LEADER.log.end_offset


def test_a_torn_end_is_not_lost():
    found = follower(checkpointed=20)
    written = found.log.end_offset
    found.log.active.log.append(b"the start of a batch")
    recovery = reopen(found)
    assert recovery.lost is None
    assert recovery.cut_bytes == 20
    assert found.log.end_offset == written


def test_a_log_that_lost_everything_it_still_had_begins_at_its_start():
    found = follower()
    found.log.high_watermark = LEADER.log.end_offset
    start = HEADERS[-4].base_offset
    removal = found.log.remove_before(start)
    found.log.run_removal(removal)
    disk: SimDisk = found.disk
    for segment in found.log.segments:
        disk.open(segment.log.path).truncate(0)
    recovery = reopen(found)
    assert recovery.lost == LostRange(start, LEADER.log.end_offset)
    assert found.log.start_offset == found.log.end_offset == found.log.high_watermark == start


def test_states_of_before_bound_what_is_read_again():
    """Without them, all of the log is."""
    found = follower(checkpointed=len(HEADERS))
    found.disk.open(found.log.active.log.path).truncate(0)
    recovery = reopen(found)
    assert recovery.lost is not None
    assert recovery.verified_bytes < 2 * SETTINGS.segment_bytes
    found = follower(checkpointed=len(HEADERS))
    saved = checkpoint.load(found.disk, FOLLOWER)
    assert saved is not None
    assert saved.earlier
    checkpoint.store(found.disk, FOLLOWER, structs.replace(saved, earlier=[]))
    found.disk.open(found.log.active.log.path).truncate(0)
    again = reopen(found)
    assert again.lost == recovery.lost
    assert again.verified_bytes > recovery.verified_bytes


def test_the_loss_is_known_by_the_epochs_too():
    """A follower that kept the epoch of a record it lost would hide that its log differs."""
    found = follower(checkpointed=len(HEADERS))
    newest = next(h for h in HEADERS if h.leader_epoch == HEADERS[-1].leader_epoch)
    lose_from(found, newest)
    reopen(found)
    assert found.log.last_epoch == found.log.epochs.latest < newest.leader_epoch
    assert found.log.last_epoch != Epoch(-1)
