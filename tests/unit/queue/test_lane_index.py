"""Where the messages of each lane lie in a partition."""

import random

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.record import Record
from goqueue.queue.lane_index import PRUNE_ENTRIES_MIN, LaneIndex
from goqueue.queue.lanes import LANES, LOW, NORMAL


def test_the_index_finds_each_lane_and_counts_the_rest_as_normal():
    chance = random.Random(1)
    lanes = [chance.randrange(LANES) for _ in range(5_000)]
    index = LaneIndex(0)
    for start in range(0, len(lanes), 100):
        records = [_record(offset, lanes[offset]) for offset in range(start, start + 100)]
        index.note(records, start + 100)
    for lane in range(LANES):
        first, end = 700, 4_200
        assert index.count(lane, first, end) == lanes[first:end].count(lane)
        if lane != NORMAL:
            expected = [o for o in range(first, 5_000) if lanes[o] == lane][:10]
            assert index.between(lane, first, expected[-1] + 1) == set(expected)
            assert index.next(lane, first) == expected[0]
    for offset in range(0, 5_000, 7):
        expected = [o for o in range(offset, min(5_000, offset + 100)) if lanes[o] == NORMAL]
        assert index.next_normal(offset) == (expected[0] if expected else 5_000)
    index.prune(4_900)
    assert index.start == 4_900
    assert index.count(LOW, 4_900, 5_000) == lanes[4_900:].count(LOW)


def test_normal_messages_cost_the_index_nothing():
    index = LaneIndex(0)
    index.note([], 10_000_000)
    assert (index.size, index.count(NORMAL, 0, 10_000_000)) == (0, 10_000_000)


@given(
    lanes=st.lists(st.integers(0, LANES - 1), max_size=40),
    first=st.integers(0, 45),
    end=st.integers(0, 45),
)
def test_the_index_agrees_with_the_list_of_lanes(lanes: list[int], first: int, end: int):
    index = LaneIndex(0)
    index.note([_record(offset, lane) for offset, lane in enumerate(lanes)], len(lanes))
    for lane in range(LANES):
        mine = [offset for offset, each in enumerate(lanes) if each == lane]
        assert index.noted[lane] == len(mine)
        if lane == NORMAL:
            after = [offset for offset in mine if offset >= first]
            expected = after[0] if after else max(first, len(lanes))
            assert index.next_normal(first) == min(expected, len(lanes))
            continue
        assert index.count(lane, first, end) == sum(first <= each < end for each in mine)
        assert index.next(lane, first) == next((each for each in mine if each >= first), None)
        assert index.between(lane, first, end) == {each for each in mine if first <= each < end}
    special = {
        offset for offset, lane in enumerate(lanes) if lane != NORMAL and first <= offset < end
    }
    assert index.others(first, end) == special


def test_what_was_noted_before_is_not_noted_again():
    index = LaneIndex(10)
    records = [_record(offset, LOW) for offset in range(8, 14)]
    index.note(records, 12)
    index.note(records, 14)
    index.note(records, 11)
    assert (index.start, index.end, index.size) == (10, 14, 6)
    assert index.noted[LOW] == 6


def test_the_first_header_names_the_lane():
    record = Record(0, 0, None, b"", (("gq-priority", b"low"), ("gq-priority", b"high")))
    index = LaneIndex(0)
    index.note([record], 1)
    assert index.next(LOW, 0) == 0
    assert index.size == 1


def test_the_index_forgets_when_that_is_worth_it():
    index = LaneIndex(0)
    index.note([_record(offset, LOW) for offset in range(10_000)], 10_000)
    index.prune(PRUNE_ENTRIES_MIN - 1)
    assert index.size == 10_000, "too few"
    index.prune(4_999)
    assert index.size == 10_000, "less than half"
    index.prune(5_000)
    assert (index.size, index.start) == (5_000, 5_000)
    assert index.next(LOW, 0) == 5_000
    index.prune(10)
    assert index.start == 5_000, "it never goes back"
    index.prune(20_000)
    assert (index.start, index.size) == (10_000, 0)


def test_as_many_entries_as_are_worth_it_are_forgotten():
    index = LaneIndex(0)
    index.note([_record(offset, LOW) for offset in range(PRUNE_ENTRIES_MIN)], PRUNE_ENTRIES_MIN)
    index.prune(PRUNE_ENTRIES_MIN)
    assert index.size == 0


def _record(offset: int, lane: int) -> Record:
    headers = () if lane == NORMAL else (("gq-priority", str(lane).encode()),)
    return Record(offset, 0, None, b"", headers)
