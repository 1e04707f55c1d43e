"""A follower's log is its leader's, byte for byte, and knows of it what the leader does."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from goqueue.log.aborted import is_aborted
from goqueue.log.inspection import END, inspect_log
from goqueue.log.segment import RELATIVE_OFFSET_MAX
from goqueue.model import batch as batches
from goqueue.model.batch import CONTROL, TRANSACTIONAL
from goqueue.model.errors import (
    CorruptBatch,
    DiskFull,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    StorageFailed,
    UnknownLeaderEpoch,
)
from goqueue.model.ids import Epoch, Offset
from goqueue.model.record import Record
from tests.unit.log.logs import check_indexes
from tests.unit.log.replicated_logs import (
    COMPACTED,
    FOLLOWER,
    START,
    Follower,
    History,
    Step,
    chunks_of,
    compactions,
    headers_of,
    histories,
    state_of,
    steps,
)

restarts = st.sampled_from(["", "", "checkpoint", "kill", "power"])
rounds = st.lists(st.tuples(st.integers(1, 6000), st.integers(1, 40), restarts), max_size=12)


def follow(follower: Follower, history: History, some: list[tuple[int, int, str]]) -> None:
    """Copy all there is, with the fetches and restarts given first."""
    for bytes_max, batches_max, restart in some:
        if not follower.fetch(history.log, bytes_max, batches_max):
            break
        follower.restart(restart)
    while follower.fetch(history.log, 1 << 20, 1000):
        pass


@hypothesis_settings(max_examples=60)
@given(histories(steps), rounds, restarts)
@example([("transactional", 1), ("elect", 1), ("abort", 1)], [(1, 1, "kill")], "power")
def test_a_followers_log_is_equal_to_its_leaders(
    some: list[Step], fetches: list[tuple[int, int, str]], restart: str
):
    history, follower = History(), Follower()
    half = len(some) // 2
    history.play(some[:half])
    follow(follower, history, fetches)
    history.play(some[half:])
    follow(follower, history, fetches)
    follower.restart(restart)
    assert state_of(follower.log) == state_of(history.log)
    check_indexes(follower.log)
    follower.checkpoint()
    assert not inspect_log(follower.disk, FOLLOWER).damage


@hypothesis_settings(max_examples=60)
@given(histories(steps | compactions), rounds, restarts)
def test_a_follower_of_a_compacted_log_shows_what_its_leader_does(
    some: list[Step], fetches: list[tuple[int, int, str]], restart: str
):
    """What the leader compacted meanwhile is missing: batches, and what only they told."""
    history, follower = History(COMPACTED), Follower(COMPACTED)
    half = len(some) // 2
    history.play(some[:half])
    follow(follower, history, fetches[:3])
    history.play(some[half:])
    follower = follower if follower.log.end_offset <= history.log.end_offset else Follower()
    follow(follower, history, fetches)
    follower.restart(restart)
    ours = {header.base_offset: header for header in headers_of(follower.log)}
    aborted = follower.log.aborted.between(Offset(0), END)
    theirs_aborted = history.log.aborted.between(Offset(0), END)
    for header in headers_of(history.log):
        mine = ours[header.base_offset]
        if mine.crc == header.crc:
            assert is_aborted(mine, aborted) == is_aborted(header, theirs_aborted)
        assert mine.leader_epoch == header.leader_epoch
        assert follower.log.epochs.epoch_of(header.base_offset) == header.leader_epoch
    for producer in history.log.producers.all():
        mine_too = follower.log.producers.find(producer.producer_id)
        assert mine_too is not None
        assert (mine_too.epoch, mine_too.transaction_start is None) == (
            producer.epoch,
            producer.transaction_start is None,
        )
        assert [each.last_sequence for each in mine_too.batches[-1:]] == [
            each.last_sequence for each in producer.batches[-1:]
        ]
    follower.checkpoint()
    assert not inspect_log(follower.disk, FOLLOWER, is_compacted=True).damage


def some_batches(history: History | None = None) -> tuple[bytearray, list[int]]:
    """The bytes of a log with several epochs, and where batches begin."""
    history = history or History().play(
        [("plain", 3), ("elect", 2), ("transactional", 1), ("plain", 2), ("abort", 1), ("plain", 1)]
    )
    data = bytearray(b"".join(bytes(chunk) for chunk in chunks_of(history.log)))
    return data, [header.position for header in batches.verified_headers(data)]


def flip(data: bytearray, position: int) -> None:
    data[position] ^= 1


def restamp(by: int, epoch: int) -> Callable[[bytearray, int], None]:
    def stamp(data: bytearray, position: int) -> None:
        header = batches.header_at(data, position)
        batches.stamp(data, header, header.base_offset + by, header.leader_epoch + epoch)

    return stamp


@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda data, at: flip(data, at + 70), CorruptBatch),
        (lambda data, at: flip(data, at + 30), CorruptBatch),
        (restamp(-1, 0), OffsetOutOfRange),
        (restamp(1, 0), OffsetOutOfRange),
        (restamp(10**9, 0), OffsetOutOfRange),
        (restamp(0, -10), FencedLeaderEpoch),
        (restamp(0, 10), UnknownLeaderEpoch),
    ],
)
def test_batches_that_do_not_continue_the_log_are_refused_all_together(
    which: int, spoil: Callable[[bytearray, int], None], error: type[Exception]
):
    data, positions = some_batches()
    follower = Follower()
    follower.append(data[: positions[1]], Epoch(2))
    before = state_of(follower.log)
    spoiled = data[positions[1] :]
    spoil(spoiled, positions[1:][which] - positions[1])
    with pytest.raises(error):
        follower.append(spoiled, Epoch(2))
    assert state_of(follower.log) == before
    follower.append(data[positions[1] :], Epoch(2))
    assert follower.log.end_offset == 8


def test_repeated_overlapping_and_unordered_batches_are_refused():
    data, positions = some_batches()
    follower = Follower()
    second = positions[2]
    follower.append(data[:second], Epoch(2))
    before = state_of(follower.log)
    unordered = data[positions[3] : positions[4]] + data[second : positions[3]]
    for refused in (data[:second], data[positions[1] :], data[positions[3] :], unordered):
        with pytest.raises(OffsetOutOfRange):
            follower.append(refused, Epoch(2))
    with pytest.raises(CorruptBatch):  # the end of the last one is missing
        follower.append(data[second:-1], Epoch(2))
    assert state_of(follower.log) == before


def test_a_marker_that_cannot_be_read_is_refused_before_it_is_written():
    data = batches.encode(
        [Record(0, START, b"no", b"marker")],
        attributes=TRANSACTIONAL | CONTROL,
        producer=(1, 0, -1),
    )
    follower = Follower()
    with pytest.raises(CorruptBatch):
        follower.append(data, Epoch(0))
    assert follower.log.end_offset == follower.log.active.size == 0


def test_a_gap_is_taken_where_the_leader_says_it_has_compacted():
    data, positions = some_batches()
    follower = Follower()
    follower.append(data[: positions[1]], Epoch(2))
    gapped = data[positions[2] :]
    with pytest.raises(OffsetOutOfRange):
        follower.append(gapped, Epoch(2))
    follower.log.allow_gaps(Offset(100))
    assert follower.log.needs_checkpoint
    follower.checkpoint()
    follower.append(gapped, Epoch(2))
    for how in ("kill", "checkpoint", "power"):
        follower.restart(how)
        found = [header.base_offset for header in headers_of(follower.log)]
        assert found == [header.base_offset for header in batches.verified_headers(data)][:1] + [
            header.base_offset for header in batches.verified_headers(gapped)
        ]
        follower.checkpoint()


def test_a_gap_of_any_size_is_taken():
    """A compacted log may have lost more records than a segment has numbers for."""
    follower = Follower(COMPACTED)
    far = Offset(3 * RELATIVE_OFFSET_MAX)
    for offset in (far, far + 1, 2 * far):
        data = batches.encode([Record(0, START, b"key", b"value")])
        batches.stamp(data, batches.header_at(data, 0), offset, 0)
        follower.append(data, Epoch(0))
    follower.restart("kill")
    assert [header.base_offset for header in headers_of(follower.log)] == [far, far + 1, 2 * far]
    check_indexes(follower.log)


def test_a_full_disk_leaves_whole_batches_and_the_rest_can_be_fetched_again():
    history = History().play([("plain", 4)] * 12)
    data, _ = some_batches(history)
    follower = Follower()
    follower.disk.fill_up(1500)
    with pytest.raises(DiskFull):
        follower.append(data, Epoch(0))
    assert 0 < follower.log.end_offset < history.log.end_offset
    follower.disk.make_room()
    follow(follower, history, [])
    assert state_of(follower.log) == state_of(history.log)


def test_without_its_entry_in_the_abort_index_the_log_takes_nothing_more():
    data, positions = some_batches()
    follower = Follower()
    follower.append(data[: positions[3]], Epoch(2))
    follower.disk.fail_append("*/aborted")
    with contextlib.suppress(StorageFailed):
        follower.append(data[positions[3] :], Epoch(2))
    assert follower.log.failed is not None
    with pytest.raises(StorageFailed):
        follower.append(data, Epoch(2))
    follower.restart("kill")
    assert len(follower.log.aborted.between(Offset(0), END)) == 1
