"""What the nodes of a cluster agree on."""

from goqueue.cluster.metadata import (
    Metadata,
    MetadataRecord,
    NodeRegistered,
    SettingsChanged,
    Topic,
    TopicDeleted,
)

__all__ = [
    "Metadata",
    "MetadataRecord",
    "NodeRegistered",
    "SettingsChanged",
    "Topic",
    "TopicDeleted",
]
