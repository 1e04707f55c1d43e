"""Certificates, logins, refusals and the audit log as Prometheus sees them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker
from goqueue.security import KINDS


class Expiring(Protocol):
    @property
    def expires_at(self) -> float: ...


class SecurityCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.certificates: Mapping[str, Expiring] = {}  # by the ports that show them

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._collect_certificates()
        audit = self._broker.audit
        yield CounterMetricFamily(
            "goqueue_logins_throttled",
            "Logins that were refused unchecked, because too many before them failed.",
            value=self._broker.logins.throttled,
        )
        events = CounterMetricFamily(
            "goqueue_audit_events",
            "Logins, refusals and administrative changes, also those left out of the audit log.",
            labels=["kind", "allowed"],
        )
        left_out = CounterMetricFamily(
            "goqueue_audit_events_left_out",
            "Events that a flood kept from the audit log.",
            labels=["kind"],
        )
        for kind in KINDS[:-1]:
            for allowed in (True, False):
                events.add_metric([kind, str(allowed).lower()], audit.counts[kind, allowed])
            left_out.add_metric([kind], audit.left_out[kind])
        failures = CounterMetricFamily(
            "goqueue_audit_write_failures",
            "Writes of audit events that failed, and are tried again.",
            labels=["to"],
        )
        for place in ("file", "topic"):
            failures.add_metric([place], audit.failures[place])
        yield from (events, left_out, failures)

    def _collect_certificates(self) -> Iterator[Metric]:
        expiry = GaugeMetricFamily(
            "goqueue_certificate_expiry_timestamp_seconds",
            "When the certificate expires that a port shows, in seconds since 1970.",
            labels=["port"],
        )
        for port, certificate in self.certificates.items():
            expiry.add_metric([port], certificate.expires_at)
        yield expiry
