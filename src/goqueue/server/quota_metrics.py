"""Quotas as Prometheus sees them: how often clients had to wait."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker


class QuotaCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        throttled = CounterMetricFamily(
            "goqueue_throttled_requests",
            "Requests whose client had to wait, or was refused with 429, by quota.",
            labels=["quota"],
        )
        for quota, count in self._broker.quotas.throttled.items():
            throttled.add_metric([quota], count)
        yield throttled
