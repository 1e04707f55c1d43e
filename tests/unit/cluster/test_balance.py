"""Plans that spread replicas, leaders and bytes with few moves."""

import random
from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cluster.balance import Plan, plan, plan_onto, plan_replacement
from goqueue.cluster.errors import NodeNotFound
from goqueue.cluster.metadata import Metadata, NodeRegistered, NodeState, TopicCreated
from goqueue.cluster.metadata.records import PartitionState
from goqueue.model.errors import InvalidReplicaAssignment
from goqueue.model.ids import (
    NodeEpoch,
    NodeId,
    Timestamp,
    TopicId,
    TopicIdPartition,
    TopicName,
)

MB = 1024 * 1024
TOPIC = TopicId(UUID(int=1))


def sizes(*each: int) -> dict[TopicIdPartition, int]:
    """Of the partitions of the topic, in order."""
    return {TopicIdPartition(TOPIC, index): size for index, size in enumerate(each)}


def cluster(
    partitions: Sequence[Sequence[int]],
    nodes: int = 3,
    *,
    racks: Mapping[int, str] | None = None,
    states: Mapping[int, NodeState] | None = None,
    name: str = "t",
) -> Metadata:
    metadata = Metadata({}, 1000)
    for number in range(1, nodes + 1):
        metadata.apply(
            NodeRegistered(
                NodeId(number),
                f"d{number}",
                1,
                NodeEpoch(number),
                rack=(racks or {}).get(number, ""),
                machine=f"m{number}",
                state=(states or {}).get(number, "active"),
            )
        )
    placements = []
    for each in partitions:
        replicas = tuple(map(NodeId, each))
        live = tuple(node for node in replicas if metadata.nodes.live(node))
        placements.append(PartitionState(replicas, live, live[0]))
    metadata.apply(
        TopicCreated(TOPIC, TopicName(name), len(placements), {}, Timestamp(0), tuple(placements))
    )
    return metadata


def loads(found: Plan) -> dict[int, tuple[int, int]]:
    """Replicas and preferred leaders of each node, afterwards."""
    return {int(node): (load.replicas, load.leaders) for node, load in found.after.items()}


def moved(found: Plan) -> dict[int, list[int]]:
    return {each.partition: list(map(int, each.after)) for each in found.moves}


def test_what_is_even_stays_where_it_is():
    metadata = cluster([[1, 2], [2, 3], [3, 1]])
    assert plan(metadata, {}).moves == []


def test_a_new_node_gets_its_share_with_as_few_moves_as_that_takes():
    metadata = cluster([[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]], nodes=4)
    found = plan(metadata, {})
    assert sorted(load for load, _ in loads(found).values()) == [3, 3, 3, 3]
    copied = [each for each in found.moves if set(each.after) != set(each.before)]
    assert len(copied) == 3


def test_only_onto_the_new_node_when_that_is_asked_for():
    metadata = cluster([[1, 2]] * 6, nodes=4)
    found = plan_onto(metadata, {}, NodeId(4))
    assert loads(found)[4][0] == 3  # a fourth of twelve
    assert loads(found)[3] == (0, 0)
    assert all(4 in each.after for each in found.moves)
    assert loads(found)[4][1] >= 1
    with pytest.raises(NodeNotFound):
        plan_onto(metadata, {}, NodeId(9))


def test_leaders_are_spread_without_copies():
    metadata = cluster([[1, 2, 3]] * 6)
    found = plan(metadata, sizes(*[100 * MB] * 6))
    assert {leaders for _, leaders in loads(found).values()} == {2}
    assert sum(each.size for each in found.moves) == 0


def test_bytes_are_spread_by_exchanges():
    metadata = cluster([[1], [1], [2], [2]], nodes=2)
    found = plan(metadata, sizes(100 * MB, 100 * MB, 1 * MB, 1 * MB))
    after = [load.size for load in found.after.values()]
    assert max(after) - min(after) <= 20 * MB
    assert {load for load, _ in loads(found).values()} == {2}
    assert len(found.moves) == 2


def test_small_differences_of_bytes_are_not_worth_a_copy():
    metadata = cluster([[1], [2]], nodes=2)
    assert plan(metadata, sizes(10 * MB, 0)).moves == []


def test_replicas_of_one_rack_go_apart():
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    metadata = cluster([[1, 2], [3, 4]], nodes=4, racks=racks)
    found = plan(metadata, {})
    for replicas in moved(found).values():
        assert {racks[each] for each in replicas} == {"a", "b"}
    assert len(moved(found)) == 2


def test_a_node_that_leaves_is_emptied_also_of_internal_topics():
    metadata = cluster([[1, 2], [2, 3], [3, 1]], nodes=4, name="__own")
    found = plan(metadata, {}, (NodeId(3),))
    assert loads(found)[3] == (0, 0)
    assert set(moved(found)) == {1, 2}


def test_too_few_nodes_are_told():
    metadata = cluster([[1, 2, 3]])
    with pytest.raises(InvalidReplicaAssignment, match="no other node"):
        plan(metadata, {}, (NodeId(3),))


def test_a_dead_node_is_replaced_in_its_place():
    metadata = cluster([[3, 1], [1, 3], [1, 2]], nodes=4, states={3: "fenced"})
    found = plan_replacement(metadata, {}, NodeId(3), NodeId(4))
    assert moved(found) == {0: [4, 1], 1: [1, 4]}
    for gone, new in ((3, 3), (1, 3)):
        with pytest.raises(InvalidReplicaAssignment):
            plan_replacement(metadata, {}, NodeId(gone), NodeId(new))


def test_fenced_nodes_get_nothing():
    metadata = cluster([[1], [1], [1], [1]], nodes=3, states={3: "fenced"})
    assert loads(plan(metadata, {}))[3] == (0, 0)


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 30))
def test_any_cluster_is_even_afterwards_and_a_second_plan_is_empty(
    seed: int, nodes: int, partitions: int
):
    dice = random.Random(seed)
    factor = dice.randint(1, min(3, nodes))
    places = [dice.sample(range(1, nodes + 1), factor) for _ in range(partitions)]
    found = plan(cluster(places, nodes), {})
    counts = [replicas for replicas, _ in loads(found).values()]
    assert sum(counts) == partitions * factor
    assert max(counts) - min(counts) <= 1
    after = [list(moved(found).get(index, place)) for index, place in enumerate(places)]
    assert all(len(set(each)) == factor for each in after)
    assert plan(cluster(after, nodes), {}).moves == []
