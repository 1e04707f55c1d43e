"""Recurring schedules as Prometheus sees them; those of the node that runs them."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker

LATENESS_BUCKETS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0),
    *(5.0, 30.0, 60.0, 300.0, 3600.0),
)


class ScheduleMetrics(Collector):
    def __init__(self, broker: Broker, registry: CollectorRegistry) -> None:
        self._schedules = broker.schedules
        lateness = Histogram(
            "goqueue_schedule_lateness_seconds",
            "Time from when a run was due to when it was published, durably.",
            buckets=LATENESS_BUCKETS,
            registry=registry,
        )
        broker.schedules.publisher.observe_lateness = lateness.observe
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        schedules, publisher = self._schedules, self._schedules.publisher
        count = paused = 0
        if schedules.is_coordinating:
            machine = schedules.host.ahead
            count, paused = len(machine), machine.paused_count
        found = GaugeMetricFamily(
            "goqueue_schedules", "Schedules, on the node that runs them.", labels=["state"]
        )
        found.add_metric(["enabled"], count - paused)
        found.add_metric(["paused"], paused)
        yield found
        yield GaugeMetricFamily(
            "goqueue_schedules_failing",
            "Schedules whose run is due and not published, because of an error.",
            value=publisher.failing_count,
        )
        for name, text, value in (
            ("runs", "Runs that were published.", publisher.totals.runs),
            ("run_failures", "Attempts to publish a run that failed.", publisher.totals.failures),
            ("runs_missed", "Runs that were not made up for.", publisher.totals.missed),
        ):
            yield CounterMetricFamily(f"goqueue_schedule_{name}", text, value=value)
