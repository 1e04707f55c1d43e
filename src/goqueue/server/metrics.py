"""What Prometheus sees: one registry a server, names as dashboards expect them.

Partitions count for themselves (a few integer additions a batch); a scrape adds them up by
topic, so it costs nothing between scrapes and looks only at partitions that are open.  A count
never goes backwards while its topic lives: what a closed partition had counted is kept.

Series with a topic's name are kept to a bound, topics in use first; `goqueue_topics_left_out` and
`goqueue_partitions_left_out` say how many had no room.  Names follow `promtool check metrics`.
Collectors say `PAUSE` where a scrape may be interrupted (see `exposition`).
"""

import time
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue._version import __version__, compiled_modules
from goqueue.broker import Broker, Partition
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.model.errors import GoQueueError
from goqueue.server.cluster_metrics import ClusterCollector
from goqueue.server.delay_metrics import DelayCollector
from goqueue.server.exposition import PAUSE, Exposition
from goqueue.server.group_metrics import GroupCollector
from goqueue.server.latency_metrics import LatencyCollector
from goqueue.server.loop_lag import LoopLag
from goqueue.server.queue_metrics import QueueMetrics
from goqueue.server.quota_metrics import QuotaCollector
from goqueue.server.schedule_metrics import ScheduleMetrics
from goqueue.server.schema_metrics import SchemaCollector
from goqueue.server.security_metrics import SecurityCollector
from goqueue.server.trace_metrics import TraceCollector

BUCKETS: Final = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.0, 5.0),
)
TOPICS_SHOWN_MAX: Final = 500
PARTITIONS_SHOWN_MAX: Final = 2_000
PAUSE_EVERY: Final = 200  # partitions
Counts = tuple[int, ...]  # in the order of `_COUNTERS`


