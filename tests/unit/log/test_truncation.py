"""A log that was cut is one that never had the rest, whenever the power goes."""

import contextlib
import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from goqueue.log import Log, checkpoint, open_log, truncation
from goqueue.log.inspection import inspect_log
from goqueue.log.truncation import Cut
from goqueue.model.errors import CorruptData, DiskFull, OffsetOutOfRange
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.runtime import Disk, RealDisk
from goqueue.testing.sim import Moment, SimCrash, SimDisk
from tests.unit.log.logs import check_indexes
from tests.unit.log.replicated_logs import (
    COMPACTED,
    LEADER,
    REPLICA,
    SETTINGS,
    Follower,
    History,
    State,
    Step,
    chunks_of,
    commits,
    compactions,
    headers_of,
    histories,
    restarts,
    state_of,
    steps,
)


def truncate(disk: Disk, log: Log, offset: int, *, unclean: bool = False) -> None:
    """All steps, as the owner of a log takes them."""
    point = log.checkpoint_point()
    announced = truncation.announce_truncation(disk, log, point, Offset(offset), unclean=unclean)
    carry_out(disk, log, announced)


def reset(disk: Disk, log: Log, start: int, *, unclean: bool = False) -> None:
    point = log.checkpoint_point()
    announced = truncation.announce_reset(disk, log, point, Offset(start), unclean=unclean)
    carry_out(disk, log, announced)


def carry_out(disk: Disk, log: Log, announced: Cut) -> None:
    removed = truncation.cut(disk, log, announced)
    truncation.finish(disk, log, announced, removed)


# --- equal to a log that never had the rest -----------------------------------------------------


def play(history: History, some: list[Step], kept: int) -> None:
    """Nothing of the rest is committed."""
    for number, step in enumerate(some):
        if number < kept or step[0] not in ("commit all", "compact"):
            history.do(step)


@hypothesis_settings(max_examples=60)
@given(
    histories(steps | restarts | commits | compactions),
    st.floats(0, 1),
    st.integers(0, 3),
    st.sampled_from(["", "kill", "power", "checkpoint"]),
    st.booleans(),
)
def test_a_truncated_log_is_one_that_never_had_the_rest(
    some: list[Step], share: float, inside: int, restart: str, is_compacted: bool
):
    chosen = COMPACTED if is_compacted else SETTINGS
    kept = round(share * len(some))
    reference, history = History(chosen), History(chosen)
    play(reference, some[:kept], kept)
    play(history, some, kept)
    end = reference.log.end_offset
    if end == history.log.end_offset:
        return
    tail = next(header for header in headers_of(history.log) if header.base_offset >= end)
    truncate(history.disk, history.log, end + min(inside, tail.last_offset_delta))
    history.restart(restart)
    assert state_of(history.log) == state_of(reference.log)
    assert history.log.high_watermark <= reference.log.high_watermark  # restarts forget some
    for log in (history.log, reference.log):
        log.producers.settle(reference.log.high_watermark)
    assert history.log.producers.first_unstable() == reference.log.producers.first_unstable()
    check_indexes(history.log)
    assert not inspect_log(history.disk, LEADER, is_compacted=is_compacted).damage

    continued = [("transactional", 1), ("idempotent", 2), ("plain", 2), ("abort", 1)]
    both = copy.copy(reference)  # its counters go on for both logs
    both.disk, both.log = history.disk, history.log
    both._chance = copy.deepcopy(reference._chance)
    both._sequences = dict(reference._sequences)
    both.play([*continued, ("restart", 1)])
    reference.play(continued)
    assert state_of(both.log) == state_of(reference.log)


# --- power loss and kill at every operation -----------------------------------------------------

KEPT: list[Step] = [
    ("plain", 4),
    ("transactional", 1),
    ("idempotent", 2),
    ("abort", 1),
    ("elect", 1),
    ("plain", 4),
    ("commit all", 0),
    ("transactional", 3),
    ("plain", 4),
    ("idempotent", 2),
    ("idempotent", 2),
]
REST: list[Step] = [
    ("elect", 1),
    ("transactional", 1),
    *[("plain", 4)] * 6,
    ("abort", 1),
    ("abort", 3),
    ("elect", 2),
    ("idempotent", 2),
    ("restart", 0),
    *[("plain", 3)] * 3,
]


def cut_history(disk: SimDisk, log: Log) -> None:
    truncate(disk, log, CUT.end_offset)


def reset_history(disk: SimDisk, log: Log) -> None:
    reset(disk, log, 1000)


def state_now(log: Log) -> State:
    return state_of(log, times=False)


def write_history() -> History:
    history = History().play(KEPT)
    play(history, REST, 0)
    history.sync()
    return history


def state_after(work: Callable[[SimDisk, Log], None]) -> State:
    history = write_history()
    work(history.disk, history.log)
    return state_now(history.log)


