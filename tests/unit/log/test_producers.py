"""Sequences, epochs and the stable offset: what a log knows of its producers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import Log, producers
from goqueue.log.producers import (
    BATCHES_KEPT,
    EXPIRY_MS,
    KEYED_PRODUCER_MIN,
    SEQUENCE_MAX,
    Producers,
)
from goqueue.model.batch import decode_all, header_at
from goqueue.model.errors import (
    DiskFull,
    InvalidProducerEpoch,
    InvalidRecord,
    OutOfOrderSequence,
)
from goqueue.model.ids import PRODUCER_EPOCH_MAX, Offset, Timestamp
from goqueue.model.markers import Marker
from goqueue.model.partial_batch import without_records
from goqueue.testing.sim.disk import SimDisk
from tests.unit.log.transactional_logs import (
    NOW,
    append,
    batch,
    mark,
    opened,
    show_all,
    write,
)


@pytest.fixture
def log():
    return opened(SimDisk(1))


# --- repeats and gaps -------------------------------------------------------------------------


def test_a_repeat_is_answered_with_the_first_ones_offsets(log):
    append(log, batch(7, sequence=0, count=3))
    first = append(log, batch(7, sequence=3, count=2))
    append(log, batch(7, sequence=5))
    again = append(log, batch(7, sequence=3, count=2))
    assert again.is_repeat
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
    assert log.end_offset == 6


def test_batches_without_some_or_all_of_their_records_keep_the_sequence_whole():
    disk = SimDisk(1)
    log = opened(disk)
    for sequence, places in ((0, {1}), (3, {0, 1, 2}), (6, set())):
        data = batch(7, sequence=sequence, count=3)
        append(log, without_records(data, header_at(data, 0), places))
    log.run_sync(log.sync_point())
    log = opened(disk)  # recovery reads them again
    assert log.end_offset == 9
    for sequence in (0, 3, 6):
        data = batch(7, sequence=sequence, count=3)
        found = log.find_repeat([header_at(data, 0)])
        assert found is not None
        assert found.first_offset == sequence
    assert offsets(log, 0) == [0, 2, 6, 7, 8]
    assert offsets(log, 3) == [6, 7, 8]


def offsets(log: Log, first: int) -> list[int]:
    chunk = log.read(Offset(first), 10_000, log.end_offset)
    return [each.offset for each in decode_all(chunk.data)]


def test_the_last_five_batches_are_known_and_no_more(log):
    for sequence in range(BATCHES_KEPT + 1):
        append(log, batch(7, sequence=sequence))
    for sequence in range(1, BATCHES_KEPT + 1):
        assert append(log, batch(7, sequence=sequence)).first_offset == sequence
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(7, sequence=0))


def test_a_gap_is_refused_and_so_is_half_a_repeat(log):
    append(log, batch(7, sequence=0, count=4))
    for sequence, count in ((5, 1), (0, 3), (2, 2), (3, 5)):
        with pytest.raises(OutOfOrderSequence):
            append(log, batch(7, sequence=sequence, count=count))
    assert log.end_offset == 4


def test_sequences_wrap(log):
    append(log, batch(7, sequence=SEQUENCE_MAX - 1, count=4))  # a producer unknown here
    assert append(log, batch(7, sequence=2)).first_offset == 4
    assert append(log, batch(7, sequence=SEQUENCE_MAX - 1, count=4)).is_repeat


def test_producers_do_not_disturb_each_other(log):
    append(log, batch(7, sequence=0))
    append(log, batch(8, sequence=0))
    append(log, batch(7, sequence=1))
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(8, sequence=2))


def test_two_batches_of_a_producer_in_one_request_are_refused(log):
    with pytest.raises(InvalidRecord):
        append(log, batch(7, sequence=0) + batch(7, sequence=1))


def test_a_refused_append_leaves_the_sequence_where_it_was():
    disk = SimDisk(1)
    log = opened(disk)
    append(log, batch(7, sequence=0))
    disk.fill_up()
    with pytest.raises(DiskFull):
        append(log, batch(7, sequence=1))
    disk.make_room()
    assert not append(log, batch(7, sequence=1)).is_repeat


# --- epochs -----------------------------------------------------------------------------------


def test_an_old_epoch_is_refused_and_a_new_one_starts_at_zero(log):
    append(log, batch(7, epoch=1, sequence=0))
    with pytest.raises(InvalidProducerEpoch):
        append(log, batch(7, epoch=0, sequence=1))
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(7, epoch=2, sequence=1))
    assert not append(log, batch(7, epoch=2, sequence=0)).is_repeat


def test_after_a_marker_with_a_new_epoch_the_sequence_starts_at_zero(log):
    """Or the second batch of a transaction could be written before its first."""
    write(log, 7, epoch=0, sequence=0)
    mark(log, 7, epoch=1, commits=True)
    with pytest.raises(InvalidProducerEpoch):
        write(log, 7, epoch=0, sequence=1)
    with pytest.raises(OutOfOrderSequence):
        write(log, 7, epoch=1, sequence=1)
    write(log, 7, epoch=1, sequence=0)


def test_a_marker_of_the_same_epoch_leaves_the_sequence(log):
    write(log, 7, sequence=0)
    mark(log, 7, commits=True)
    with pytest.raises(OutOfOrderSequence):
        write(log, 7, sequence=2)
    write(log, 7, sequence=1)


def test_a_marker_of_an_old_epoch_is_refused(log):
    write(log, 7, epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        mark(log, 7, epoch=2, commits=True)


def test_what_is_not_transactional_is_refused_within_a_transaction(log):
    write(log, 7, sequence=0)
    with pytest.raises(InvalidRecord):
        append(log, batch(7, sequence=1))


def test_a_transactional_batch_has_a_producer(log):
    with pytest.raises(InvalidRecord):
        append(log, batch(-1, -1, -1, transactional=True))


# --- the stable offset ------------------------------------------------------------------------


def test_the_stable_offset_waits_for_the_oldest_transaction(log):
    append(log, batch(1))
    write(log, 7)
    write(log, 8)
    append(log, batch(1, sequence=1))
    show_all(log)
    assert (log.stable_offset, log.high_watermark) == (1, 4)
    mark(log, 8, commits=True)
    show_all(log)
    assert log.stable_offset == 1
    mark(log, 7, commits=False)
    assert log.stable_offset == 1, "the marker is written but not visible"
    show_all(log)
    assert log.stable_offset == log.high_watermark == 6


def test_a_second_marker_changes_nothing(log):
    write(log, 7)
    mark(log, 7, commits=False)
    mark(log, 7, commits=False)
    show_all(log)
    assert log.stable_offset == log.high_watermark
    assert log.aborted.count == 1


# --- expiry -----------------------------------------------------------------------------------


def later(milliseconds: int) -> Timestamp:
    return Timestamp(NOW + milliseconds)


def test_a_silent_producer_is_forgotten_after_a_day_and_may_go_on(log):
    append(log, batch(7, sequence=0, count=10))
    assert log.producers.expire(later(EXPIRY_MS)) == 0
    assert log.producers.expire(later(EXPIRY_MS + 1)) == 1
    assert not append(log, batch(7, sequence=10)).is_repeat


def test_old_timestamps_of_records_do_not_make_a_producer_silent(log):
    append(log, batch(7, sequence=0, timestamp=1))
    assert log.producers.expire(later(1000)) == 0
    assert append(log, batch(7, sequence=0, timestamp=1)).is_repeat


def test_an_open_transaction_keeps_its_producer(log):
    write(log, 7)
    assert log.producers.expire(later(10 * EXPIRY_MS)) == 0
    assert log.stable_offset == 0


def test_after_a_restart_a_producer_has_its_day_from_then_on():
    disk = SimDisk(1)
    append(opened(disk), batch(7, sequence=0))
    log = opened(disk.kill())
    assert log.producers.expire(later(5 * EXPIRY_MS)) == 0
    assert log.producers.expire(later(6 * EXPIRY_MS + 1)) == 1


def test_a_clock_that_was_set_back_does_not_keep_producers_for_ever():
    producers = Producers()
    marker = Marker(7, 0, coordinator_epoch=0, commits=True)
    producers.end_transaction(marker, Offset(0), now=later(100 * EXPIRY_MS))
    assert producers.expire(later(0)) == 0
    assert producers.expire(later(EXPIRY_MS + 1)) == 1


@pytest.mark.parametrize("commits", [True, False])
def test_a_producer_whose_last_epoch_has_ended_is_forgotten_at_once(commits):
    disk = SimDisk(1)
    log = opened(disk)
    write(log, 7, count=3)
    mark(log, 7, PRODUCER_EPOCH_MAX, commits=commits)
    assert log.producers.find(7) is None
    assert log.stable_offset == 0, "its marker is not visible yet"
    mark(log, 7, PRODUCER_EPOCH_MAX, commits=commits)  # once more, after a crash
    show_all(log)
    assert log.producers.all() == []
    assert log.stable_offset == log.end_offset == 5
    before = list_known(log)
    log = opened(disk.kill())
    assert list_known(log) == before
    assert bool(log.aborted.between(Offset(0), log.end_offset)) is not commits


# --- the same, from the log -------------------------------------------------------------------


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.just("plain"), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("abort"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("show"), st.just(0), st.just(0)),
        st.tuples(st.just("checkpoint"), st.just(0), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


class Writers:
    """Producers that do everything right, one of each id."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def data(self, producer_id: int, count: int, *, transactional: bool) -> bytearray:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + count
        return batch(
            producer_id,
            self.epochs.get(producer_id, 0),
            sequence,
            count,
            transactional=transactional,
        )

    def bump(self, producer_id: int) -> None:
        self.epochs[producer_id] = self.epochs.get(producer_id, 0) + 1
        self.sequences[producer_id] = 0


