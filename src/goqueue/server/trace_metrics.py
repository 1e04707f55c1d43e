"""The events of journeys as Prometheus sees them: how many, and what was lost of them."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker


class TraceCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        recorder, history = self._broker.recorder, self._broker.trace_history
        exporters = self._broker.trace_exporters
        for name, meaning, value in (
            ("events", "Events of journeys that were recorded.", recorder.recorded_total),
            (
                "events_dropped",
                "Events that came too fast for the history, or could not be written.",
                recorder.dropped_total,
            ),
            ("written_bytes", "Bytes of events written to `__traces`.", history.written_bytes),
            (
                "spans_failed",
                "Spans that a collector did not take, or that waited too long for it.",
                exporters.failed_total + exporters.dropped_total,
            ),
        ):
            yield CounterMetricFamily(f"goqueue_trace_{name}", meaning, value=value)
        yield GaugeMetricFamily(
            "goqueue_trace_events_pending",
            "Events that wait to be written to the history.",
            value=len(recorder.pending),
        )
