"""How pipelines are, for Prometheus: the service's own endpoint."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from goqueue.spark.runtime.progress import Progress
from goqueue.spark.service.board import Standing

Read = Callable[[], Iterable[Standing]]
GAUGES: Final[dict[str, tuple[str, Callable[[Progress], float | None]]]] = {
    "rows_per_second": ("How fast the newest micro-batch was.", lambda each: each.rows_per_second),
    "lag_rows": ("Messages that are there and not read.", lambda each: each.lag),
    "lag_seconds": (
        "What is not read yet came within this time.",
        lambda each: _seconds(each.lag_ms),
    ),
    "batch_seconds": (
        "How long the newest micro-batch took.",
        lambda each: _seconds(each.batch_ms),
    ),
    "state_rows": (
        "Rows that are kept for windows, joins and de-duplication.",
        lambda each: each.state_rows,
    ),
    "watermark_timestamp_seconds": (
        "Rows with an older time are dropped.",
        lambda each: _watermark(each.watermark),
    ),
}


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _watermark(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


class PipelineCollector(Collector):
    def __init__(self, read: Read) -> None:
        self._read = read

    def collect(self) -> Iterator[Any]:
        standings = list(self._read())
        up = GaugeMetricFamily(
            "goqueue_pipeline_up", "1 while a pipeline runs.", labels=("pipeline", "state")
        )
        restarts = CounterMetricFamily(
            "goqueue_pipeline_restarts", "Starts after a failure.", labels=("pipeline",)
        )
        alerts = GaugeMetricFamily(
            "goqueue_pipeline_alert",
            "1 while a sink gets no new rows, or fewer or more than usual.",
            labels=("pipeline", "query", "alert"),
        )
        parked = GaugeMetricFamily(
            "goqueue_pipeline_parked",
            "1 while its queries are closed, until its topics have something new.",
            labels=("pipeline",),
        )
        for each in standings:
            is_parked = any(query.state == "parked" for query in each.queries)
            parked.add_metric((each.name,), float(is_parked))
            up.add_metric((each.name, each.state), float(each.state == "running"))
            restarts.add_metric((each.name,), each.restarts)
            for alert in each.alerts:
                alerts.add_metric((each.name, alert.query, alert.kind), 1.0)
        yield up
        yield restarts
        yield alerts
        yield parked
        yield from _of_queries([query for each in standings for query in each.queries])


def _of_queries(queries: list[Progress]) -> Iterator[Any]:
    rows = CounterMetricFamily(
        "goqueue_pipeline_rows", "Rows read since the query was started.", labels=("query",)
    )
    unmet = CounterMetricFamily(
        "goqueue_pipeline_unmet_rows",
        "Rows that were not as expected.",
        labels=("query", "expectation"),
    )
    late = CounterMetricFamily(
        "goqueue_pipeline_late_rows", "Rows dropped for their lateness.", labels=("query",)
    )
    for each in queries:
        rows.add_metric((each.name,), each.rows)
        if each.late_rows is not None:
            late.add_metric((each.name,), each.late_rows)
        for expectation, count in each.unmet.items():
            unmet.add_metric((each.name, expectation), count)
    yield rows
    yield late
    yield unmet
    for name, (text, read) in GAUGES.items():
        gauge = GaugeMetricFamily(f"goqueue_pipeline_{name}", text, labels=("query",))
        for each in queries:
            value = read(each)
            if value is not None:
                gauge.add_metric((each.name,), value)
        yield gauge


def serve_metrics(read: Read, host: str, port: int) -> WSGIServer:
    """In a thread of its own; `shutdown()` ends it."""
    registry = CollectorRegistry()
    registry.register(PipelineCollector(read))
    server, _ = start_http_server(port, addr=host, registry=registry)
    return server
