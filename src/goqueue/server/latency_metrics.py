"""How long messages took, as Prometheus sees it: made at a scrape of what the events told.

Series are bounded (`TOPICS_MAX`, `PAIRS_MAX` of `goqueue.trace.latencies`); what has no room is in
the one with the topic "(others)".  As OpenMetrics each bucket has an example: the trace id of a
message whose journey tells why it took that long.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from goqueue.broker import Broker
from goqueue.server.exposition import PAUSE
from goqueue.trace.histograms import BOUNDS_SECONDS, Example, Histogram
from goqueue.trace.ids import derived_id

PAUSE_EVERY: Final = 10  # histograms
_BOUNDS: Final = (*map(floatToGoString, BOUNDS_SECONDS), "+Inf")

_PUBLISH: Final = "Time from when a message was received until it was persisted on all replicas."
_PAIRS: Final = (
    (
        "message_first_delivery",
        "first_delivery",
        "Time from when a message was persisted until a group's first delivery or fetch of it.",
    ),
    ("message_ack", "ack", "Time from a message's delivery until its ack or the offset's commit."),
    (
        "message_end_to_end",
        "end_to_end",
        "Time from when a message was received until a group's ack or commit of its offset.",
    ),
)


class LatencyCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        latencies = self._broker.latency_counter.latencies
        yield from _family("message_publish", _PUBLISH, ["topic"], latencies.publish.table)
        for name, field, meaning in _PAIRS:
            table = getattr(latencies, field).table
            yield from _family(name, meaning, ["topic", "group"], table)
        yield CounterMetricFamily(
            "goqueue_latency_events_dropped",
            "Events of journeys that came too fast to be counted in latencies.",
            value=self._broker.latency_counter.dropped_total,
        )


def _family(
    name: str, meaning: str, labels: Sequence[str], table: dict[tuple[str, ...], Histogram]
) -> Iterator[Metric]:
    family = HistogramMetricFamily(f"goqueue_{name}_seconds", meaning, labels=labels)
    for number, (key, histogram) in enumerate(sorted(table.items()), 1):
        buckets: list[Any] = [  # an example may be missing
            (bound, count, _exemplar(example))
            for bound, count, example in zip(
                _BOUNDS, accumulate(histogram.counts), histogram.examples, strict=True
            )
        ]
        family.add_metric(key, buckets, histogram.seconds)
        if number % PAUSE_EVERY == 0:
            yield PAUSE
    yield family


def _exemplar(example: Example | None) -> Exemplar | None:
    if example is None:
        return None
    trace_id = example.trace_id or derived_id(example.place)
    return Exemplar({"trace_id": trace_id}, example.seconds, example.at_us / 1e6)
