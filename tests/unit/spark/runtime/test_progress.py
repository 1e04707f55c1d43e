"""Spark's reports, added up."""

from typing import Any

import msgspec
import pytest

from goqueue.spark.runtime.progress import Meter, Progress, lag, offset_metrics


def report(batch: int, rows: int, **others: Any) -> dict[str, Any]:
    """As Spark's progress has it, with the fields that count."""
    return {
        "batchId": batch,
        "numInputRows": rows,
        "processedRowsPerSecond": rows / 2,
        "batchDuration": 2000,
        "sources": [],
        **others,
    }


def source(reached: object, latest: object) -> dict[str, Any]:
    def text(each: object) -> str | None:
        return None if each is None else msgspec.json.encode(each).decode()

    return {"endOffset": text(reached), "latestOffset": text(latest)}


def test_a_batch_counts_once_however_often_it_is_seen():
    meter = Meter("totals")
    meter.take([report(0, 10), report(1, 20)])
    meter.take([report(1, 20)])
    meter.take([report(1, 20), report(2, 30)])
    assert meter.progress("running").rows == 60


def test_an_empty_report_before_a_batch_does_not_hide_it():
    """Between batches Spark reports the next one's number, with no rows."""
    meter = Meter("totals")
    meter.take([report(3, 0)])
    meter.take([report(3, 7)])
    assert meter.progress("running").rows == 7


def test_rows_that_are_not_as_expected_add_up_by_expectation():
    meter = Meter("totals")
    first = report(0, 10) | {"observedMetrics": {"expect.large": {"whole": 2, "known": 0}}}
    second = report(1, 5) | {"observedMetrics": {"expect.large": {"whole": 1}, "other": {"n": 7}}}
    meter.take([first, second])
    meter.take([second])
    assert meter.progress("running").unmet == {"large.whole": 3, "large.known": 0}


def test_progress_has_the_newest_numbers():
    meter = Meter("totals")
    assert meter.empty
    assert meter.progress("starting") == Progress("totals", "starting")
    behind = [source({"orders": {"0": 5}}, {"orders": {"0": 9}})]
    event_time = {"watermark": "2026-01-31T12:00:00.000Z"}
    meter.take([report(0, 10), report(1, 30, sources=behind, eventTime=event_time)])
    assert meter.progress("running") == Progress(
        "totals",
        "running",
        rows=40,
        rows_per_second=15.0,
        lag=4,
        lag_max=4,
        batch=1,
        batch_ms=2000,
        watermark="2026-01-31T12:00:00.000Z",
    )


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), None, "NaN"])
def test_a_rate_that_is_none_is_nothing(rate: object):
    meter = Meter("totals")
    meter.take([report(0, 10, processedRowsPerSecond=rate)])
    assert meter.progress("running").rows_per_second == 0


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], None),
        ([source({"a": {"0": 3, "1": 0}}, {"a": {"0": 10, "1": 5}})], 12),
        ([source({"a": {"0": 3}}, {"a": {"0": 3}}), source({"b": {"0": 1}}, {"b": {"0": 2}})], 1),
        ([source({"a": {"0": 3}}, {"a": {"0": 3, "1": 4}})], 4),  # a new partition
        ([source({"a": {"0": 9}}, {"a": {"0": 3}})], 0),  # the end was seen a moment ago
        ([source(None, {"a": {"0": 3}})], None),
        ([source(5, 7)], None),  # another kind of source counts otherwise
        ([source({"a": 5}, {"a": 7})], None),
    ],
)
def test_lag(sources: list[dict[str, Any]], expected: int | None):
    assert lag(sources) == expected


def test_offsets_behind_are_told_as_by_kafkas_connector():
    behind = source({"a": {"0": 3, "1": 0, "2": 9}}, {"a": {"0": 10, "1": 6, "2": 9}})
    other = source(5, 7)
    assert offset_metrics({"sources": [behind, other]}) == [
        {
            "avgOffsetsBehindLatest": str(13 / 3),
            "maxOffsetsBehindLatest": "7",
            "minOffsetsBehindLatest": "0",
        },
        {},
    ]