WHOLE = state_now(write_history().log)
CUT = state_now(History().play(KEPT).log)
STORIES = {"truncated": (cut_history, CUT), "reset": (reset_history, state_after(reset_history))}


def test_the_stories_cut_a_segment_in_the_middle_and_remove_others():
    bases = [segment.base_offset for segment in write_history().log.segments]
    assert CUT.end_offset not in bases
    assert bases[1] < CUT.end_offset < bases[-2]


def operations(work: Callable[[SimDisk, Log], None]) -> range:
    history = write_history()
    first = history.disk.operations
    work(history.disk, history.log)
    return range(first + 1, history.disk.operations + 1)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("ending", ["kill", "power loss"])
def test_a_crash_at_any_moment_leaves_the_old_log_or_the_new_one(story: str, ending: str):
    work, after = STORIES[story]
    found = set()
    for operation in operations(work):
        for moment in (Moment.MIDDLE, Moment.AFTER):  # before it, it is after the one before
            history = write_history()
            history.disk.crash_at(operation, moment)
            with contextlib.suppress(SimCrash):
                work(history.disk, history.log)
            disk = history.disk
            survivor = disk.kill() if ending == "kill" else disk.crash(holes=operation % 2 == 0)
            log, recovery = open_log(survivor, LEADER, SETTINGS, REPLICA)
            assert not recovery.problems, disk._dying
            state = state_now(log)
            assert state in (WHOLE, after), disk._dying
            assert log.high_watermark == (1000 if state == after != CUT else 12)
            found.add(state == after)
            if moment is Moment.AFTER:
                _check_goes_on(survivor, log, state)
    assert found == {True, False}


def _check_goes_on(disk: SimDisk, log: Log, state: State) -> None:
    """It is as it is, also for the next process, and can be written to."""
    history = History()
    history.disk, history.log = disk, log
    assert state_now(history.reopen()) == state
    history.epoch = Epoch(9)
    history.log = history.reopen()
    history.play([("plain", 3)] * 8)
    appended = state_now(history.log)
    assert appended.content.startswith(state.content)
    assert appended.epochs == [*state.epochs, (9, state.end_offset)]
    history.restart("power")
    assert state_now(history.log) == appended
    check_indexes(history.log)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("fate", range(6))
def test_once_it_is_done_the_rest_does_not_come_back(story: str, fate: int):
    work, after = STORIES[story]
    history = write_history()
    work(history.disk, history.log)
    log, recovery = open_log(history.disk.crash(fate), LEADER, SETTINGS, REPLICA)
    assert not recovery.problems
    assert state_now(log) == after


@pytest.mark.parametrize("fate", range(6))
def test_an_old_mark_does_not_come_back_with_the_next_power_loss(fate: int):
    """It spoke of more than is left: recovery would miss what was cut away."""
    history = write_history()
    history.disk._seed = fate
    cut_history(history.disk, history.log)
    history.play([("plain", 1)])
    disk = history.disk.crash(fate)
    log, recovery = open_log(disk, LEADER, SETTINGS, REPLICA)
    assert "missing" not in " ".join(recovery.problems)  # at most there is a torn end
    assert state_now(log).content.startswith(CUT.content)


# --- what it costs ------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", ["", "checkpoint", "kill"])
def test_no_more_than_one_segment_is_read(restart: str):
    history = History().play([("idempotent", 1), ("transactional", 2)] * 20)
    history.play([("commit all", 0), ("plain", 4), ("idempotent", 1), ("plain", 4)])
    history.restart("checkpoint" if restart else "")
    history.restart(restart)
    last = history.log.segments[-2:]
    assert len(history.log.segments) > 4
    for segment in history.log.segments:
        if segment not in last:
            history.disk.fail_read(segment.log.path, times=None)
    reads = [segment for segment in last if segment.next_offset > history.log.high_watermark]
    assert len(reads) in (1, 2)
    truncate(history.disk, history.log, history.log.high_watermark + 1)


# --- what is refused ----------------------------------------------------------------------------


def test_committed_records_are_cut_only_by_a_caller_who_says_so():
    history = write_history()
    log, before = history.log, state_of(history.log)
    point = log.checkpoint_point()
    with pytest.raises(OffsetOutOfRange, match="records below 12 are committed"):
        truncation.announce_truncation(history.disk, log, point, Offset(11))
    with pytest.raises(OffsetOutOfRange, match="records below 12 are committed"):
        truncation.announce_reset(history.disk, log, point, Offset(11))
    log.put_back(point)
    assert state_of(log) == before
    truncate(history.disk, log, 11, unclean=True)
    assert log.high_watermark == log.end_offset == 8
    history.restart("kill")
    assert history.log.high_watermark == history.log.end_offset == 8
    truncate(history.disk, history.log, 0, unclean=True)
    assert (history.log.high_watermark, history.log.end_offset) == (0, 0)
    history.restart("power")
    assert state_of(history.log) == state_of(History().log)


