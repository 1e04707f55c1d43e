"""How the replicas of one partition stay the same: roles, commit, in-sync replicas, elections."""

from goqueue.cluster.replication.election import Election, choose_leader, eligible_after
from goqueue.cluster.replication.follower import (
    Diverged,
    Frozen,
    ack_offset,
    find_divergence,
    truncation_offset,
)
from goqueue.cluster.replication.lag import LagLimits
from goqueue.cluster.replication.leader import (
    Assessment,
    FollowerFetch,
    IsrMember,
    IsrProposal,
    Replicas,
    propose_isr,
)
from goqueue.cluster.replication.progress import LostData, ReplicaProgress
from goqueue.cluster.replication.quota import CopyRate, ReplicationQuota
from goqueue.cluster.replication.read_replica import choose_read_replica
from goqueue.cluster.replication.roles import (
    Follower,
    Leader,
    Offline,
    Role,
    effective_min_insync,
)

__all__ = [
    "Assessment",
    "CopyRate",
    "Diverged",
    "Election",
    "Follower",
    "FollowerFetch",
    "Frozen",
    "IsrMember",
    "IsrProposal",
    "LagLimits",
    "Leader",
    "LostData",
    "Offline",
    "ReplicaProgress",
    "Replicas",
    "ReplicationQuota",
    "Role",
    "ack_offset",
    "choose_leader",
    "choose_read_replica",
    "effective_min_insync",
    "eligible_after",
    "find_divergence",
    "propose_isr",
    "truncation_offset",
]
