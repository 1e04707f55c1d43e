"""What the broker found when it checked records against their schemas, as Prometheus sees it."""

from collections.abc import Iterable, Iterator, Mapping
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
from goqueue.broker.schemas.statistics import VALIDATION_SECONDS, ValidationTimes


class SchemaCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        counts = self._broker.schema_checks.counts
        records = CounterMetricFamily(
            "goqueue_schema_validations",
            "Records that were checked against their schemas.",
            labels=["topic", "result"],
        )
        for result, by_topic in (("valid", counts.valid), ("invalid", counts.invalid)):
            for topic, count in by_topic.items():
                records.add_metric([topic, result], count)
        yield records
        dead = CounterMetricFamily(
            "goqueue_schema_dead_letters",
            "Records that went to the dead letters because they are not what their schema says.",
            labels=["topic"],
        )
        for topic, count in self._broker.schema_dead_letters.written.items():
            dead.add_metric([topic], count)
        yield dead
        yield _latency(counts.times)
        yield GaugeMetricFamily(
            "goqueue_schemas_cached",
            "Schemas that are parsed and compiled on this node.",
            value=self._broker.schema_directory.cached,
        )


def _latency(times: Mapping[str, ValidationTimes]) -> Metric:
    family = HistogramMetricFamily(
        "goqueue_schema_validation_seconds",
        "Time that the validation of a batch took, of ids only or of payloads in full.",
        labels=["mode"],
    )
    bounds = [*map(floatToGoString, VALIDATION_SECONDS), "+Inf"]
    for mode, each in times.items():
        buckets = list(zip(bounds, accumulate(each.counts), strict=True))
        family.add_metric([mode], buckets, each.seconds)
    return family
