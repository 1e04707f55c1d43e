"""What the nodes of a cluster agree on."""

from goqueue.cluster import controller
from goqueue.cluster.metadata import (
    NO_LEADER,
    Metadata,
    MetadataRecord,
    Node,
    NodeRegistered,
    PartitionChanged,
    PartitionState,
    SettingsChanged,
    Topic,
    TopicDeleted,
)

__all__ = [
    "NO_LEADER",
    "Metadata",
    "MetadataRecord",
    "Node",
    "NodeRegistered",
    "PartitionChanged",
    "PartitionState",
    "SettingsChanged",
    "Topic",
    "TopicDeleted",
    "controller",
]
