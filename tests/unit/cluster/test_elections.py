"""Who may claim the term, and what the new controller writes."""

import pytest

from goqueue.cluster import Metadata, controller
from goqueue.cluster.controller import Registration, electorate, is_vacant
from goqueue.cluster.metadata import NO_NODE, ControllerElected, NodeState
from goqueue.model.config import Address
from goqueue.model.ids import NodeId

ONE, TWO, THREE, FOUR = map(NodeId, (1, 2, 3, 4))


def registration(node_id: NodeId, incarnation: int = 1) -> Registration:
    return Registration(
        node_id=node_id,
        directory_id=f"directory {node_id}",
        incarnation=incarnation,
        addresses={"cluster": Address(f"host{node_id}", 7000)},
    )


def nodes(live: str, *, fenced: str = "", holder: int = 1) -> Metadata:
    metadata = Metadata({}, 10)
    for text in live + fenced:
        state: NodeState = "active" if text in live else "fenced"
        decision = controller.register_node(metadata, registration(NodeId(int(text))), state=state)
        for record in decision.records:
            metadata.apply(record)
    metadata.apply(ControllerElected(1, NodeId(holder), ONE))
    return metadata


def take(metadata: Metadata, term: int, node: Registration) -> list[str]:
    """The kinds of records that are written."""
    first = metadata.controller.formed_by if metadata.controller.term else node.node_id
    decision = controller.take_control(metadata, term, node, cluster_id="made")
    for record in decision.records:
        metadata.apply(record)
    assert metadata.controller == ControllerElected(term, node.node_id, first)
    assert metadata.nodes.live(node.node_id)
    assert metadata.nodes[node.node_id].epoch == decision.reply
    return [str(record.__struct_config__.tag) for record in decision.records]


@pytest.mark.parametrize(
    ("metadata", "me", "asked"),
    [
        pytest.param(Metadata({}, 10), TWO, {TWO}, id="it forms the cluster"),
        pytest.param(nodes("123"), TWO, {TWO, THREE}, id="the silent one is not asked"),
        pytest.param(nodes("12"), TWO, {TWO}, id="of two the one that is left"),
        pytest.param(nodes("1", fenced="2"), TWO, {ONE, TWO}, id="a fenced one asks it, too"),
        pytest.param(nodes("13", fenced="2"), TWO, {ONE, TWO, THREE}, id="and all who are live"),
        pytest.param(nodes("123"), FOUR, set(), id="a stranger has no say"),
        pytest.param(nodes("123", holder=-1), TWO, {ONE, TWO, THREE}, id="nobody is it"),
    ],
)
def test_electorate(metadata: Metadata, me: NodeId, asked: set[NodeId]):
    assert electorate(metadata, me) == asked


@pytest.mark.parametrize(
    ("hears", "expected"),
    [
        ({TWO: False, FOUR: True}, True),
        ({TWO: False, FOUR: None}, True),
        ({TWO: None, FOUR: None}, False),
        ({TWO: True, FOUR: None}, False),
        ({TWO: True, FOUR: True}, False),
    ],
)
def test_a_majority_must_not_hear_the_controller(hears: dict[NodeId, bool | None], expected: bool):
    assert is_vacant(nodes("1234"), THREE, hears) is expected


def test_nodes_that_a_lost_controller_has_fenced_outvote_it():
    metadata = nodes("1", fenced="23")
    assert is_vacant(metadata, TWO, {ONE: None, THREE: False})
    assert not is_vacant(metadata, TWO, {ONE: None, THREE: None})
    assert not is_vacant(nodes("1", fenced="2"), TWO, {ONE: None})


def test_a_controller_that_answers_is_not_replaced():
    assert is_vacant(nodes("12"), TWO, {ONE: None})
    assert not is_vacant(nodes("12"), TWO, {ONE: True})
    assert not is_vacant(nodes("123"), TWO, {ONE: True, THREE: False})


def test_a_stranger_never_finds_the_term_vacant():
    assert not is_vacant(nodes("123"), FOUR, {ONE: False, TWO: False, THREE: False})


def test_the_first_controller_names_the_cluster_and_registers_itself():
    metadata = Metadata({}, 10)
    assert take(metadata, 1, registration(ONE)) == ["cluster", "node", "controller"]
    assert metadata.cluster_id == "made"


def test_a_later_one_keeps_the_name_and_is_registered_once():
    metadata = nodes("123")
    assert take(metadata, 2, registration(TWO)) == ["cluster", "controller"]
    assert take(metadata, 3, registration(THREE)) == ["controller"]
    assert take(metadata, 4, registration(THREE, incarnation=2)) == ["node", "controller"]


def test_a_fenced_controller_is_active_again():
    metadata = nodes("1", fenced="2")
    assert "node-state" in take(metadata, 2, registration(TWO))


def test_who_resigns_leaves_nobody():
    metadata = nodes("12")
    for record in controller.resign_control(metadata, 1).records:
        metadata.apply(record)
    assert metadata.controller == ControllerElected(1, NO_NODE, ONE)


def test_a_snapshot_keeps_the_controller():
    metadata = nodes("12", holder=2)
    again = Metadata({}, 10)
    for record in metadata.snapshot():
        again.apply(again.decode(again.encode(record)))
    assert again.controller == metadata.controller == metadata.copy().controller
    assert again.controller == ControllerElected(1, TWO, ONE)
