"""Ids that are given out once."""

from goqueue.cluster.metadata import ClusterNamed, Metadata, MetadataRecord, ProducerIdsReserved
from goqueue.model.machine import Decision


def name_cluster(metadata: Metadata, cluster_id: str) -> Decision[MetadataRecord, str]:
    if metadata.cluster_id:
        return Decision((), metadata.cluster_id)
    return Decision((ClusterNamed(cluster_id),), cluster_id)


def reserve_producer_ids(metadata: Metadata, count: int) -> Decision[MetadataRecord, int]:
    """The first of `count` ids that nobody else will get."""
    first = metadata.next_producer_id
    return Decision((ProducerIdsReserved(first + count),), first)