def list_known(log: Log) -> tuple:
    """Everything but when producers were seen, which is not in the log."""
    producers = sorted(
        (each.producer_id, each.epoch, each.batches, each.transaction_start, each.coordinator_epoch)
        for each in log.producers.all()
    )
    return producers, log.aborted.between(Offset(0), log.end_offset), log.stable_offset


@given(STEPS)
def test_recovery_knows_what_the_log_knew(steps):
    disk = SimDisk(1)
    log, writers, stable = opened(disk), Writers(), 0
    for step, producer_id, choice in steps:
        match step:
            case "write":
                append(log, writers.data(producer_id, choice, transactional=True))
                writers.open.add(producer_id)
            case "plain" if producer_id not in writers.open:
                append(log, writers.data(producer_id, choice, transactional=False))
            case "commit" | "abort":
                if choice:
                    writers.bump(producer_id)
                epoch = writers.epochs.get(producer_id, 0)
                mark(log, producer_id, epoch, commits=step == "commit")
                writers.open.discard(producer_id)
            case "show":
                show_all(log)
            case "checkpoint":
                log.run_checkpoint(log.checkpoint_point())
            case "restart":
                show_all(log)
                before = list_known(log)
                disk = disk.kill()
                log = opened(disk)
                assert list_known(log) == before
            case _:
                pass
        assert log.stable_offset >= stable, "it only rises"
        stable = log.stable_offset
        for each in writers.open:
            assert log.producers.open_transactions[each] >= stable


