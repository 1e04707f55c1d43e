"""A process that did not run for a while, by a clock that only the test moves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from goqueue.broker import Broker
from goqueue.broker.cluster.presence import Presence
from goqueue.broker.cluster.sessions import SESSION_NS
from goqueue.cluster.consensus import Index
from goqueue.model.errors import NotCoordinator, QuorumUnavailable
from goqueue.model.ids import GroupId, NodeId
from goqueue.server.kafka.coordinators import check_group
from goqueue.testing.sim import World
from tests.unit.broker.cluster.test_sessions import PausedClock


class Node:
    def __init__(self, world: World) -> None:
        self.clock = PausedClock(world.loop)
        self.end, self.shown = Index(10), Index(10)
        self.asked = 0
        self.problem: QuorumUnavailable | None = None
        self.presence = Presence(self.clock, self.newest, lambda: self.shown, SESSION_NS)

    async def newest(self) -> Index:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        return self.end

    def suspend(self, seconds: float) -> None:
        self.clock.paused_ns += int(seconds * 1e9)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.presence.run())
        await asyncio.sleep(1.0)
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def played(story: Callable[[Node], Awaitable[None]]) -> None:
    async def play(world: World) -> None:
        node = Node(world)
        async with node.running():
            assert (node.presence.is_current, node.asked) == (True, 0)
            await story(node)

    with World() as world:
        world.run(play(world))


def test_a_short_pause_is_no_absence():
    async def story(node: Node) -> None:
        node.suspend(0.2)
        assert node.presence.is_current

    played(story)


def test_after_an_absence_the_newest_metadata_is_waited_for():
    async def story(node: Node) -> None:
        node.end = Index(12)
        node.suspend(5.0)
        assert not node.presence.is_current, "whoever asks first"
        await asyncio.sleep(0.3)
        assert not node.presence.is_current
        node.shown = Index(12)
        await asyncio.sleep(0.2)
        assert (node.presence.is_current, node.asked) == (True, 1)

    played(story)


def test_while_the_metadata_cannot_be_asked_it_stays_away():
    async def story(node: Node) -> None:
        node.problem = QuorumUnavailable("etcd is gone")
        node.suspend(5.0)
        await asyncio.sleep(3.0)
        assert not node.presence.is_current
        node.problem = None
        await asyncio.sleep(0.3)
        assert node.presence.is_current

    played(story)


def test_an_absence_while_it_catches_up_is_another_one():
    async def story(node: Node) -> None:
        node.end = Index(11)
        node.suspend(5.0)
        await asyncio.sleep(0.3)
        node.suspend(5.0)
        assert not node.presence.is_current
        node.shown, node.end = Index(11), Index(12)
        await asyncio.sleep(0.5)
        assert not node.presence.is_current, "what it asked for before the second one is not enough"
        node.shown = Index(12)
        await asyncio.sleep(0.5)
        assert node.presence.is_current

    played(story)


@pytest.mark.parametrize("is_current", [True, False])
def test_a_coordinator_that_was_away_refuses(is_current: bool):
    cluster = SimpleNamespace(is_current=is_current)
    broker: Any = SimpleNamespace(
        cluster=cluster, node_id=NodeId(1), group_coordinator=lambda _: NodeId(1)
    )
    if is_current:
        check_group(cast(Broker, broker), GroupId("readers"))
        return
    with pytest.raises(NotCoordinator, match="away"):
        check_group(cast(Broker, broker), GroupId("readers"))
