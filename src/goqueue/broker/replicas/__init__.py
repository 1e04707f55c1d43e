"""Copying partitions from the nodes that lead them, and telling who is in sync with this one."""

from goqueue.broker.replicas.catch_up_quota import CatchUpQuota
from goqueue.broker.replicas.fetcher import LeaderNode, ReplicationLimits
from goqueue.broker.replicas.fetchers import ReplicaFetchers
from goqueue.broker.replicas.follower_lag import FollowerLag, follower_lags
from goqueue.broker.replicas.isr import Granted, IsrKeeper, LedPartition
from goqueue.broker.replicas.manager import ReplicaManager

__all__ = [
    "CatchUpQuota",
    "FollowerLag",
    "Granted",
    "IsrKeeper",
    "LeaderNode",
    "LedPartition",
    "ReplicaFetchers",
    "ReplicaManager",
    "ReplicationLimits",
    "follower_lags",
]
