"""Where the messages of each lane lie in a partition."""

import random

from goqueue.model.record import Record
from goqueue.queue.lane_index import LaneIndex
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


def _record(offset: int, lane: int) -> Record:
    headers = () if lane == NORMAL else (("gq-priority", str(lane).encode()),)
    return Record(offset, 0, None, b"", headers)