class Metrics:
    """Cheap to call from anywhere on the event loop."""

    def __init__(self, broker: Broker) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._started = time.monotonic()
        self._kafka_seconds = self._histogram(
            "kafka_request_seconds", "Time from a Kafka request's last byte to its answer.", "api"
        )
        self._kafka_by_api: dict[str, Histogram] = {}
        self._http_seconds = self._histogram(
            "http_request_seconds",
            "Time from an HTTP request's head to the end of its answer, waits included.",
            *("method", "route", "status"),
        )
        self._http_by_route: dict[tuple[str, str, int], Histogram] = {}
        self._publish = self._histogram(
            "publish_latency_seconds", "Time from a decoded publish to its commit.", "listener"
        )
        self._flush = self._histogram("fsync_latency_seconds", "Time of one flush to disk.")
        self._flush_errors = Counter(
            "goqueue_fsync_errors", "Flushes that failed.", registry=self.registry
        )
        self._flushes = Counter("goqueue_fsync", "Flushes to disk.", registry=self.registry)
        self._connections = Gauge(
            "goqueue_active_connections",
            "Open connections.",
            ["listener"],
            registry=self.registry,
        )
        self._failed = Counter(
            "goqueue_messages_failed",
            "Messages that were refused, by the error's code.",
            ["error_type"],
            registry=self.registry,
        )
        self._disk_free = Gauge(
            "goqueue_disk_free_bytes",
            "Room on the file system of the data directory.",
            registry=self.registry,
        )
        self._broker = broker
        self.registry.register(_BrokerCollector(broker, self._started))
        self._groups = GroupCollector(broker)
        self.registry.register(self._groups)
        self.registry.register(ClusterCollector(broker))
        self.registry.register(SchemaCollector(broker))
        ScheduleMetrics(broker, self.registry)
        self.registry.register(DelayCollector(broker))
        self.registry.register(QuotaCollector(broker))
        self.security = SecurityCollector(broker)
        self.registry.register(self.security)
        self.queues = QueueMetrics(broker, self.registry)
        self.registry.register(LatencyCollector(broker))
        self.registry.register(TraceCollector(broker))
        self.loop_lag = LoopLag(self.registry)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._exposition = Exposition(self.registry)
        broker.partitions.observe_flush = self.observe_flush

    def _histogram(self, name: str, meaning: str, *labels: str) -> Histogram:
        return Histogram(
            f"goqueue_{name}", meaning, labels, buckets=BUCKETS, registry=self.registry
        )

    def observe_kafka_request(self, api_name: str, seconds: float) -> None:
        histogram = self._kafka_by_api.get(api_name)
        if histogram is None:
            histogram = self._kafka_by_api[api_name] = self._kafka_seconds.labels(api_name)
        histogram.observe(seconds)

    def observe_http_request(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        histogram = self._http_by_route.get(key)
        if histogram is None:
            histogram = self._http_by_route[key] = self._http_seconds.labels(*map(str, key))
        histogram.observe(seconds)

    def observe_publish(self, listener: str, seconds: float) -> None:
        self._publish.labels(listener).observe(seconds)

    def messages_failed(self, error: GoQueueError, count: int = 1) -> None:
        self._failed.labels(error.code).inc(count)

    def observe_flush(self, _: Partition, seconds: float, error: GoQueueError | None) -> None:
        self._flushes.inc()
        self._flush.observe(seconds)
        if error is not None:
            self._flush_errors.inc()

    def connection_opened(self, listener: str) -> None:
        self._connections.labels(listener).inc()

    def connection_closed(self, listener: str) -> None:
        self._connections.labels(listener).dec()

    async def look(self) -> None:
        """Learn what the next scrape tells and nobody counts."""
        await self.queues.look()
        await self._groups.look(self.queues.stats)
        disk, data_dir = self._broker.environment.disk, self._broker.config.data_dir
        self._disk_free.set(await disk.in_background(lambda: disk.free_bytes(data_dir)))

    async def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """Everything, in a format that is accepted, and its content type."""
        await self.look()
        return await self._exposition.scrape(accept)


class _Totals:
    """The sums of one topic's open partitions."""

    def __init__(self) -> None:
        self.counts = [0] * len(_COUNTERS)
        self.size = 0
        self.start_offset = 0
        self.end_offset = 0
        self.segments = 0
        self.open = 0

    def add(self, partition: Partition) -> None:
        log = partition.log
        for place, count in enumerate(_counts(partition)):
            self.counts[place] += count
        self.size += log.size
        self.start_offset += log.start_offset
        self.end_offset += log.end_offset
        self.segments += len(log.segments)
        self.open += 1


CLOCK_OFFSET: Final = "The wall clock less the clock that deadlines run by; 0 unless it was set."

_COUNTERS: Final = (
    ("messages_published", "Messages written."),
    ("bytes_published", "Bytes of record batches written."),
    ("messages_consumed", "Messages read."),
    ("bytes_consumed", "Bytes read."),
    ("messages_replicated", "Messages that a follower copied from its leader."),
    ("bytes_replicated", "Bytes that a follower copied from its leader."),
)


def _counts(partition: Partition) -> Counts:
    return (
        partition.messages_in - partition.messages_copied,
        partition.bytes_in - partition.bytes_copied,
        partition.messages_out,
        partition.bytes_out,
        partition.messages_copied,
        partition.bytes_copied,
    )


class _BrokerCollector(Collector):
    def __init__(self, broker: Broker, started: float) -> None:
        self._broker = broker
        self._started = started
        self._build_info = _build_info()
        self._seen: dict[Partition, Counts] = {}  # at the last scrape
        self._retired: dict[str, list[int]] = {}  # what closed partitions of a topic had counted

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        broker = self._broker
        topics = broker.topics(internal=True)
        opened = list(broker.partitions)
        current: dict[Partition, Counts] = {}
        for number, partition in enumerate(opened):
            current[partition] = _counts(partition)
            if number % PAUSE_EVERY == 0:
                yield PAUSE
        self._retire(current)
        totals = {str(topic.name): _Totals() for topic in topics}
        for topic, counts in self._retired.items():
            if topic in totals:
                totals[topic].counts = list(counts)
        by_topic: dict[str, list[Partition]] = {}
        for number, partition in enumerate(opened):
            totals.setdefault(partition.topic, _Totals()).add(partition)
            by_topic.setdefault(partition.topic, []).append(partition)
            if number % PAUSE_EVERY == 0:
                yield PAUSE
        shown = dict(sorted(totals.items(), key=_sort_key)[:TOPICS_SHOWN_MAX])
        yield from _counter_families(shown)
        yield from _gauge_families(shown)
        yield _gauge("topics", "Topics.", sum(not topic.is_internal for topic in topics))
        yield _gauge("topics_left_out", "Topics without series.", len(totals) - len(shown))
        yield _gauge("clock_offset_seconds", CLOCK_OFFSET, broker.clock_offset_ms / 1e3)
        partitions = GaugeMetricFamily(
            "goqueue_topic_partitions", "Partitions of a topic.", labels=["topic"]
        )
        for each in topics:
            if each.name in shown:
                partitions.add_metric([each.name], each.partitions)
        yield partitions
        yield from _partition_families(by_topic)
        yield from self._read_only()
        yield _gauge(
            "disk_free_bytes_min",
            "Writes are refused when less room is left (storage.free_bytes_min).",
            broker.config.storage.free_bytes_min,
        )
        yield _coordinator_family(broker)
        if broker.transactions.is_coordinating:
            yield from _transaction_families(broker.transactions)
        yield _gauge("uptime_seconds", "Time since the start.", time.monotonic() - self._started)
        yield self._build_info

    def _read_only(self) -> Iterator[Metric]:
        failed = 0
        for number, bundle in enumerate(self._broker.partitions.bundles()):
            if number % PAUSE_EVERY == 0:
                yield PAUSE
            failed += sum(each.log.failed is not None for each in bundle)
        yield _gauge(
            "partitions_read_only",
            "Open partitions that take no writes since the disk failed.",
            failed,
        )

    def _retire(self, current: dict[Partition, Counts]) -> None:
        """Keep what partitions had counted that are no longer open, while their topic lives."""
        for partition, counts in self._seen.items():
            if partition not in current:
                before = self._retired.get(partition.topic, [0] * len(_COUNTERS))
                self._retired[partition.topic] = [
                    a + b for a, b in zip(before, counts, strict=True)
                ]
        self._seen = current
        for topic in list(self._retired):
            if self._broker.metadata.find(topic) is None:
                del self._retired[topic]


def _coordinator_family(broker: Broker) -> Metric:
    family = GaugeMetricFamily(
        "goqueue_coordinator_shards",
        "Shards of groups and of transactions that this node coordinates.",
        labels=["kind"],
    )
    family.add_metric(["groups"], len(broker.groups.shards))
    family.add_metric(["transactions"], len(broker.transactions.shards))
    return family


def _transaction_families(transactions: Transactions) -> Iterator[Metric]:
    counts = transactions.ahead.counts
    for name, meaning, value in (
        ("transactions_started", "Transactions that began.", counts.started),
        ("transactions_committed", "Transactions that were committed.", counts.committed),
        ("transactions_aborted", "Transactions that were aborted.", counts.aborted),
    ):
        yield CounterMetricFamily(f"goqueue_{name}", meaning, value=value)
    yield _gauge("transactions_open", "Open transactions.", len(transactions.ahead.ongoing))
    yield _gauge(
        "transactions_oldest_age_seconds",
        "How long the oldest open transaction has been; 0 when none is.",
        transactions.oldest_age_ms() / 1000,
    )


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"goqueue_{name}", meaning, value=value)