# --- idempotency keys -------------------------------------------------------------------------


def test_only_the_newest_keyed_producers_are_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(producers, "KEYED_PRODUCERS_MAX", 3)
    log = opened(SimDisk(1))
    append(log, batch(7, sequence=0))
    for number in range(5):
        append(log, batch(KEYED_PRODUCER_MIN + number, sequence=number * 100))
    assert [each.producer_id - KEYED_PRODUCER_MIN for each in log.producers.all()[1:]] == [2, 3, 4]
    assert log.producers.find(7) is not None
    assert append(log, batch(KEYED_PRODUCER_MIN + 2, sequence=200)).is_repeat
    assert not append(log, batch(KEYED_PRODUCER_MIN, sequence=0)).is_repeat
    known = [each.producer_id for each in log.producers.all()]
    assert [each.producer_id for each in Producers(log.producers.all()).all()] == known


def test_keyed_producers_from_a_checkpoint_go_in_the_same_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(producers, "KEYED_PRODUCERS_MAX", 3)
    log = opened(SimDisk(1))
    for number in range(3):
        append(log, batch(KEYED_PRODUCER_MIN + number, sequence=0))
    log.producers = Producers(*log.producers.snapshot())
    append(log, batch(KEYED_PRODUCER_MIN + 9, sequence=0))
    assert [each.producer_id - KEYED_PRODUCER_MIN for each in log.producers.all()] == [1, 2, 9]
