"""Which alerts are active, by what sinks bring and what time it is."""

from goqueue.spark.pipelines.model import Alerts, Volume
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.service.alerts import AlertWatch


class Sink:
    def __init__(self, rules: Alerts) -> None:
        self.now = 100.0
        self.rows = 0
        self.lag = 0
        self._watch = AlertWatch(rules, ["orders.out"], self.now)

    def after(self, seconds: float, rows: int = 0) -> dict[str, str]:
        """Alerts by kind, once so many more rows have come."""
        self.now += seconds
        self.rows += rows
        progress = [Progress("orders.out", "running", rows=self.rows, lag=self.lag)]
        return {each.kind: each.text for each in self._watch.look(progress, self.now)}

    def after_failing(self, seconds: float) -> list[str]:
        self.now += seconds
        self.rows = 0
        return [each.kind for each in self._watch.look([], self.now)]


def test_a_sink_without_new_rows_is_stale_until_there_are_some():
    sink = Sink(Alerts(fresh="10m"))
    assert sink.after(300, rows=5) == {}
    assert sink.after(600) == {}
    assert sink.after(1) == {"stale": "no new rows for more than 10m; none are waiting"}
    sink.lag = 1_200
    assert sink.after(1) == {"stale": "no new rows for more than 10m; 1,200 messages wait"}
    assert sink.after(1, rows=1) == {}


def test_a_pipeline_that_never_runs_is_stale_and_starting_over_counts():
    sink = Sink(Alerts(fresh="10m"))
    assert sink.after(0, rows=50) == {}
    assert sink.after_failing(601) == ["stale"]
    assert sink.after(1, rows=3) == {}, "its count begins with zero again"


def test_too_few_rows_are_told_at_the_end_of_a_window_and_forgiven_by_the_next():
    sink = Sink(Alerts(volume=Volume("1h", rows_min=10)))
    assert sink.after(1800, rows=9) == {}
    told = {"few_rows": "fewer than 10 rows in the last 1h"}
    assert sink.after(1800) == told
    assert sink.after(1800, rows=10) == told
    assert sink.after(1800) == {}


def test_too_many_rows_are_told_at_once():
    sink = Sink(Alerts(volume=Volume("1h", rows_max=10)))
    assert sink.after(1, rows=10) == {}
    assert sink.after(1, rows=1) == {"many_rows": "11 rows within 1h, at most 10 are usual"}
    sink.after(3600)
    assert sink.after(1) == {}
