"""A node's own side of its membership, against a controller that answers as it is told."""

import asyncio
import contextlib

import msgspec
import pytest

from goqueue.broker.cluster.membership import Membership
from goqueue.broker.metadata.node_file import REMOTE, NodeFile
from goqueue.model.errors import DuplicateNodeId, WrongDataDirectory
from goqueue.model.ids import NodeId
from goqueue.server.cluster.listener import Handler
from goqueue.testing.sim import World
from goqueue.wire.node_messages import (
    HeartbeatReply,
    NodeAccepted,
    NodeApi,
    NodeHeartbeat,
    RegisterNode,
)
from tests.unit.broker.cluster.cluster_hosts import PORT, TWO, listening

NODE = NodeFile("", NodeId(2), "directory", 3, REMOTE)


class Told:
    """A controller that notes what it is told."""

    def __init__(self) -> None:
        self.registered: list[RegisterNode] = []
        self.beats: list[NodeHeartbeat] = []
        self.error: Exception | None = None

    async def _register(self, node_id: NodeId, request: RegisterNode) -> NodeAccepted:
        if self.error is not None:
            raise self.error
        self.registered.append(request)
        return NodeAccepted(len(self.registered), 0)

    async def _heartbeat(self, node_id: NodeId, request: NodeHeartbeat) -> HeartbeatReply:
        if self.error is not None:
            raise self.error
        self.beats.append(request)
        return HeartbeatReply(request.epoch == len(self.registered))

    @property
    def handlers(self) -> dict[NodeApi, Handler]:
        return {
            NodeApi.REGISTER_NODE: self._register,
            NodeApi.NODE_HEARTBEAT: self._heartbeat,
        }


def member(world: World) -> Membership:
    return Membership(world.environment("b"), NODE, lambda: TWO, lambda: [f"a:{PORT}"])


async def end(membership: Membership, running: "asyncio.Future[None] | None" = None) -> None:
    if running is not None:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    membership.close()
    await membership.log.close()


def test_a_node_beats_ten_times_a_second_and_registers_with_a_new_controller():
    async def story(world: World) -> None:
        membership, told = member(world), Told()
        async with listening(world.environment("a"), told.handlers):
            await membership.register({"cluster": "b:1"})
            running = asyncio.ensure_future(membership.run(lambda: 42))
            await asyncio.sleep(2.0)
            assert membership.is_heard
            assert 15 <= len(told.beats) <= 20
            assert told.beats[-1] == NodeHeartbeat(2, 1, 42)
        (asked,) = told.registered
        assert msgspec.structs.replace(asked, features={}) == RegisterNode(
            2, "directory", 3, {"cluster": "b:1"}
        )
        assert asked.features["transaction.version"] == (1, 2)
        await asyncio.sleep(2.0)
        assert not membership.is_heard
        new = Told()
        async with listening(world.environment("a"), new.handlers):
            await asyncio.sleep(3.0)
            assert membership.is_heard
            assert new.registered == told.registered
            await end(membership, running)

    with World() as world:
        world.run(story(world))


def test_a_node_that_is_told_to_stop_does():
    async def story(world: World) -> None:
        membership, told = member(world), Told()
        async with listening(world.environment("a"), told.handlers):
            await membership.register({})
            told.error = DuplicateNodeId("another one")
            with pytest.raises(DuplicateNodeId):
                await membership.run(lambda: 0)
            await end(membership)

    with World() as world:
        world.run(story(world))


def test_a_refused_registration_is_told():
    async def story(world: World) -> None:
        membership, told = member(world), Told()
        told.error = WrongDataDirectory("an older copy")
        async with listening(world.environment("a"), told.handlers):
            with pytest.raises(WrongDataDirectory, match="an older copy"):
                await membership.register({})
            await end(membership)

    with World() as world:
        world.run(story(world))
