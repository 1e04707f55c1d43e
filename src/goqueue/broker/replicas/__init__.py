"""Copying partitions from the nodes that lead them, and telling who is in sync with this one."""

from goqueue.broker.replicas.fetcher import LeaderNode, ReplicationLimits
from goqueue.broker.replicas.fetchers import ReplicaFetchers
from goqueue.broker.replicas.isr import Granted, IsrKeeper, LedPartition
from goqueue.broker.replicas.manager import ReplicaManager

__all__ = [
    "Granted",
    "IsrKeeper",
    "LeaderNode",
    "LedPartition",
    "ReplicaFetchers",
    "ReplicaManager",
    "ReplicationLimits",
]
