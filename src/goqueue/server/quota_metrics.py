"""Quotas as Prometheus sees them: how often clients had to wait."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker
from goqueue.broker.tenants import Counts

TENANTS_SHOWN_MAX: Final = 200  # by id: labels must stay few

_COUNTS: Final[list[tuple[str, str, Callable[[Counts], int]]]] = [
    ("messages_published", "Messages that a tenant wrote.", lambda of: of.messages_published),
    ("bytes_published", "Bytes that a tenant wrote.", lambda of: of.bytes_published),
    ("messages_consumed", "Messages that a tenant read.", lambda of: of.messages_consumed),
    ("bytes_consumed", "Bytes that a tenant read.", lambda of: of.bytes_consumed),
    ("throttled_requests", "Requests of a tenant that had to wait.", lambda of: of.throttled),
]


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
        yield from self._tenant_families()

    def _tenant_families(self) -> Iterator[Metric]:
        tenants = self._broker.tenants
        shown = tenants.describe_all()[:TENANTS_SHOWN_MAX]
        for name, meaning, count in _COUNTS:
            family = CounterMetricFamily(f"goqueue_tenant_{name}", meaning, labels=["tenant"])
            for each in shown:
                family.add_metric([each.tenant_id], count(tenants.counts_of(each.tenant_id)))
            yield family
        connections = GaugeMetricFamily(
            "goqueue_tenant_connections", "Kafka connections of a tenant.", labels=["tenant"]
        )
        stored = GaugeMetricFamily(
            "goqueue_tenant_storage_bytes",
            "Bytes of a tenant's topics, when they were last counted.",
            labels=["tenant"],
        )
        for each in shown:
            counts = tenants.counts_of(each.tenant_id)
            connections.add_metric([each.tenant_id], counts.connections)
            stored.add_metric([each.tenant_id], tenants.last_stored_bytes(each.tenant_id))
        yield connections
        yield stored
