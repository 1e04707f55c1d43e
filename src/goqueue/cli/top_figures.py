"""What `goqueue top` shows: what changed between two scrapes of all nodes."""

from collections.abc import Iterable, Mapping

import msgspec

from goqueue.cli.samples import Samples, add_buckets, quantile, rate

Scrapes = Mapping[int, Samples]  # by node


class NodeFigures(msgspec.Struct, frozen=True):
    node: int
    state: str
    published_per_second: float = 0.0
    consumed_per_second: float = 0.0
    bytes_in_per_second: float = 0.0
    bytes_out_per_second: float = 0.0
    cpu: float = 0.0
    memory_bytes: int = 0
    connections: int = 0
    leaders: int = 0
    loop_lag_p99_seconds: float | None = None


class TopicFigures(msgspec.Struct, frozen=True):
    topic: str
    published_per_second: float
    consumed_per_second: float
    bytes_in_per_second: float
    publish_p99_seconds: float | None
    delayed: int
    dead_letters: int


class GroupFigures(msgspec.Struct, frozen=True):
    group: str
    topic: str
    lag: int
    oldest_seconds: float
    in_flight: int
    acked_per_second: float
    retried_per_second: float
    end_to_end_p99_seconds: float | None


class TopFigures(msgspec.Struct, frozen=True):
    """All of it, for programs as well."""

    at: str
    seconds: float
    nodes: list[NodeFigures]
    topics: list[TopicFigures]
    groups: list[GroupFigures]
    missing_nodes: list[int]


def node_figures(
    node: int, state: str, before: Samples, after: Samples, seconds: float
) -> NodeFigures:
    def grown(name: str) -> float:
        return rate(before.total(name), after.total(name), seconds)

    lag = "goqueue_event_loop_lag_seconds"
    return NodeFigures(
        node,
        state,
        grown("goqueue_messages_published_total"),
        grown("goqueue_messages_consumed_total"),
        grown("goqueue_bytes_published_total"),
        grown("goqueue_bytes_consumed_total"),
        grown("process_cpu_seconds_total"),
        int(after.total("process_resident_memory_bytes")),
        int(after.total("goqueue_active_connections")),
        int(after.total("goqueue_cluster_led_partitions")),
        quantile(0.99, before.buckets(lag), after.buckets(lag)),
    )


class _Change:
    """Of all nodes together."""

    def __init__(self, before: Scrapes, after: Scrapes, seconds: float) -> None:
        self._pairs = [(before.get(node, Samples()), each) for node, each in after.items()]
        self._seconds = seconds

    def rate(self, name: str, **wanted: str) -> float:
        return sum(
            rate(before.total(name, **wanted), after.total(name, **wanted), self._seconds)
            for before, after in self._pairs
        )

    def total(self, name: str, **wanted: str) -> int:
        return int(sum(after.total(name, **wanted) for _, after in self._pairs))

    def highest(self, name: str, **wanted: str) -> float:
        return max((after.highest(name, **wanted) for _, after in self._pairs), default=0.0)

    def p99(self, histogram: str, **wanted: str) -> float | None:
        before = add_buckets(each.buckets(histogram, **wanted) for each, _ in self._pairs)
        after = add_buckets(each.buckets(histogram, **wanted) for _, each in self._pairs)
        return quantile(0.99, before, after)


def topic_figures(
    before: Scrapes, after: Scrapes, seconds: float, count_max: int
) -> list[TopicFigures]:
    """The busiest first.  Followers copy: only what leaders and readers do is counted."""
    change = _Change(before, after, seconds)
    names = _values(after.values(), "goqueue_messages_published_total", "topic")
    found = [
        TopicFigures(
            topic,
            change.rate("goqueue_messages_published_total", topic=topic),
            change.rate("goqueue_messages_consumed_total", topic=topic),
            change.rate("goqueue_bytes_published_total", topic=topic),
            change.p99("goqueue_message_publish_seconds", topic=topic),
            change.total("goqueue_delayed_messages", topic=topic),
            change.total("goqueue_dead_letters", topic=topic),
        )
        for topic in names
        if not topic.startswith("__")
    ]
    found.sort(key=lambda each: (-each.published_per_second - each.consumed_per_second, each.topic))
    return found[:count_max]


def group_figures(
    before: Scrapes, after: Scrapes, seconds: float, count_max: int
) -> list[GroupFigures]:
    """The slowest first: whose oldest message has waited longest."""
    change = _Change(before, after, seconds)
    pairs = {
        (labels["group"], labels["topic"])
        for each in after.values()
        for name in ("goqueue_consumer_lag", "goqueue_queue_ready")
        for labels, _ in each.of(name)
    }
    found = []
    for group, topic in pairs:
        wanted = {"group": group, "topic": topic}
        backlog = sum(
            change.total(f"goqueue_queue_{kind}", **wanted)
            for kind in ("ready", "in_flight", "waiting")
        )
        found.append(
            GroupFigures(
                group,
                topic,
                max(change.total("goqueue_consumer_lag", **wanted), backlog),
                max(
                    change.highest("goqueue_consumer_lag_seconds", **wanted),
                    change.highest("goqueue_queue_oldest_seconds", **wanted),
                ),
                change.total("goqueue_queue_in_flight", **wanted),
                change.rate("goqueue_messages_acked_total", **wanted),
                change.rate("goqueue_messages_retried_total", **wanted),
                change.p99("goqueue_message_end_to_end_seconds", **wanted),
            )
        )
    found.sort(key=lambda each: (-each.oldest_seconds, -each.lag, each.group, each.topic))
    return found[:count_max]


def _values(every: Iterable[Samples], name: str, label: str) -> set[str]:
    return set[str]().union(*(each.values(name, label) for each in every))
