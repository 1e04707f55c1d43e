"""Which nodes a partition's replicas are put on.

In this order: different machines, nodes that answer, different racks, nodes that have few.  The
same metadata gives the same placement.  A node that is fenced may be given a replica, for it will
be back: it is not in sync, and does not lead.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from goqueue.cluster.metadata import (
    Metadata,
    Node,
    NodeTable,
    PartitionState,
    Placements,
    pack_placements,
    place_partition,
)
from goqueue.model.errors import InvalidReplicaAssignment, InvalidReplication
from goqueue.model.ids import NodeId

REPLICATION_FACTOR: Final = 3  # by default, if there are so many machines


def default_replication_factor(nodes: NodeTable) -> int:
    """Two replicas on one machine are lost together, so they would only look safe."""
    machines = {node.place for node in _usable(nodes)}
    return max(1, min(REPLICATION_FACTOR, len(machines)))


def place(metadata: Metadata, partitions: int, replication_factor: int) -> Placements:
    """Raises `InvalidReplication` when there are too few nodes."""
    usable = _usable(metadata.nodes)
    if not 1 <= replication_factor <= len(usable):
        there = "is one node" if len(usable) == 1 else f"are {len(usable)} nodes"
        raise InvalidReplication(f"replication factor {replication_factor}, and there {there}")
    if not any(node.state == "active" for node in usable):
        raise InvalidReplication("no node answers that could lead the partitions")
    if len(usable) == 1:
        return (place_partition((usable[0].node_id,)),)
    choice = _Choice(metadata, usable)
    return pack_placements([choice.place(replication_factor) for _ in range(partitions)])


def place_as_told(
    metadata: Metadata, assignments: Sequence[Sequence[NodeId]], partitions: int
) -> Placements:
    """Raises `InvalidReplicaAssignment`."""
    if len(assignments) != partitions:
        raise InvalidReplicaAssignment(
            f"{len(assignments)} lists of replicas for {partitions} partitions"
        )
    if len({len(each) for each in assignments}) > 1:
        raise InvalidReplicaAssignment("partitions of one topic have equally many replicas")
    for replicas in assignments:
        check_replicas(metadata.nodes, replicas)
    return pack_placements([_as_told(metadata.nodes, tuple(each)) for each in assignments])


def check_replicas(nodes: NodeTable, replicas: Sequence[NodeId]) -> None:
    if not replicas:
        raise InvalidReplicaAssignment("a partition has at least one replica")
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"replicas {list(replicas)}: a node is named twice")
    there = {node.node_id for node in nodes.members}
    if not set(replicas) <= there:
        known = ", ".join(map(str, sorted(there)))
        only = f"is only node {known}" if len(there) == 1 else f"are only nodes {known}"
        raise InvalidReplicaAssignment(f"replicas on nodes {list(replicas)}; there {only}")


def _as_told(nodes: NodeTable, replicas: tuple[NodeId, ...]) -> PartitionState:
    in_sync = tuple(node_id for node_id in replicas if nodes.live(node_id))
    if not in_sync:
        raise InvalidReplicaAssignment(f"replicas {list(replicas)}: none of these nodes answers")
    return place_partition(replicas, in_sync)


def _usable(nodes: NodeTable) -> list[Node]:
    """Not those that go."""
    return [node for node in nodes.values() if node.state in ("active", "fenced")]


class _Choice:
    """Counts what it has placed, so that the next partition goes elsewhere."""

    def __init__(self, metadata: Metadata, usable: Sequence[Node]) -> None:
        count = metadata.partitions
        self._nodes = {node.node_id: node for node in usable}
        self._active = [node.node_id for node in usable if node.state == "active"]
        self._replicas = Counter({each: count.replica_count(each) for each in self._nodes})
        self._leaders = Counter({each: count.leader_count(each) for each in self._nodes})
        self._placed: Counter[NodeId] = Counter()  # leaders of the partitions that are placed now

    def place(self, replication_factor: int) -> PartitionState:
        first = min(self._active, key=self._load_of)
        replicas = [first]
        left = self._nodes.keys() - {first}
        while len(replicas) < replication_factor:
            chosen = self._next(replicas, left)
            replicas.append(chosen)
            left.discard(chosen)
        self._leaders[first] += 1
        self._placed[first] += 1
        self._replicas.update(replicas)
        active = tuple(each for each in replicas if self._nodes[each].state == "active")
        return place_partition(tuple(replicas), active)

    def _load_of(self, node_id: NodeId) -> tuple[int, int, int, NodeId]:
        """A topic is spread over all nodes first: its load is its own, whatever others have."""
        leaders, replicas = self._leaders[node_id], self._replicas[node_id]
        return self._placed[node_id], leaders, replicas, node_id

    def _next(self, replicas: Sequence[NodeId], left: set[NodeId]) -> NodeId:
        places = {self._nodes[each].place for each in replicas}
        racks = {self._nodes[each].rack for each in replicas}

        def preference(node_id: NodeId) -> tuple[bool, bool, bool, int, NodeId]:
            node = self._nodes[node_id]
            return (
                node.place in places,
                node.state != "active",
                node.rack in racks,
                self._replicas[node_id],
                node_id,
            )

        return min(left, key=preference)
