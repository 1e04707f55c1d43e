"""How far a job is: what Spark reports about a query, as the few numbers that people ask for.

`Meter` adds a query's reports up.  Spark keeps the last hundred reports of a query; a meter is
shown all of them now and then, and takes the ones that it has not seen.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

State = Literal["starting", "running", "waiting", "parked", "finished", "stopped", "failed"]
OBSERVED: Final = "expect."  # begins the names of metrics that count unmet expectations
ENDED: Final = frozenset({"finished", "stopped", "failed"})


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """One query, or one batch job, as of now."""

    name: str
    state: State
    rows: int = 0
    """Read since this run began."""
    rows_per_second: float = 0.0
    """How fast the newest micro-batches were processed."""
    lag: int | None = None
    """Messages that are there and not yet read; None when the source does not tell."""
    lag_max: int | None = None
    """Of the partition that is furthest behind."""
    lag_ms: int | None = None
    """What is not yet read came within this time: so long ago everything was read."""
    batch: int | None = None
    batch_ms: int | None = None
    watermark: str | None = None
    state_rows: int | None = None
    """Kept for windows, joins and de-duplication."""
    late_rows: int | None = None
    """Since this run began: rows that came after the watermark and were dropped."""
    unmet: dict[str, int] = {}
    """Rows since this run began that were not as a pipeline expects, by VIEW.EXPECTATION."""
    tasks: int | None = None
    """Of a batch job: how many there are in the stages known so far."""
    tasks_done: int | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class Meter:
    """Adds up what a query reports."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = 0
        self.newest = -1  # the last batch whose rows were added
        self.unmet: dict[str, int] = {}
        self._late_rows = 0
        self._caught_up_ms: int | None = None  # when nothing was left to read
        self._last: Mapping[str, Any] | None = None

    @property
    def empty(self) -> bool:
        return self._last is None

    @property
    def sources(self) -> Sequence[Mapping[str, Any]]:
        """Of the newest report: what each has read."""
        return () if self._last is None else self._last.get("sources") or ()

    def take(self, reports: Sequence[Mapping[str, Any]]) -> None:
        for report in reports:
            batch, rows = report["batchId"], report["numInputRows"]
            if batch > self.newest and rows:
                self.newest = batch
                self.rows += rows
                self._count_unmet(report.get("observedMetrics") or {})
                self._late_rows += _late_rows(report)
            if self._caught_up_ms is None or not lag(report.get("sources") or ()):
                self._caught_up_ms = _moment(report.get("timestamp"))
            self._last = report

    def _count_unmet(self, observed: Mapping[str, Any]) -> None:
        for name, counts in observed.items():
            if not name.startswith(OBSERVED):
                continue
            found = counts.asDict() if hasattr(counts, "asDict") else counts
            for expectation, count in found.items():
                which = f"{name.removeprefix(OBSERVED)}.{expectation}"
                self.unmet[which] = self.unmet.get(which, 0) + (count or 0)

    def progress(self, state: State, now_ms: int | None = None) -> Progress:
        if self._last is None:
            return Progress(self.name, state)
        last = self._last
        sources, states = last.get("sources") or (), last.get("stateOperators") or ()
        return Progress(
            self.name,
            state,
            rows=self.rows,
            rows_per_second=round(_number(last.get("processedRowsPerSecond")), 1),
            lag=lag(sources),
            lag_max=lag_max(sources),
            lag_ms=self._lag_ms(state, lag(sources), now_ms),
            batch=last["batchId"],
            batch_ms=last.get("batchDuration"),
            watermark=(last.get("eventTime") or {}).get("watermark"),
            state_rows=sum(each["numRowsTotal"] for each in states) if states else None,
            late_rows=self._late_rows if states else None,
            unmet=dict(self.unmet),
        )

    def _lag_ms(self, state: State, lag: int | None, now_ms: int | None) -> int | None:
        """A batch that is under way reads what came since the last report."""
        if now_ms is None or lag is None or self._caught_up_ms is None:
            return None
        is_behind = lag > 0 or state == "running"
        return max(0, now_ms - self._caught_up_ms) if is_behind else 0


def _late_rows(report: Mapping[str, Any]) -> int:
    operators = report.get("stateOperators") or ()
    return sum(each.get("numRowsDroppedByWatermark", 0) for each in operators)


def _moment(text: str | None) -> int | None:
    """When a trigger began, as Spark writes it."""
    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)


def lag(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """Messages between what was read and the newest, over all partitions of all sources."""
    behind = [each for each in map(_behind, sources) if each is not None]
    return sum(map(sum, behind)) if behind else None


def lag_max(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """The same of the partition that has the most."""
    behind = [each for each in map(_behind, sources) if each is not None]
    return max((lag for each in behind for lag in each), default=None)


def offset_metrics(progress: Mapping[str, Any]) -> list[dict[str, str]]:
    """For each source of a query's progress what Kafka's connector has in its `metrics`.

    Spark asks a source that is written in Python for no metrics, so they are worked out from what
    the progress says.  Empty for a source of another kind.
    """
    return [_metrics(_behind(source)) for source in progress["sources"]]


def _metrics(behind: list[int] | None) -> dict[str, str]:
    """Of one source; as text, as Spark has them."""
    if not behind:
        return {}
    return {
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "minOffsetsBehindLatest": str(min(behind)),
    }


def _behind(source: Mapping[str, Any]) -> list[int] | None:
    """How many offsets each partition is behind; None for another kind of source."""
    latest, reached = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if latest is None or reached is None:
        return None
    return [max(0, newest - reached.get(place, 0)) for place, newest in latest.items()]


def _offsets(text: str | None) -> dict[tuple[str, str], int] | None:
    """From `{"topic": {"0": 42}}`; None for the offsets of another kind of source."""
    if not text or not text.startswith("{"):
        return None
    try:
        topics = msgspec.json.decode(text, type=dict[str, dict[str, int]])
    except msgspec.DecodeError:
        return None
    return {
        (topic, partition): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def _number(value: Any) -> float:
    """Spark leaves out or says NaN where it divided by zero."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