def _build_info() -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "goqueue_build_info",
        "Always 1; the labels say what runs.",
        labels=["version", "compiled"],
    )
    family.add_metric([__version__, "yes" if compiled_modules() else "no"], 1)
    return family


def _counter_families(totals: dict[str, _Totals]) -> Iterator[Metric]:
    for place, (name, meaning) in enumerate(_COUNTERS):
        family = CounterMetricFamily(f"goqueue_{name}", meaning, labels=["topic"])
        for topic, total in totals.items():
            family.add_metric([topic], total.counts[place])
        yield family


def _gauge_families(totals: dict[str, _Totals]) -> Iterator[Metric]:
    for name, meaning, field in (
        ("log_size_bytes", "Bytes of log in the open partitions.", "size"),
        ("log_start_offset", "Sum of the first offsets of the open partitions.", "start_offset"),
        ("log_end_offset", "Sum of the next offsets of the open partitions.", "end_offset"),
        ("log_segments", "Segment files of the open partitions.", "segments"),
        ("open_partitions", "Partitions in use since the start.", "open"),
    ):
        family = GaugeMetricFamily(f"goqueue_{name}", meaning, labels=["topic"])
        for topic, total in totals.items():
            family.add_metric([topic], getattr(total, field))
        yield family


def _partition_families(by_topic: dict[str, list[Partition]]) -> Iterator[Metric]:
    shown = list[Partition]()
    for topic in sorted(by_topic):
        if len(shown) < PARTITIONS_SHOWN_MAX:
            shown += sorted(by_topic[topic], key=lambda each: each.index)
    del shown[PARTITIONS_SHOWN_MAX:]
    labels = ["topic", "partition"]
    size = GaugeMetricFamily("goqueue_partition_size_bytes", "Bytes of log.", labels=labels)
    start = GaugeMetricFamily("goqueue_partition_start_offset", "The first offset.", labels=labels)
    end = GaugeMetricFamily("goqueue_partition_end_offset", "The next offset.", labels=labels)
    for number, partition in enumerate(shown):
        if number % PAUSE_EVERY == 0:
            yield PAUSE
        values = [partition.topic, str(partition.index)]
        size.add_metric(values, partition.log.size)
        start.add_metric(values, partition.log.start_offset)
        end.add_metric(values, partition.log.end_offset)
    yield from (size, start, end)
    left_out = sum(map(len, by_topic.values())) - len(shown)
    yield _gauge("partitions_left_out", "Open partitions without series.", left_out)


def _sort_key(entry: tuple[str, _Totals]) -> tuple[bool, str]:
    """Topics that are in use, then by name: the same ones at every scrape."""
    name, total = entry
    return not total.open, name
