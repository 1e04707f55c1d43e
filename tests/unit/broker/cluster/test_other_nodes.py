"""Verbs that one node asks of another."""

import pytest

from goqueue.broker.cluster.other_nodes import OtherNodes, Outcome, Verb, outcome_of
from goqueue.model.errors import InvalidRequest, NodeUnreachable, TopicNotFound
from goqueue.model.ids import GroupId, NodeId
from tests.unit.broker.cluster.apart import Apart, led_apart


class Double(Verb[int], frozen=True):
    name = "double"
    reply_type = int

    number: int


class Unheard(Verb[int], frozen=True):
    name = "unheard"
    reply_type = int


def others_of(apart: Apart, host: str) -> OtherNodes:
    found = apart[host].others
    assert found is not None
    return found


def test_a_verb_is_carried_out_at_the_other_node_or_refused_there():
    async def double(asked_by: NodeId, verb: Double) -> int:
        if verb.number < 0:
            raise TopicNotFound(f"no topic {verb.number}")
        return verb.number * 2 + asked_by

    with led_apart() as apart:
        here = others_of(apart, "b")
        others_of(apart, "c").serve(Double, double)
        assert apart.world.run(here.ask(NodeId(3), Double(20))) == 42
        with pytest.raises(TopicNotFound, match="no topic -1"):
            apart.world.run(here.ask(NodeId(3), Double(-1)))
        with pytest.raises(InvalidRequest, match="unheard"):
            apart.world.run(here.ask(NodeId(3), Unheard()))


def test_a_node_that_is_gone_was_asked_nothing():
    with led_apart() as apart:
        apart.nodes.stop("c")
        with pytest.raises(NodeUnreachable, match="node 3"):
            apart.world.run(others_of(apart, "b").ask(NodeId(3), Double(1), seconds=1.0))


def test_the_metadata_says_whom_to_ask():
    with led_apart() as apart:
        here = others_of(apart, "b")
        topic = apart["b"].topic("orders")
        assert [here.leader(topic, index) for index in range(3)] == [1, 2, 3]
        assert here.leaders([topic]) == [1, 2, 3]
        assert here.coordinator(GroupId("g")) == 1
        assert others_of(apart, "a").coordinator(GroupId("g")) is None
        assert here.live == [1, 3]


def test_an_outcome_is_what_was_done_or_why_not():
    assert outcome_of(7).read() == 7
    refused = outcome_of(TopicNotFound("no topic")).read()
    assert isinstance(refused, TopicNotFound)
    assert Outcome(0).read() == 0
