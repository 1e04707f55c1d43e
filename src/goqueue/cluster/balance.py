"""Where replicas had better be: few moves after which all nodes have about the same to do.

    plan          1. replicas on nodes that leave go elsewhere
                  2. replicas of one partition that share a machine or a rack go apart, if they can
                  3. nodes have as many replicas as each other, give or take one
                  4. nodes have as many bytes as each other, within a tenth
                  5. nodes are preferred as leaders equally often: the order of replicas, no copies
    plan_onto     a node that is new gets its fair share, and nothing else moves
    plan_replacement    one node takes the place of another in every partition

Only nodes that are active get replicas.  Partitions that move already, and topics of the cluster's
own, stay where they are, unless their node leaves.  The same metadata gives the same plan.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from goqueue.cluster.metadata import Metadata, Nodes
from goqueue.model.errors import InvalidReplicaAssignment
from goqueue.model.ids import NodeId, TopicId, TopicIdPartition

MOVES_MAX: Final = 10_000
BYTES_TOLERANCE: Final = 0.1  # of the mean
BYTES_WORTH_MIN: Final = 16 * 1024 * 1024  # a smaller difference is not worth a copy

Exchange = tuple[TopicIdPartition, TopicIdPartition | None]  # what is given, and for what
Sizes = Mapping[TopicIdPartition, int]  # bytes of each partition


class NodeLoad(msgspec.Struct, frozen=True):
    replicas: int
    leaders: int  # it is the preferred one of so many
    size: int  # in bytes


class PlannedMove(msgspec.Struct, frozen=True):
    topic_id: TopicId
    partition: int
    before: Nodes
    after: Nodes
    size: int  # in bytes, of all that is copied


class Plan(msgspec.Struct, frozen=True):
    moves: Sequence[PlannedMove]
    before: Mapping[NodeId, NodeLoad]
    after: Mapping[NodeId, NodeLoad]


def plan(metadata: Metadata, sizes: Sizes, leaving: Collection[NodeId] = ()) -> Plan:
    """Raises `InvalidReplicaAssignment` when there are too few other nodes for what leaves."""
    work = _Work(metadata, sizes, leaving)
    work.empty(leaving)
    work.spread()
    work.even_replicas(work.targets)
    work.even_bytes()
    work.even_leaders(work.targets)
    return work.plan()


def plan_onto(metadata: Metadata, sizes: Sizes, node_id: NodeId) -> Plan:
    """Raises `NodeNotFound`, or `InvalidReplicaAssignment` when the node does not answer."""
    metadata.nodes.at(node_id)
    if not metadata.nodes.active(node_id):
        raise InvalidReplicaAssignment(f"node {node_id} does not answer, or drains")
    work = _Work(metadata, sizes)
    work.give_share(node_id)
    work.even_leaders((node_id,))
    return work.plan()


def plan_replacement(metadata: Metadata, sizes: Sizes, gone: NodeId, new: NodeId) -> Plan:
    """Raises `NodeNotFound` or `InvalidReplicaAssignment`."""
    metadata.nodes.at(gone)
    metadata.nodes.at(new)
    if gone == new:
        raise InvalidReplicaAssignment(f"node {gone} cannot take its own place")
    if not metadata.nodes.active(new):
        raise InvalidReplicaAssignment(f"node {new} does not answer, or drains")
    work = _Work(metadata, sizes, (gone,))
    work.empty((gone,), prefer=new)
    return work.plan()


class _Work:
    """A copy of where everything is, which the steps change."""

    def __init__(self, metadata: Metadata, sizes: Sizes, leaving: Collection[NodeId] = ()) -> None:
        self._metadata = metadata
        self._sizes = sizes
        members = metadata.nodes.members
        self._nodes = {node.node_id: node for node in members}
        self.targets = sorted(
            node.node_id
            for node in members
            if node.state == "active" and node.node_id not in leaving
        )
        self._before: dict[TopicIdPartition, Nodes] = {}
        self._now: dict[TopicIdPartition, Nodes] = {}
        self._movable: list[TopicIdPartition] = []
        self._replicas: Counter[NodeId] = Counter()
        self._leaders: Counter[NodeId] = Counter()
        self._bytes: Counter[NodeId] = Counter()
        for topic_id, index, state in metadata.partitions:
            place = TopicIdPartition(topic_id, index)
            after = tuple(each for each in state.replicas if each not in state.removing)
            self._before[place] = self._now[place] = after
            is_internal = metadata.topic_by_id(topic_id).is_internal
            if not is_internal and not state.adding and not state.removing:
                self._movable.append(place)
            self._count(place, after, 1)
        self._loads_before = self._loads()

    def _count(self, place: TopicIdPartition, replicas: Nodes, sign: int) -> None:
        self._leaders[replicas[0]] += sign
        for node_id in replicas:
            self._replicas[node_id] += sign
            self._bytes[node_id] += sign * self._size(place)

    def _size(self, place: TopicIdPartition) -> int:
        return self._sizes.get(place, 0)

    def _loads(self) -> dict[NodeId, NodeLoad]:
        return {
            node_id: NodeLoad(self._replicas[node_id], self._leaders[node_id], self._bytes[node_id])
            for node_id in sorted(self._nodes)
        }

    def plan(self) -> Plan:
        moves = [
            PlannedMove(*place, before, after, self._copy_bytes(place, before, after))
            for place, before in self._before.items()
            if (after := self._now[place]) != before
        ]
        return Plan(moves, self._loads_before, self._loads())

    def _copy_bytes(self, place: TopicIdPartition, before: Nodes, after: Nodes) -> int:
        return self._size(place) * len(set(after) - set(before))

    # --- changes ----------------------------------------------------------------------------------

    def _put(self, place: TopicIdPartition, replicas: Nodes) -> None:
        self._count(place, self._now[place], -1)
        self._now[place] = replicas
        self._count(place, replicas, 1)

    def _replace(self, place: TopicIdPartition, source: NodeId, target: NodeId) -> None:
        replicas = self._now[place]
        self._put(place, tuple(target if each == source else each for each in replicas))

    def _apartness(self, replicas: Iterable[NodeId]) -> tuple[int, int]:
        """How many machines and racks the replicas are on."""
        nodes = [self._nodes[each] for each in replicas if each in self._nodes]
        return len({node.place for node in nodes}), len({node.rack for node in nodes})

    def _stays_apart(self, place: TopicIdPartition, source: NodeId, target: NodeId) -> bool:
        replicas = self._now[place]
        if target in replicas:
            return False
        after = [target if each == source else each for each in replicas]
        before, then = self._apartness(replicas), self._apartness(after)
        return then[0] >= before[0] and then[1] >= before[1]

    # --- steps ------------------------------------------------------------------------------------

    def empty(self, leaving: Collection[NodeId], prefer: NodeId | None = None) -> None:
        for place, replicas in list(self._now.items()):
            for source in replicas:
                if source in leaving:
                    self._replace(place, source, self._successor(place, source, prefer))

    def _successor(self, place: TopicIdPartition, source: NodeId, prefer: NodeId | None) -> NodeId:
        replicas = self._now[place]
        free = [each for each in self.targets if each not in replicas]
        if not free:
            topic = self._metadata.topic_by_id(place[0]).name
            raise InvalidReplicaAssignment(
                f"{topic}-{place[1]} has {len(replicas)} replicas, and there is no other node for"
                f" the one on node {source}: start one, or lower the replication factor"
            )
        if prefer in free and prefer is not None:
            return prefer
        others = [each for each in replicas if each != source]

        def preference(node_id: NodeId) -> tuple[int, int, int, int, NodeId]:
            machines, racks = self._apartness([*others, node_id])
            return -machines, -racks, self._replicas[node_id], self._bytes[node_id], node_id

        return min(free, key=preference)

    def spread(self) -> None:
        """Where replicas share a machine or a rack, and need not."""
        for place in self._movable:
            replicas = self._now[place]
            for source in replicas[1:]:
                best = self._successor_if_any(place, source)
                if best is not None and self._is_farther(place, source, best):
                    self._replace(place, source, best)

    def _successor_if_any(self, place: TopicIdPartition, source: NodeId) -> NodeId | None:
        if all(each in self._now[place] for each in self.targets):
            return None
        return self._successor(place, source, None)

    def _is_farther(self, place: TopicIdPartition, source: NodeId, target: NodeId) -> bool:
        replicas = self._now[place]
        after = [target if each == source else each for each in replicas]
        return self._apartness(after) > self._apartness(replicas)

    def even_replicas(self, receivers: Sequence[NodeId]) -> None:
        for _ in range(MOVES_MAX):
            target = min(receivers, key=self._fullness, default=None)
            if target is None or not self._move_to(target):
                return

    def give_share(self, node_id: NodeId) -> None:
        """To one node, and no more than if all were even."""
        share = sum(self._replicas[each] for each in self.targets) // len(self.targets)
        while self._replicas[node_id] < share and self._move_to(node_id):
            pass

    def _fullness(self, node_id: NodeId) -> tuple[int, int, NodeId]:
        return self._replicas[node_id], self._bytes[node_id], node_id

    def _move_to(self, target: NodeId) -> bool:
        """One replica of the fullest node that can give one."""
        for source in sorted(self.targets, key=self._fullness, reverse=True):
            if self._replicas[source] - self._replicas[target] <= 1:
                return False
            place = self._best_to_give(source, target)
            if place is not None:
                self._replace(place, source, target)
                return True
        return False

    def _best_to_give(self, source: NodeId, target: NodeId) -> TopicIdPartition | None:
        """The one whose size evens out the bytes of the two, of those that can be moved.

        Of the same size, a follower before a preferred leader, unless the source has many leaders.
        """
        wanted = max(0, self._bytes[source] - self._bytes[target]) / 2
        leads_more = self._leaders[source] > self._leaders[target]
        able = (
            place
            for place in self._movable
            if source in self._now[place] and self._stays_apart(place, source, target)
        )

        def preference(place: TopicIdPartition) -> tuple[float, bool]:
            is_leader = self._now[place][0] == source
            return abs(self._size(place) - wanted), is_leader is not leads_more

        return min(able, key=preference, default=None)

    def even_bytes(self) -> None:
        """By exchanges, which leave the numbers of replicas as they are."""
        for _ in range(MOVES_MAX):
            if len(self.targets) < 2 or not self._exchange():
                return

    def _exchange(self) -> bool:
        heavy = max(self.targets, key=lambda each: (self._bytes[each], each))
        light = min(self.targets, key=lambda each: (self._bytes[each], each))
        mean = sum(self._bytes[each] for each in self.targets) / len(self.targets)
        gap = self._bytes[heavy] - self._bytes[light]
        if gap < BYTES_WORTH_MIN or self._bytes[heavy] <= mean * (1 + BYTES_TOLERANCE):
            return False
        given = self._exchangeable(heavy, light)
        taken = self._exchangeable(light, heavy)
        pairs = [(one, other) for one in given for other in (*taken, None)]

        def left(pair: Exchange) -> float:
            return abs(gap - 2 * self._gain(pair))

        pairs = [pair for pair in pairs if self._is_allowed(pair, heavy, light)]
        best = min(pairs, key=left, default=None)
        if best is None or left(best) > gap - BYTES_WORTH_MIN:
            return False
        self._replace(best[0], heavy, light)
        if best[1] is not None:
            self._replace(best[1], light, heavy)
        return True

    def _exchangeable(self, source: NodeId, target: NodeId) -> list[TopicIdPartition]:
        """A few of each size: the largest, and some that are small."""
        able = sorted(
            (
                place
                for place in self._movable
                if source in self._now[place] and self._stays_apart(place, source, target)
            ),
            key=self._size,
            reverse=True,
        )
        return able[:50] + able[50:][-50:]

    def _gain(self, pair: Exchange) -> int:
        given, taken = pair
        return self._size(given) - (0 if taken is None else self._size(taken))

    def _is_allowed(self, pair: Exchange, heavy: NodeId, light: NodeId) -> bool:
        """Without one in return, if the numbers of replicas stay even."""
        if self._gain(pair) <= 0:
            return False
        return pair[1] is not None or self._replicas[heavy] > self._replicas[light]

    def even_leaders(self, receivers: Sequence[NodeId]) -> None:
        """Another replica comes first; nothing is copied for it."""
        for _ in range(MOVES_MAX):
            if not any(self._prefer(each) for each in sorted(receivers, key=self._leaders_of)):
                return

    def _leaders_of(self, node_id: NodeId) -> tuple[int, NodeId]:
        return self._leaders[node_id], node_id

    def _prefer(self, node_id: NodeId) -> bool:
        """In one partition more, if its first replica is on a node that has two more."""
        best = None
        for place in self._movable:
            replicas = self._now[place]
            if node_id not in replicas[1:] or replicas[0] not in self._nodes:
                continue
            excess = self._leaders[replicas[0]] - self._leaders[node_id]
            if excess > 1 and (best is None or excess > best[0]):
                best = excess, place
        if best is None:
            return False
        replicas = self._now[best[1]]
        self._put(best[1], (node_id, *(each for each in replicas if each != node_id)))
        return True
