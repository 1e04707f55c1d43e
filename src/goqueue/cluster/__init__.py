"""What the nodes of a cluster agree on."""

from goqueue.cluster.metadata import Metadata, MetadataRecord, Topic

__all__ = ["Metadata", "MetadataRecord", "Topic"]
