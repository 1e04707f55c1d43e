"""The partitions of all topics: where their replicas are, who leads, who is in sync.

Invariants, asserted with every change:

    the leader is in sync, or there is none      who is in sync or eligible has a replica
    nobody is both in sync and eligible          somebody is in sync, eligible, or the last known
    epochs never fall                            a fenced node leads nothing
    who is added or removed has a replica        a removed node has no replica
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from goqueue.cluster.metadata.records import (
    NO_LEADER,
    Nodes,
    PartitionChanged,
    PartitionState,
    Placements,
)
from goqueue.cluster.replication import Follower, Leader, Offline, Role
from goqueue.model.ids import Epoch, NodeId, TopicId

FIRST_EPOCH = Epoch(0)


def place_partition(replicas: Nodes, isr: Nodes | None = None) -> PartitionState:
    """A new partition; who is in sync comes from the replicas, in their order."""
    in_sync = replicas if isr is None else isr
    return PartitionState(replicas, in_sync, in_sync[0])


def pack_placements(states: Sequence[PartitionState]) -> Placements:
    """As a record has them: once, if they are all the same."""
    is_same = bool(states) and all(state == states[0] for state in states)
    return (states[0],) if is_same else tuple(states)


def apply_change(state: PartitionState, record: PartitionChanged) -> PartitionState:
    fields = {name: value for name in _CHANGEABLE if (value := getattr(record, name)) is not None}
    after = msgspec.structs.replace(state, partition_epoch=record.partition_epoch, **fields)
    if record.unclean:
        after = msgspec.structs.replace(after, unclean_epoch=after.leader_epoch)
    assert after.partition_epoch == state.partition_epoch + 1, "each change counts"
    assert after.leader_epoch >= state.leader_epoch, "leader epochs never fall"
    led = after.leader != state.leader and after.leader != NO_LEADER
    assert not led or after.leader_epoch > state.leader_epoch, "a new leader has a new epoch"
    return after


_CHANGEABLE = (
    "leader",
    "leader_epoch",
    "isr",
    "elr",
    "last_known_elr",
    "replicas",
    "adding",
    "removing",
)


def check(state: PartitionState) -> None:
    replicas, isr, elr = set(state.replicas), set(state.isr), set(state.elr)
    assert replicas, "a partition has a replica"
    assert len(replicas) == len(state.replicas), "a node has one replica"
    assert state.leader == NO_LEADER or state.leader in isr, "the leader is in sync"
    assert isr <= replicas, "who is in sync has a replica"
    assert elr <= replicas, "who is eligible has a replica"
    assert not isr & elr, "who is in sync is not merely eligible"
    assert isr or elr or state.last_known_elr, "somebody knew what was committed"
    moving = {*state.adding, *state.removing}
    assert moving <= replicas, "who is added or removed has a replica"
    assert not set(state.adding) & set(state.removing), "nobody both comes and goes"


def role_of(state: PartitionState, node_id: NodeId) -> Role:
    """What the node is to the partition."""
    epoch = state.leader_epoch
    if state.leader == node_id:
        return Leader(
            node=node_id,
            epoch=epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=frozenset(state.isr),
        )
    if state.leader == NO_LEADER:
        return Offline("no replica that is in sync is there to lead", epoch)
    if node_id not in state.replicas:
        return Offline(f"node {state.leader} leads it", epoch, state.leader)
    return Follower(state.leader, epoch)


class PartitionTable:
    """By topic.  A topic from before placements were kept has none, until `TopicsPlaced`."""

    def __init__(self) -> None:
        self._states: dict[TopicId, list[PartitionState]] = {}
        self._replicas: Counter[NodeId] = Counter()  # how many a node has
        self._leaders: Counter[NodeId] = Counter()  # how many it leads
        self._known: dict[PartitionState, PartitionState] = {}  # new ones are much the same

    def copy(self) -> "PartitionTable":
        copy = PartitionTable()
        copy._states = {topic_id: list(states) for topic_id, states in self._states.items()}
        copy._replicas = self._replicas.copy()
        copy._leaders = self._leaders.copy()
        copy._known = self._known.copy()
        return copy

    # --- looking ----------------------------------------------------------------------------------

    def of(self, topic_id: TopicId) -> Sequence[PartitionState]:
        return self._states.get(topic_id, ())

    def find(self, topic_id: TopicId, index: int) -> PartitionState | None:
        states = self._states.get(topic_id, ())
        return states[index] if 0 <= index < len(states) else None

    def replica_count(self, node_id: NodeId) -> int:
        return self._replicas[node_id]

    def leader_count(self, node_id: NodeId) -> int:
        return self._leaders[node_id]

    @property
    def topic_count(self) -> int:
        """Of topics that have a place."""
        return len(self._states)

    def is_all_led_by(self, node_id: NodeId) -> bool:
        """Whether the node has the only replica of everything, and leads it."""
        count = self._replicas[node_id]
        return count == self._replicas.total() == self._leaders[node_id]

    def __iter__(self) -> Iterator[tuple[TopicId, int, PartitionState]]:
        for topic_id, states in self._states.items():
            for index, state in enumerate(states):
                yield topic_id, index, state

    # --- changing ---------------------------------------------------------------------------------

    def add(
        self,
        topic_id: TopicId,
        states: Sequence[PartitionState],
        count: int,
        check_nodes: Callable[[PartitionState], None],
    ) -> None:
        """A state for each of `count` partitions, or one for all of them."""
        if not states:
            return
        assert len(states) in (1, count), "one for each, or one for all"
        known = self._states.setdefault(topic_id, [])
        each = count if len(states) == 1 else 1
        for state in states:
            found = self._known.get(state)
            if found is None:
                check(state)
                found = state
                if state.partition_epoch == 0:
                    self._known[state] = state
            check_nodes(found)
            known.extend([found] * each)
            self._count(found, each)

    def replace(self, topic_id: TopicId, index: int, state: PartitionState) -> None:
        check(state)
        states = self._states[topic_id]
        self._count(states[index], -1)
        self._count(state, 1)
        states[index] = state

    def remove(self, topic_id: TopicId) -> None:
        for state in self._states.pop(topic_id, ()):
            self._count(state, -1)

    def _count(self, state: PartitionState, by: int) -> None:
        for node_id in state.replicas:
            self._replicas[node_id] += by
        self._leaders[state.leader] += by
