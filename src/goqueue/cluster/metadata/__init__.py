"""What the nodes of a cluster agree on, as a machine over its records."""

from goqueue.cluster.metadata.machine import Metadata
from goqueue.cluster.metadata.nodes import Node, NodeTable
from goqueue.cluster.metadata.partitions import PartitionTable, placed, role_of
from goqueue.cluster.metadata.records import (
    NO_LEADER,
    ClusterNamed,
    ConfigChanged,
    FeatureLevel,
    FeatureRange,
    GroupConfigsTakenOver,
    MetadataRecord,
    NodeChanged,
    NodeRegistered,
    Nodes,
    NodeState,
    PartitionChanged,
    PartitionsAdded,
    PartitionState,
    ProducerIdsReserved,
    ReplicaGone,
    SettingsChanged,
    TopicCreated,
    TopicDeleted,
    TopicsPlaced,
)
from goqueue.cluster.metadata.topics import Topic, merged

__all__ = [
    "NO_LEADER",
    "ClusterNamed",
    "ConfigChanged",
    "FeatureLevel",
    "FeatureRange",
    "GroupConfigsTakenOver",
    "Metadata",
    "MetadataRecord",
    "Node",
    "NodeChanged",
    "NodeRegistered",
    "NodeState",
    "NodeTable",
    "Nodes",
    "PartitionChanged",
    "PartitionState",
    "PartitionTable",
    "PartitionsAdded",
    "ProducerIdsReserved",
    "ReplicaGone",
    "SettingsChanged",
    "Topic",
    "TopicCreated",
    "TopicDeleted",
    "TopicsPlaced",
    "merged",
    "placed",
    "role_of",
]
