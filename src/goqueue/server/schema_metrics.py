"""What the broker found when it checked records against their schemas, as Prometheus sees it."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker


class SchemaCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        checks = self._broker.schema_checks
        records = CounterMetricFamily(
            "goqueue_schema_validations",
            "Records that were checked against their schemas.",
            labels=["topic", "result"],
        )
        for result, counts in (("valid", checks.valid), ("invalid", checks.invalid)):
            for topic, count in counts.items():
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
        yield CounterMetricFamily(
            "goqueue_schema_validation_seconds", "Time spent on it.", value=checks.seconds
        )
        yield GaugeMetricFamily(
            "goqueue_schemas_cached",
            "Schemas that are parsed and compiled on this node.",
            value=self._broker.schema_directory.cached,
        )
