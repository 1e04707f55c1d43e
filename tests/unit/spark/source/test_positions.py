"""Positions to offsets."""

import pytest

from goqueue.client.kafka import EARLIEST, LATEST, OffsetFound
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.source.positions import AtOffsets, AtTime, AtTimes, PositionUnknown, resolve

FIRST, SECOND = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("t"), 1)


def list_offsets(wanted):
    """A log from 5 to 100, whose records are as many milliseconds old as their offsets."""
    found = {}
    for where, time in wanted.items():
        if time == EARLIEST:
            found[where] = OffsetFound(5, -1)
        elif time == LATEST:
            found[where] = OffsetFound(100, -1)
        else:
            found[where] = OffsetFound(max(5, time), time) if time < 100 else OffsetFound(-1, -1)
    return found


def resolved(position, beyond_end="error"):
    found = resolve(position, [FIRST, SECOND], list_offsets, beyond_end=beyond_end)
    return [found[FIRST], found[SECOND]]


def test_ends_offsets_and_times():
    assert resolved("earliest") == [5, 5]
    assert resolved("latest") == [100, 100]
    assert resolved(AtOffsets({FIRST: 50, SECOND: -2})) == [50, 5]
    assert resolved(AtOffsets({FIRST: -1, SECOND: 0})) == [100, 0]
    assert resolved(AtTime(60)) == [60, 60]
    assert resolved(AtTimes({FIRST: 0, SECOND: 70})) == [5, 70]


def test_a_time_that_no_record_has_is_an_error_or_the_end():
    with pytest.raises(PositionUnknown, match=r"t-0 has no record of 1970-01-01T00:00:00\.200"):
        resolved(AtTime(200))
    assert resolved(AtTimes({FIRST: 200, SECOND: 50}), "latest") == [100, 50]


def test_offsets_are_given_for_all_partitions_and_no_others():
    with pytest.raises(PositionUnknown, match="none for t-1: name every partition"):
        resolved(AtOffsets({FIRST: 50}))
    with pytest.raises(PositionUnknown, match="for t-2, which is not read"):
        resolved(AtOffsets({FIRST: 1, SECOND: 1, TopicPartition(TopicName("t"), 2): 1}))