def test_a_watermark_that_fell_does_not_come_back():
    history = write_history()
    history.log.store_watermark()
    truncate(history.disk, history.log, 8, unclean=True)
    history.play([("plain", 4)] * 4)
    history.restart("power")
    assert history.log.high_watermark == 8


def test_a_full_disk_leaves_the_log_as_it_was():
    history = write_history()
    before = state_of(history.log)
    point = history.log.checkpoint_point()
    history.disk.fill_up()
    with pytest.raises(DiskFull):
        truncation.announce_truncation(history.disk, history.log, point, CUT.end_offset)
    history.log.put_back(point)
    history.disk.make_room()
    assert state_of(history.log) == before
    history.play([("plain", 2)])
    history.restart("kill")
    assert state_of(history.log).content.startswith(before.content)


def test_damage_below_the_cut_is_told_and_nothing_is_cut():
    history = write_history()
    segment = next(s for s in reversed(history.log.segments) if s.base_offset < CUT.end_offset)
    history.disk.flip_bit(segment.log.path, 70)
    point = history.log.checkpoint_point()
    with pytest.raises(CorruptData, match="damaged batch at position 0"):
        truncation.announce_truncation(history.disk, history.log, point, CUT.end_offset)
    saved = checkpoint.load(history.disk, LEADER)
    assert saved is not None
    assert not saved.is_cut


# --- on a real disk -----------------------------------------------------------------------------


def test_a_real_file_is_cut_and_written_on(tmp_path: Path):
    directory = str(tmp_path / "log")
    reference = History().play(KEPT)
    history = write_history()
    content = b"".join(bytes(chunk) for chunk in chunks_of(history.log))
    with contextlib.closing(RealDisk()) as disk:
        log, _ = open_log(disk, directory, SETTINGS, REPLICA)
        log.append_as_follower(content, leader_epoch=Epoch(9), now=Timestamp(1))
        truncate(disk, log, CUT.end_offset)
        assert state_of(log) == state_of(reference.log)
        reference.epoch = Epoch(9)
        reference.play([("plain", 3)] * 8)
        rest = b"".join(bytes(chunk) for chunk in chunks_of(reference.log))[len(CUT.content) :]
        log.append_as_follower(rest, leader_epoch=Epoch(9), now=Timestamp(1))
        assert state_of(log) == state_of(reference.log)
        log.close()
    with contextlib.closing(RealDisk()) as disk:
        log, recovery = open_log(disk, directory, SETTINGS, REPLICA)
        assert not recovery.problems
        assert state_of(log) == state_of(reference.log)
        reset(disk, log, 500)
        assert sorted(path.name for path in (tmp_path / "log").glob("*.log")) == [f"{500:020d}.log"]


# --- readers ------------------------------------------------------------------------------------


def test_readers_go_on_below_the_cut():
    history = write_history()
    log, limit = history.log, history.log.high_watermark
    before = log.read_cached(Offset(0), 300, limit)
    assert before is not None
    cut_history(history.disk, log)
    after = log.read_cached(before.next_offset, 1 << 20, limit)
    assert after is not None
    content = bytes(before.data) + bytes(after.data)
    assert CUT.content.startswith(content)
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(CUT.end_offset + 1), 100, Offset(100))


# --- beginning anew -----------------------------------------------------------------------------


def test_a_follower_below_its_leaders_start_begins_there():
    history = History().play([("plain", 4), ("transactional", 1), ("abort", 1), ("plain", 3)] * 10)
    follower = Follower()
    while follower.fetch(history.log, 500, 3) and follower.log.end_offset < 30:
        pass
    start = next(h.base_offset for h in headers_of(history.log) if h.base_offset > 60)
    reset(follower.disk, follower.log, start)
    assert follower.log.start_offset == follower.log.end_offset == start
    assert follower.log.high_watermark == start
    assert follower.log.epochs.entries == []
    follower.restart("kill")
    while follower.fetch(history.log, 500, 3):
        pass
    follower.restart("power")
    theirs = b"".join(bytes(chunk) for chunk in chunks_of(history.log))
    ours = b"".join(bytes(chunk) for chunk in chunks_of(follower.log))
    assert ours
    assert theirs.endswith(ours)
    assert follower.log.start_offset == start


def test_an_empty_log_may_begin_in_the_middle_of_nothing():
    """A leader's start may lie inside a batch: what it sends begins below the offset asked for."""
    follower = Follower()
    reset(follower.disk, follower.log, 100)
    reset(follower.disk, follower.log, 95)
    follower.restart("kill")
    assert follower.log.start_offset == follower.log.end_offset == 95
    assert [segment.base_offset for segment in follower.log.segments] == [95]
