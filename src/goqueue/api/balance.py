"""Rebalancing, events and feature levels of the cluster, as JSON."""

from typing import Annotated, Literal

import msgspec

from goqueue.api.cluster import NodeNumbers, ReassignmentStatus
from goqueue.model.times import TimeText

NodeNumber = Annotated[int, msgspec.Meta(ge=0)]


class Rebalance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: bool = False
    """Only say what would move."""
    onto: NodeNumber | None = None
    """Only give this node its fair share, as after it was added."""
    without: NodeNumbers | None = None
    """Move everything away from these nodes, before they are removed."""
    replace: NodeNumber | None = None
    """Give all replicas of this node to the node `with`, and move nothing else."""
    with_: NodeNumber | None = msgspec.field(name="with", default=None)
    throttle_bytes_per_sec: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    """As of `POST /admin/reassignment`."""


class PlannedPartition(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    replicas: list[int]
    new_replicas: list[int]
    bytes: int
    """That are copied; 0: only the preferred leader is another."""


class PlannedLoad(msgspec.Struct, frozen=True):
    node_id: int
    replicas: int
    new_replicas: int
    leaders: int
    """Partitions that prefer it as leader."""
    new_leaders: int
    bytes: int
    new_bytes: int


class RebalanceResult(msgspec.Struct, frozen=True):
    moves: list[PlannedPartition]
    nodes: list[PlannedLoad]
    bytes: int
    """That are copied in all."""
    reassignment: ReassignmentStatus | None
    """What was begun; None for a dry run."""


class EventBody(msgspec.Struct, frozen=True):
    number: int
    """Rises by one; it is the answering node's own."""
    at: TimeText
    kind: str
    text: str
    node_id: int | None
    topic: str | None
    partition: int | None


class EventList(msgspec.Struct, frozen=True):
    events: list[EventBody]
    """The oldest first: at most 1000, since the answering node started."""


class FeatureBody(msgspec.Struct, frozen=True):
    name: str
    level: int
    """That all nodes work with."""
    is_finalized: bool
    """False: nobody has raised it; it is the level of the first version that had it."""
    min_level: int
    """That all nodes support."""
    max_level: int
    meaning: str


class NodeFeatures(msgspec.Struct, frozen=True):
    node_id: int
    state: Literal["active", "fenced", "draining", "removed"]
    levels: dict[str, tuple[int, int]]
    """The lowest and the highest level that the node supports; empty for older versions."""


class FeatureList(msgspec.Struct, frozen=True):
    features: list[FeatureBody]
    nodes: list[NodeFeatures]


class FeatureUpgrade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    levels: dict[str, Annotated[int, msgspec.Meta(ge=1, le=32_767)]] | None = None
    """Absent: each feature to the highest level that all nodes support."""
    dry_run: bool = False


class NodeRestarts(msgspec.Struct, frozen=True):
    node_id: int
    epoch: int
    """Until now; it has a higher one when it is back."""
