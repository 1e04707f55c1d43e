"""Delayed messages as Prometheus sees them, of the partitions that this node leads."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from goqueue.broker import Broker
from goqueue.broker.delays.statistics import LATENESS_SECONDS


class DelayCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        counts = self._broker.delays.admin.counts_here()
        pending = GaugeMetricFamily(
            "goqueue_delayed_messages", "Delayed messages that wait.", labels=["topic"]
        )
        delivered = CounterMetricFamily(
            "goqueue_delayed_messages_delivered",
            "Delayed messages that were delivered.",
            labels=["topic"],
        )
        cancelled = CounterMetricFamily(
            "goqueue_delayed_messages_cancelled",
            "Delayed messages that were cancelled.",
            labels=["topic"],
        )
        expired = CounterMetricFamily(
            "goqueue_delayed_messages_expired",
            "Delayed messages that were too late: their time to live had passed.",
            labels=["topic"],
        )
        for topic, each in counts.items():
            pending.add_metric([topic], each.pending)
            delivered.add_metric([topic], each.delivered)
            cancelled.add_metric([topic], each.cancelled)
            expired.add_metric([topic], each.expired)
        yield pending
        yield delivered
        yield cancelled
        yield expired
        yield CounterMetricFamily(
            "goqueue_delay_searches_skipped",
            "Compressed batches, of topics without delays, that were not searched for headers.",
            value=self._broker.delays.appends.search.skipped,
        )
        lateness = self._broker.delays.lateness
        bounds = [*map(floatToGoString, LATENESS_SECONDS), "+Inf"]
        buckets = zip(bounds, accumulate(lateness.counts), strict=True)
        yield HistogramMetricFamily(
            "goqueue_delayed_message_lateness_seconds",
            "Time from when a delayed message was due until readers could see it.",
            buckets=list(buckets),
            sum_value=lateness.seconds,
        )
