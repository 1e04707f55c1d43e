"""The cluster, as Prometheus sees it at each of its nodes: made at a scrape.

What the metadata says is the same at every node: alerts take the maximum.  What a node counts or
leads is its own: dashboards add it up.  A broker that is alone is a cluster of one node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.broker import Broker
from goqueue.broker.replicas import FollowerLag, follower_lags
from goqueue.cluster.events import EventKind
from goqueue.cluster.health import HealthCount
from goqueue.cluster.metadata import Metadata
from goqueue.model.ids import NodeId
from goqueue.server.exposition import PAUSE

PAUSE_EVERY: Final = 200  # partitions
NODE_STATES: Final = ("active", "fenced", "draining")

_HEALTH: Final = (
    ("under_replicated", "Partitions with a replica that is not in sync."),
    ("under_min_isr", "Partitions with too few replicas in sync for acks=all."),
    ("offline", "Partitions that nobody leads."),
    ("not_preferred", "Partitions that another node leads than the preferred one."),
    ("reassigning", "Partitions whose replicas move."),
)
_COUNTED: Final[tuple[tuple[str, str, EventKind], ...]] = (
    ("isr_shrinks", "Replicas that fell out of sync, seen since the start.", "isr_shrunk"),
    ("isr_expands", "Replicas that came in sync, seen since the start.", "isr_expanded"),
    ("node_fences", "Nodes that stopped answering, seen since the start.", "node_fenced"),
)


class ClusterCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the broker runs, and nobody registers these names twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from _metadata_families(self._broker.metadata)
        yield from self._own_families()
        yield from self._event_families()
        yield from self._lag_families()

    def _own_families(self) -> Iterator[Metric]:
        broker = self._broker
        count, node_id = broker.metadata.partitions, broker.node_id
        yield _gauge(
            "cluster_controller",
            "1 at the node that decides the metadata.",
            broker.cluster.controller_id == node_id,
        )
        yield _gauge("cluster_led_partitions", "This node leads.", count.leader_count(node_id))
        yield _gauge("cluster_replicas", "Of partitions, here.", count.replica_count(node_id))
        coordinating = GaugeMetricFamily(
            "goqueue_cluster_coordinator", "1 where this node coordinates.", labels=["of"]
        )
        coordinating.add_metric(["groups"], broker.groups.is_coordinating)
        coordinating.add_metric(["transactions"], broker.transactions.is_coordinating)
        yield coordinating
        copied = CounterMetricFamily(
            "goqueue_reassignment_bytes",
            "Copied by replicas that moves add: sent by this node, or received.",
            labels=["direction"],
        )
        copied.add_metric(["sent"], broker.cluster.sent_quota.reassigned_bytes)
        copied.add_metric(["received"], broker.cluster.received_quota.reassigned_bytes)
        yield copied

    def _event_families(self) -> Iterator[Metric]:
        counts = self._broker.events.counts
        for name, meaning, kind in _COUNTED:
            yield CounterMetricFamily(f"goqueue_{name}", meaning, value=counts[kind])
        elections = CounterMetricFamily(
            "goqueue_leader_elections",
            "Leaders that were elected, seen since the start; unclean ones may have lost records.",
            labels=["type"],
        )
        elections.add_metric(["clean"], counts["leader_elected"])
        elections.add_metric(["unclean"], counts["leader_elected_uncleanly"])
        yield elections

    def _lag_families(self) -> Iterator[Metric]:
        """By the node that follows, of all that this node leads."""
        metadata, left = self._broker.metadata, 0
        lags: defaultdict[NodeId, list[FollowerLag]] = defaultdict(list)
        for number, bundle in enumerate(self._broker.partitions.bundles()):
            if number % PAUSE_EVERY == 0:
                yield PAUSE
            topic_id = bundle.topic_id
            state = None if topic_id is None else metadata.partitions.find(topic_id, bundle.index)
            for lag in follower_lags(bundle) if state is not None else ():
                lags[lag.node_id].append(lag)
                if state is not None and lag.node_id in state.adding:
                    left += lag.bytes_left
        offsets = GaugeMetricFamily(
            "goqueue_replication_lag_offsets",
            "Offsets that a follower lacks, of all partitions that this node leads.",
            labels=["follower"],
        )
        seconds = GaugeMetricFamily(
            "goqueue_replication_lag_seconds",
            "How long ago a follower had all of the partition in which it is farthest behind.",
            labels=["follower"],
        )
        for node_id, some in sorted(lags.items()):
            offsets.add_metric([str(node_id)], sum(each.offsets_left for each in some))
            seconds.add_metric([str(node_id)], max(each.lag_ms for each in some) / 1000)
        yield from (offsets, seconds)
        yield _gauge(
            "reassignment_left_bytes", "To be copied to new replicas of what this node leads.", left
        )


def _metadata_families(metadata: Metadata) -> Iterator[Metric]:
    count = HealthCount()
    for topic in list(metadata.topics.values()):
        for number, state in enumerate(list(metadata.partitions.of(topic.topic_id))):
            if number % PAUSE_EVERY == 0:
                yield PAUSE
            count.add(state, topic.settings.min_insync_replicas)
    health = count.result(metadata)
    for field, meaning in _HEALTH:
        yield _gauge(f"cluster_{field}_partitions", meaning, getattr(health, field))
    states = Counter(node.state for node in metadata.nodes.members)
    nodes = GaugeMetricFamily(
        "goqueue_cluster_nodes", "Nodes; fenced ones do not answer.", labels=["state"]
    )
    for each in NODE_STATES:
        nodes.add_metric([each], states[each])
    yield nodes


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"goqueue_{name}", meaning, value=value)
