"""Verbs on their way: there and back, refused, and never passed on a second time."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from goqueue.broker.cluster.forwarding import (
    AddPartitions,
    AnyVerb,
    ChangeNode,
    ChangeSettings,
    CreateTopic,
    Decider,
    DeleteTopic,
    ElectLeader,
    ReassignPartition,
    ReserveProducerIds,
    carry_out,
)
from goqueue.cluster import PartitionState
from goqueue.cluster.errors import ElectionNotNeeded, NodeInUse, NoReassignment
from goqueue.model.errors import Fenced, InvalidRequest
from goqueue.model.ids import NodeId
from goqueue.testing.sim import World
from goqueue.wire.node_messages import Forward
from tests.unit.broker.brokers import running


def forward(verb: AnyVerb) -> Forward:
    return Forward("verb", msgspec.Raw(msgspec.msgpack.encode(verb)))


def test_the_controller_carries_verbs_out():
    async def story(world: World) -> None:
        async with running(world.environment("a")) as broker:
            verbs: list[AnyVerb] = [
                CreateTopic("orders", 2, {"retention.ms": "7"}, may_look_alike=False),
                AddPartitions("orders", 3),
                ChangeSettings("orders", {"retention.ms": None}, replace=False),
                ReserveProducerIds(10),
            ]
            ends = [(await carry_out(broker, NodeId(2), forward(verb))).end for verb in verbs]
            assert ends == sorted(set(ends))  # each is committed when it is answered
            topic = broker.topic("orders")
            assert (topic.partitions, topic.overrides) == (3, {})
            answer = await carry_out(broker, NodeId(2), forward(DeleteTopic("orders")))
            assert msgspec.msgpack.decode(answer.reply) == str(topic.topic_id)
            assert broker.topics() == []

    with World() as world:
        world.run(story(world))


def test_the_controller_moves_partitions_for_other_nodes():
    async def story(world: World) -> None:
        async with running(world.environment("a")) as broker:
            topic_id = (await broker.create_topic("orders", partitions=1)).topic_id
            with pytest.raises(ElectionNotNeeded):
                await carry_out(broker, NodeId(2), forward(ElectLeader(topic_id, 0, "preferred")))
            with pytest.raises(NoReassignment):
                await carry_out(broker, NodeId(2), forward(ReassignPartition(topic_id, 0, None)))
            here = ReassignPartition(topic_id, 0, [broker.node_id])
            answer = await carry_out(broker, NodeId(2), forward(here))
            state = msgspec.msgpack.decode(answer.reply, type=PartitionState)
            assert (state.replicas, state.leader) == ((broker.node_id,), broker.node_id)

    with World() as world:
        world.run(story(world))


def test_the_controller_changes_nodes_for_other_nodes():
    async def story(world: World) -> None:
        async with running(world.environment("a")) as broker:
            me = broker.node_id
            await carry_out(broker, NodeId(2), forward(ChangeNode(me, "drain")))
            assert broker.metadata.nodes.at(me).state == "draining"
            await carry_out(broker, NodeId(2), forward(ChangeNode(me, "undrain")))
            assert broker.metadata.nodes.at(me).state == "active"
            with pytest.raises(NodeInUse):
                await carry_out(broker, NodeId(2), forward(ChangeNode(me, "remove")))

    with World() as world:
        world.run(story(world))


@pytest.mark.parametrize("body", [{"verb": "unheard_of"}, {"verb": "delete_topic"}, 7, None])
def test_what_is_no_verb_is_refused(body: Any):
    async def story(world: World) -> None:
        async with running(world.environment("a")) as broker:
            with pytest.raises(InvalidRequest, match="verb 'x'"):
                await carry_out(
                    broker, NodeId(2), Forward("x", msgspec.Raw(msgspec.msgpack.encode(body)))
                )

    with World() as world:
        world.run(story(world))


def test_a_node_that_is_not_the_controller_passes_nothing_on():
    async def story() -> None:
        follower = SimpleNamespace(controller=SimpleNamespace(is_leading=False))
        with pytest.raises(Fenced, match="passes nothing on"):
            await carry_out(cast(Decider, follower), NodeId(2), forward(DeleteTopic("orders")))

    with World() as world:
        world.run(story())
