"""What the controller answers to other nodes, and to whom."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from goqueue.broker import Broker
from goqueue.broker.cluster.controller_service import ControllerService
from goqueue.model.errors import DuplicateNodeId, Unauthorized
from goqueue.model.ids import NodeId
from goqueue.testing.sim import World
from goqueue.wire.node_messages import (
    HeartbeatReply,
    MetadataEnd,
    MetadataEndReply,
    NodeAccepted,
    NodeApi,
    NodeHeartbeat,
    RegisterNode,
)
from tests.unit.broker.brokers import running
from tests.unit.broker.cluster.cluster_hosts import ONE

TWO = NodeId(2)


@contextlib.asynccontextmanager
async def serving(world: World) -> AsyncIterator[tuple[Broker, ControllerService]]:
    environment = world.environment("a")
    async with running(environment) as broker:
        yield broker, ControllerService(environment, broker, lambda: ONE)


async def register(service: ControllerService, *, directory: str, incarnation: int) -> NodeAccepted:
    request = RegisterNode(TWO, directory, incarnation, {"cluster": "b:7000"})
    accepted = await service.handlers[NodeApi.REGISTER_NODE](TWO, request)
    assert isinstance(accepted, NodeAccepted)
    return accepted


async def beat(service: ControllerService, epoch: int) -> bool:
    heartbeat = NodeHeartbeat(TWO, epoch, 0)
    reply = await service.handlers[NodeApi.NODE_HEARTBEAT](TWO, heartbeat)
    assert isinstance(reply, HeartbeatReply)
    return reply.is_registered


def test_a_process_is_registered_once_however_often_it_asks():
    async def story(world: World) -> None:
        async with serving(world) as (broker, service):
            first = await register(service, directory="d", incarnation=1)
            assert first == await register(service, directory="d", incarnation=1)
            assert await beat(service, first.epoch)
            second = await register(service, directory="d", incarnation=2)
            assert second.epoch > first.epoch
            assert broker.metadata.nodes[TWO].epoch == second.epoch
            end = await service.handlers[NodeApi.METADATA_END](TWO, MetadataEnd())
            assert end == MetadataEndReply(second.end)
            with pytest.raises(DuplicateNodeId):
                await beat(service, first.epoch)

    with World() as world:
        world.run(story(world))


def test_a_new_controller_asks_nodes_to_register():
    async def story(world: World) -> None:
        async with serving(world) as (broker, service):
            epoch = (await register(service, directory="d", incarnation=1)).epoch
            again = ControllerService(broker.environment, broker, lambda: ONE)
            assert not await beat(again, epoch)
            assert (await register(again, directory="d", incarnation=1)).epoch == epoch
            assert await beat(again, epoch)

    with World() as world:
        world.run(story(world))


def test_a_node_speaks_for_itself_only():
    async def story(world: World) -> None:
        async with serving(world) as (_, service):
            with pytest.raises(Unauthorized, match="node 3 speaks for node 2"):
                await service.handlers[NodeApi.NODE_HEARTBEAT](NodeId(3), NodeHeartbeat(2, 1, 0))
            with pytest.raises(Unauthorized, match="node 3 speaks for node 2"):
                await service.handlers[NodeApi.REGISTER_NODE](
                    NodeId(3), RegisterNode(2, "d", 1, {})
                )

    with World() as world:
        world.run(story(world))
