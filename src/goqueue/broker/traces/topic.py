"""`__traces`: the internal topic that has the history of events.

In a cluster the node that decides about the metadata creates it, when a node has events.  A broker
that is alone has a log of that name instead.  What is retained is by time and by size.
"""

from collections.abc import Callable
from typing import Final, Protocol
from uuid import uuid5

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.coordinator_topics import NAMESPACE, TRACES_TOPIC
from goqueue.broker.metadata.controller import Controller
from goqueue.cluster import Metadata, MetadataRecord, Topic, controller
from goqueue.model.config import Config, TracesConfig
from goqueue.model.errors import TopicExists
from goqueue.model.ids import TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.runtime import Environment

PARTITIONS: Final = 3  # in a cluster: several nodes share the writes
SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
SEGMENT_BYTES_MIN: Final = 1024 * 1024
SEGMENT_MS_MAX: Final = 3_600_000


class TopicCreator(Protocol):
    config: Config
    environment: Environment
    cluster: ClusterNode

    @property
    def controller(self) -> Controller: ...

    @property
    def metadata(self) -> Metadata: ...


def decides(broker: TopicCreator) -> bool:
    """Whether this node may create it."""
    return broker.cluster.elsewhere is None and broker.controller.is_leading


async def create_traces_topic(broker: TopicCreator) -> Topic:
    config = broker.config
    now: Callable[[], int] = broker.environment.clock.now

    def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
        return controller.create_topic(
            metadata,
            TopicName(TRACES_TOPIC),
            topic_id=TopicId(uuid5(NAMESPACE, f"{metadata.cluster_id}/{TRACES_TOPIC}")),
            partitions=PARTITIONS,
            settings=settings_of(config.traces),
            now=now(),  # type: ignore[arg-type] # it is a timestamp
            may_look_alike=True,
            replication_factor=config.topics.replication or None,
        )

    try:
        return await broker.controller.change(decide)
    except TopicExists:
        return broker.metadata.topic(TRACES_TOPIC)


def settings_of(config: TracesConfig) -> dict[str, str]:
    """Nothing is synced for it alone: events follow what they tell of."""
    segment = SEGMENT_BYTES_MAX
    if config.retention_bytes >= 0:
        segment = max(SEGMENT_BYTES_MIN, min(segment, config.retention_bytes // 4))
    segment_ms = SEGMENT_MS_MAX
    if config.retention_ms >= 0:
        segment_ms = max(1_000, min(segment_ms, config.retention_ms // 4))
    return {
        "flush": "interval",
        "min.insync.replicas": "1",
        "max.message.bytes": "100000000",
        "retention.ms": str(config.retention_ms),
        "retention.bytes": str(config.retention_bytes),
        "segment.bytes": str(segment),
        "segment.ms": str(segment_ms),
    }
