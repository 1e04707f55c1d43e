"""Whether a pipeline brings what it should: new rows often enough, and as many as usual.

It is told how far each sink is and what time it is, and says which alerts are active.  A pipeline
that fails again and again, whose broker is away, or whose source has fallen silent, looks the same
here: its sinks get no rows.  One that an operator stopped is not watched.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from goqueue.model.durations import parse_duration_ms
from goqueue.spark.pipelines.model import Alerts
from goqueue.spark.runtime.progress import Progress

Kind = Literal["stale", "few_rows", "many_rows"]


class Alert(msgspec.Struct, frozen=True):
    query: str
    """Of which sink: PIPELINE.SINK."""
    kind: Kind
    text: str = ""


class SinkWatch:
    """One sink: when it last got rows, and how many in this window."""

    def __init__(self, now: float) -> None:
        self.moved_at = now
        self.window_start = now
        self.window_rows = 0
        self.behind: int | None = None
        self.is_low = False  # in the last whole window
        self._rows = 0  # as the query counts, from its own start

    def note(self, progress: Progress, now: float) -> None:
        new = progress.rows - self._rows if progress.rows >= self._rows else progress.rows
        self._rows = progress.rows
        self.behind = progress.lag
        self.window_rows += new
        if new:
            self.moved_at = now


class AlertWatch:
    def __init__(self, rules: Alerts, queries: Iterable[str], now: float) -> None:
        self._rules = rules
        self._fresh_s = _seconds(rules.fresh)
        self._per_s = _seconds(rules.volume.per if rules.volume is not None else None)
        self._sinks = {each: SinkWatch(now) for each in queries}

    def look(self, progress: Sequence[Progress], now: float) -> list[Alert]:
        """Those that are active now; without progress nothing runs."""
        for each in progress:
            if each.name in self._sinks:
                self._sinks[each.name].note(each, now)
        found = [
            alert
            for name, sink in self._sinks.items()
            for alert in (self._check_fresh(name, sink, now), self._check_volume(name, sink, now))
        ]
        return [each for each in found if each is not None]

    def _check_fresh(self, query: str, sink: SinkWatch, now: float) -> Alert | None:
        if self._fresh_s is None or now - sink.moved_at <= self._fresh_s:
            return None
        why = f"{sink.behind:,} messages wait" if sink.behind else "none are waiting"
        return Alert(query, "stale", f"no new rows for more than {self._rules.fresh}; {why}")

    def _check_volume(self, query: str, sink: SinkWatch, now: float) -> Alert | None:
        volume = self._rules.volume
        if volume is None or self._per_s is None:
            return None
        rows = sink.window_rows
        if now - sink.window_start >= self._per_s:
            sink.is_low = volume.rows_min is not None and rows < volume.rows_min
            sink.window_start, sink.window_rows = now, 0
        if volume.rows_max is not None and rows > volume.rows_max:
            text = f"{rows:,} rows within {volume.per}, at most {volume.rows_max:,} are usual"
            return Alert(query, "many_rows", text)
        if sink.is_low:
            return Alert(
                query, "few_rows", f"fewer than {volume.rows_min:,} rows in the last {volume.per}"
            )
        return None


def _seconds(text: str | None) -> float | None:
    return None if text is None else parse_duration_ms(text, plain=None) / 1000
