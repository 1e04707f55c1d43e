"""The cluster as JSON: its nodes, how it is doing, and where partitions are."""

from typing import Annotated, Literal

import msgspec

from goqueue.api.messages import INT32_MAX


class ClusterNode(msgspec.Struct, frozen=True):
    node_id: int
    state: str
    """`active`; `fenced`: it does not answer; `draining`: it is being emptied; `removed`."""
    is_controller: bool
    addresses: dict[str, str]
    """By listener: `kafka`, `http`."""
    rack: str
    machine: str
    leaders: int
    """Partitions that it leads."""
    replicas: int
    epoch: int
    """Rises with every start of a node in the cluster."""
    incarnation: int
    """How often its data directory was started."""
    directory_id: str


class NodeList(msgspec.Struct, frozen=True):
    nodes: list[ClusterNode]


class CoordinatorBody(msgspec.Struct, frozen=True):
    kind: Literal["groups", "transactions"]
    shard: int
    """The partition of `__groups` or `__transactions`."""
    node_id: int | None
    """The node that coordinates it, which leads the partition; null while none does."""
    epoch: int
    """Rises whenever another node takes over."""
    replicas: list[int]
    """Nodes that have a copy of its log; the first is preferred."""
    isr: list[int]
    """Those of them that can take over."""
    size: int | None
    """Its groups or transactional ids; null while its node does not say."""


class CoordinatorList(msgspec.Struct, frozen=True):
    coordinators: list[CoordinatorBody]


class ClusterHealthBody(msgspec.Struct, frozen=True):
    status: Literal["healthy", "under_replicated", "offline"]
    """`offline`: there are partitions that nobody leads."""
    node_id: int
    """The node that answers."""
    is_controller: bool
    """Whether it decides the metadata."""
    controller_id: int | None
    nodes: int
    active_nodes: int
    topics: int
    partitions: int
    under_replicated: int
    """Partitions with a replica that is not in sync."""
    under_min_isr: int
    """Partitions with too few replicas in sync for `acks=all`."""
    offline: int
    """Partitions without a leader."""
    not_preferred: int
    """Partitions whose leader is not the first of their replicas."""
    reassigning: int


class ClusterState(msgspec.Struct, frozen=True):
    cluster_id: str
    controller_id: int | None
    controller_epoch: int
    """The term of the metadata's log that the answering node knows."""
    features: dict[str, int]
    health: ClusterHealthBody
    nodes: list[ClusterNode]


class PartitionPlace(msgspec.Struct, frozen=True):
    partition: int
    leader: int | None
    """None: nobody who may lead it answers."""
    leader_epoch: int
    partition_epoch: int
    """Counts the changes of all that stands here."""
    replicas: list[int]
    """The first one is preferred as leader."""
    isr: list[int]
    """In sync: they have all that is committed."""
    elr: list[int]
    """Eligible: they left the ISR when it was too small to commit anything."""
    offline: list[int]
    """Replicas on nodes that do not answer."""
    adding: list[int]
    removing: list[int]
    sizes: dict[str, int] = {}
    """Bytes by node, of those that answer; only with `sizes`."""


class TopicPlaces(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    replication_factor: int
    min_insync_replicas: int
    partitions: list[PartitionPlace]


class TopicPlaceList(msgspec.Struct, frozen=True, omit_defaults=True):
    topics: list[TopicPlaces]
    next_after: str | None = None
    """There are more: ask again with this as `after`."""


class LocalReplica(msgspec.Struct, frozen=True):
    """Of the node that answers; offsets are of the log as it is there."""

    node_id: int
    role: Literal["leader", "follower", "offline"]
    reason: str
    """Why it is offline; empty otherwise."""
    start_offset: int
    high_watermark: int
    """What is below it is committed."""
    end_offset: int
    size_bytes: int


class PartitionPlaceInfo(msgspec.Struct, frozen=True):
    topic: str
    topic_id: str
    place: PartitionPlace
    local: LocalReplica | None
    """None: this node has no replica."""


PartitionIndex = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
NodeNumbers = Annotated[
    list[Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]], msgspec.Meta(min_length=1)
]


class NodeRemoved(msgspec.Struct, frozen=True):
    node_id: int


class LeaderElection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: str | None = None
    """All topics when absent."""
    partition: PartitionIndex | None = None
    """All partitions when absent."""
    allow_unclean: bool = False
    """Elect a replica that is not in sync where no other answers: what it does not have is lost.
    Without it, partitions are given to their preferred leaders."""


class ElectedLeader(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    leader: int | None
    error: str
    """Why there was no election; empty otherwise."""


class LeaderElectionResult(msgspec.Struct, frozen=True):
    results: list[ElectedLeader]
    """Partitions that needed no election are left out."""


class PartitionMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    partition: PartitionIndex
    new_replicas: NodeNumbers | None = None
    """Nodes; the first one is preferred as leader. Absent: cancel a move that is under way."""


class Reassignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partitions: Annotated[list[PartitionMove], msgspec.Meta(max_length=10_000)] = []
    """None: only the throttle is changed, of what moves already."""
    throttle_bytes_per_sec: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    """Of each node, for what it sends and for what it receives; 0: no limit. Absent: as it is, or
    10485760 when nothing is set."""


class ReplicaCopy(msgspec.Struct, frozen=True):
    """A replica that is added, as the partition's leader measures it."""

    node_id: int
    offset: int
    """All before it is on that node's disk."""
    end_offset: int
    """Of the leader."""
    offsets_left: int
    bytes_left: int
    bytes_total: int
    bytes_per_sec: float
    """Over the last ten seconds."""
    seconds_left: float | None
    """At this rate; None: nothing was copied lately."""


class MovingPartition(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    state: Literal["pending", "catching_up", "completed", "failed"]
    """`pending`: nothing is copied yet. `completed`: the replicas are where they should be."""
    leader: int | None
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    copies: list[ReplicaCopy] = []
    error: str = ""
    """Why it is not moved, or why nothing is known of it; empty otherwise."""


class ReassignmentStatus(msgspec.Struct, frozen=True, kw_only=True):
    partitions: list[MovingPartition]
    throttle_bytes_per_sec: int | None
    """Of each node; None: no limit."""
    bytes_left: int
    """Of all copies together."""
    bytes_total: int
    bytes_per_sec: float
    seconds_left: float | None
    """Until the slowest copy is done, at its present rate."""
