"""Spark's filters as bounds."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from goqueue.spark.source.filters import EVERYTHING, Bounds, bounds_of

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT_MS = 1_767_225_600_000


def bounds(*filters):
    found, left = bounds_of(filters)
    assert left == [], "Spark need not look again"
    return found


def test_places_are_bounds_that_spark_need_not_check():
    assert bounds(EqualTo(("partition",), 3)) == Bounds(partitions=frozenset({3}))
    assert bounds(In(("partition",), (1, 2, None))) == Bounds(partitions=frozenset({1, 2}))
    assert bounds(EqualTo(("topic",), "a")) == Bounds(topics=frozenset({"a"}))
    assert bounds(EqualNullSafe(("offset",), 7)) == Bounds(start=7, end=8)
    assert bounds(GreaterThan(("offset",), 7), LessThanOrEqual(("offset",), 9)) == Bounds(
        start=8, end=10
    )
    assert bounds(GreaterThanOrEqual(("offset",), 7), LessThan(("offset",), 9)) == Bounds(
        start=7, end=9
    )
    assert bounds(IsNotNull(("offset",)), IsNotNull(("partition",))) == EVERYTHING


def test_filters_are_all_to_hold():
    assert bounds(In(("partition",), (1, 2)), In(("partition",), (2, 3))) == Bounds(
        partitions=frozenset({2})
    )
    assert bounds(GreaterThan(("offset",), 7), GreaterThan(("offset",), 9)) == Bounds(start=10)


def test_a_time_bounds_the_start_and_is_checked_again():
    after = GreaterThanOrEqual(("timestamp",), MOMENT)
    assert bounds_of([after]) == (Bounds(timestamp_ms_min=MOMENT_MS), [after])
    naive = GreaterThan(("timestamp",), MOMENT.replace(tzinfo=None))
    assert bounds_of([naive]) == (Bounds(timestamp_ms_min=MOMENT_MS), [naive])
    before = LessThan(("timestamp",), MOMENT)
    assert bounds_of([before]) == (EVERYTHING, [before])


def test_what_cannot_be_bounded_is_left_to_spark():
    filters = [
        Not(EqualTo(("partition",), 3)),
        EqualTo(("value",), b"x"),
        IsNotNull(("key",)),
        IsNull(("offset",)),
        StringStartsWith(("topic",), "o"),
        EqualNullSafe(("partition",), None),
        EqualTo(("headers", "key"), "x"),
        GreaterThan(("partition",), 2),
    ]
    assert bounds_of(filters) == (EVERYTHING, filters)
