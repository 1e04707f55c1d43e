"""Queues, as Prometheus sees them: made at a scrape from what the queues count themselves.

Series with a group's name are kept to a bound, groups that hold something first;
`goqueue_queue_groups_left_out` says how many had no room.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker
from goqueue.broker.dlq.writer import UnwrittenDeadLetters
from goqueue.queue import GroupStats, LaneStats, Totals, dead_letter_topic

GROUPS_SHOWN_MAX: Final = 200
TOPICS_SHOWN_MAX: Final = 500  # pairs of a group and a topic
LOOK_SECONDS_MAX: Final = 2.0  # a long backlog is counted lane by lane, once
BUCKETS: Final = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)

_TOTALS: Final = (
    ("messages_acked", "Messages that were finished.", "acked"),
    ("messages_nacked", "Deliveries that consumers called failed.", "nacked"),
    ("messages_rejected", "Messages that consumers made dead letters.", "rejected"),
    ("messages_released", "Deliveries that were given back without a failure.", "released"),
    (
        "messages_timed_out",
        "Deliveries without an answer: the visibility time-out passed, or the consumer died.",
        "timed_out",
    ),
    ("messages_expired", "Messages past their time to live.", "expired"),
    ("messages_retried", "Deliveries that were not a message's first.", "retried"),
    ("messages_dropped", "Messages dropped for their time to live, or gone by then.", "dropped"),
)
_LANES: Final[tuple[tuple[str, str, Callable[[LaneStats], int]], ...]] = (
    ("queue_ready", "Messages that can be delivered now.", lambda lane: lane.ready),
    ("queue_in_flight", "Messages that consumers hold.", lambda lane: lane.in_flight),
    ("queue_waiting", "Messages that wait for a retry or their key.", lambda lane: lane.waiting),
)
Lanes = dict[tuple[str, str, str], list[LaneStats]]  # by group, topic and priority


class QueueMetrics:
    def __init__(self, broker: Broker, registry: CollectorRegistry) -> None:
        self._received = Histogram(
            "goqueue_receive_seconds",
            "Time of one receive, waits included.",
            buckets=BUCKETS,
            registry=registry,
        )
        self._broker = broker
        self._collector = QueueCollector(broker)
        registry.register(self._collector)

    @property
    def stats(self) -> list[GroupStats]:
        """Of the last look."""
        return self._collector.stats

    async def look(self) -> None:
        """Learn the figures for the next scrape; those of the last one stay if it takes long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                self._collector.stats = await self._broker.queues.stats_ahead()
                self._collector.dead_letters = await self._count_dead_letters()

    async def _count_dead_letters(self) -> dict[str, int]:
        dead_letters = self._broker.queues.dead_letters
        topics = [topic.name for topic in self._broker.topics()]
        sources = [name for name in topics if self._broker.has_topic(dead_letter_topic(name))]
        return {name: await dead_letters.count_here(name) for name in sources[:TOPICS_SHOWN_MAX]}

    @contextlib.contextmanager
    def receiving(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._received.observe(time.perf_counter() - started)


class QueueCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.stats: list[GroupStats] = []
        self.dead_letters: dict[str, int] = {}

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        found = self.stats
        shown = sorted(found, key=lambda each: (not each.in_flight, each.group_id))
        shown = shown[:GROUPS_SHOWN_MAX]
        left_out = len(found) - len(shown)
        yield GaugeMetricFamily(
            "goqueue_queue_groups_left_out", "Queue groups without series.", value=left_out
        )
        totals = _topic_totals(shown)
        yield from _totals(totals)
        yield _dead(totals)
        yield _show_dead_letters(self.dead_letters)
        yield _unwritten_dead_letters(self._broker.queues.unwritten_dead_letters())
        lanes = _lanes(shown)
        yield from _lane_gauges(lanes)
        yield _show_delivered(lanes)
        yield _oldest(lanes, self._broker.environment.clock.now())


def _topic_totals(shown: Sequence[GroupStats]) -> list[tuple[str, str, Totals]]:
    found: list[tuple[str, str, Totals]] = [
        (group.group_id, topic, totals)
        for group in shown
        for topic, totals in group.topic_totals.items()
    ]
    return found[:TOPICS_SHOWN_MAX]


def _totals(found: Sequence[tuple[str, str, Totals]]) -> Iterator[Metric]:
    for name, meaning, field in _TOTALS:
        family = CounterMetricFamily(f"goqueue_{name}", meaning, labels=["group", "topic"])
        for group, topic, totals in found:
            family.add_metric([group, topic], getattr(totals, field))
        yield family


def _dead(found: Sequence[tuple[str, str, Totals]]) -> Metric:
    family = CounterMetricFamily(
        "goqueue_messages_dead_lettered",
        "Messages that became dead letters.",
        labels=["group", "topic", "reason"],
    )
    for group, topic, totals in found:
        for reason, count in totals.dead.items():
            family.add_metric([group, topic, reason], count)
    return family


def _show_dead_letters(counts: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(
        "goqueue_dead_letters", "Dead letters by source topic.", labels=["topic"]
    )
    for topic, count in counts.items():
        family.add_metric([topic], count)
    return family


def _unwritten_dead_letters(found: Sequence[UnwrittenDeadLetters]) -> Metric:
    family = GaugeMetricFamily(
        "goqueue_dead_letters_unplaced",
        "Dead letters that cannot be written, by source topic.",
        labels=["topic"],
    )
    counts: dict[str, int] = {}
    for each in found:
        counts[each.where.topic] = counts.get(each.where.topic, 0) + each.count
    for topic, count in list(counts.items())[:TOPICS_SHOWN_MAX]:
        family.add_metric([topic], count)
    return family


def _lanes(shown: Sequence[GroupStats]) -> Lanes:
    """Those of a topic's partitions together."""
    found: Lanes = {}
    topics: set[tuple[str, str]] = set()
    for group in shown:
        for partition in group.partitions:
            topics.add((group.group_id, partition.topic))
            if len(topics) > TOPICS_SHOWN_MAX:
                return found
            for lane in partition.lanes:
                key = (group.group_id, partition.topic, lane.priority)
                found.setdefault(key, []).append(lane)
    return found


def _lane_gauges(lanes: Lanes) -> Iterator[Metric]:
    for name, meaning, value in _LANES:
        family = GaugeMetricFamily(
            f"goqueue_{name}", meaning, labels=["group", "topic", "priority"]
        )
        for key, some in lanes.items():
            family.add_metric(key, sum(value(lane) for lane in some))
        yield family


def _show_delivered(lanes: Lanes) -> Metric:
    family = CounterMetricFamily(
        "goqueue_messages_delivered",
        "Deliveries to consumers of queues.",
        labels=["group", "topic", "priority"],
    )
    for key, some in lanes.items():
        family.add_metric(key, sum(lane.delivered for lane in some))
    return family


def _oldest(lanes: Lanes, now: int) -> Metric:
    family = GaugeMetricFamily(
        "goqueue_queue_oldest_seconds",
        "Age of the oldest ready message that is known.",
        labels=["group", "topic", "priority"],
    )
    for key, some in lanes.items():
        times = [lane.oldest for lane in some if lane.oldest is not None]
        family.add_metric(key, max(0, now - min(times)) / 1000 if times else 0)
    return family
