"""The nodes of a cluster, as they registered, and what became of them.

    registered ──> fenced ──unfence──> active <──> draining ──> removed
                     ^──────── does not answer ──────┘

A node's *epoch* names one registration: what an earlier process of the same node still has on its
way is told from what the present one says.
"""

import msgspec

from goqueue.cluster.errors import NodeNotFound, StaleNodeEpoch
from goqueue.cluster.metadata.records import FeatureRange, NodeRegistered, NodeState
from goqueue.model.config import Address
from goqueue.model.ids import NodeEpoch, NodeId


class Node(msgspec.Struct, frozen=True):
    node_id: NodeId
    directory_id: str
    incarnation: int
    epoch: NodeEpoch
    addresses: dict[str, Address]
    rack: str
    machine: str
    features: dict[str, FeatureRange]
    state: NodeState

    @classmethod
    def of(cls, record: NodeRegistered) -> "Node":
        return cls(**{name: getattr(record, name) for name in cls.__struct_fields__})

    @property
    def record(self) -> NodeRegistered:
        """That makes the same node of a new table."""
        return NodeRegistered(**msgspec.structs.asdict(self))

    def follows(self, before: "Node") -> bool:
        """Whether it registered later, or is the same registration with other addresses."""
        is_same = (self.directory_id, self.incarnation) == (before.directory_id, before.incarnation)
        return self.epoch > before.epoch or (self.epoch == before.epoch and is_same)

    @property
    def is_live(self) -> bool:
        """It answers, so it can lead; one that drains should not for long."""
        return self.state in ("active", "draining")

    @property
    def place(self) -> str:
        """What it shares with nodes that fail together with it."""
        return self.machine or f"node {self.node_id}"


class NodeTable(dict[NodeId, Node]):
    def live(self, node_id: NodeId) -> bool:
        node = self.get(node_id)
        return node is not None and node.is_live

    def active(self, node_id: NodeId) -> bool:
        node = self.get(node_id)
        return node is not None and node.state == "active"

    def in_rack(self, rack: str) -> frozenset[NodeId]:
        """Those that stand there, and that clients may be sent to."""
        return frozenset(
            node.node_id
            for node in self.values()
            if node.rack == rack and node.state == "active" and "kafka" in node.addresses
        )

    @property
    def members(self) -> list[Node]:
        """All but those that were removed."""
        return [node for node in self.values() if node.state != "removed"]

    def at(self, node_id: NodeId, epoch: NodeEpoch | None = None) -> Node:
        """The node; raises `NodeNotFound`, or `StaleNodeEpoch` when it has registered since."""
        node = self.get(node_id)
        if node is None or node.state == "removed":
            raise NodeNotFound(f"the cluster has no node {node_id}")
        if epoch is not None and epoch != node.epoch:
            raise StaleNodeEpoch(
                f"node {node_id} with epoch {epoch}: it has registered again, with {node.epoch}"
            )
        return node

    def next_epoch(self) -> NodeEpoch:
        return NodeEpoch(1 + max((node.epoch for node in self.values()), default=0))
