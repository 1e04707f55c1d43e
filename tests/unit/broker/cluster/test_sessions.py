"""Who is alive, by a clock that only the test moves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from goqueue.broker.cluster.sessions import SESSION_NS, NodeSessions
from goqueue.cluster.errors import NodeNotFound
from goqueue.cluster.metadata import Node, NodeRegistered, NodeState
from goqueue.model.errors import DuplicateNodeId, QuorumUnavailable
from goqueue.model.ids import Instant, NodeEpoch, NodeId
from goqueue.testing.sim import SimClock, World
from tests.unit.broker.brokers import CONFIG
from tests.unit.broker.cluster import cluster_world
from tests.unit.broker.cluster.test_failover import three_nodes

NODE = NodeId(2)
FIRST = NodeEpoch(5)


def node(epoch: int = FIRST, node_id: int = NODE, *, state: NodeState = "active") -> Node:
    return Node.of(NodeRegistered(NodeId(node_id), "directory", 1, NodeEpoch(epoch), state=state))


class PausedClock(SimClock):
    """Of a process that did not run for a while: nothing happened, and time has passed."""

    paused_ns = 0

    def instant(self) -> Instant:
        return Instant(super().instant() + self.paused_ns)


class Watched:
    """What the sessions told, and what they were told about ports."""

    def __init__(
        self, world: World, *, is_elected: bool = False, session_ns: int = SESSION_NS
    ) -> None:
        self.clock = PausedClock(world.loop)
        self.told: list[tuple[int, int, bool]] = []
        self.refused: set[NodeId] = set()
        self.failures = 0
        self.removed: set[NodeId] = set()
        self.sessions = NodeSessions(
            self.clock,
            self._is_refused,
            self._on_changed,
            is_elected=is_elected,
            session_ns=session_ns,
        )

    async def _is_refused(self, node_id: NodeId) -> bool:
        await asyncio.sleep(0.01)
        return node_id in self.refused

    async def _on_changed(self, node_id: NodeId, epoch: NodeEpoch, is_active: bool) -> None:
        if node_id in self.removed:
            raise NodeNotFound("it was removed")
        if self.failures:
            self.failures -= 1
            raise QuorumUnavailable("not now")
        self.told.append((node_id, epoch, is_active))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[NodeSessions]:
        task = asyncio.ensure_future(self.sessions.run())
        try:
            yield self.sessions
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def beat_for(self, seconds: float, node_id: NodeId = NODE) -> None:
        for _ in range(int(seconds * 10)):
            self.sessions.beat(node_id, FIRST, 7)
            await asyncio.sleep(0.1)


def test_a_node_that_was_removed_is_forgotten():
    async def story(world: World) -> None:
        watched = Watched(world)
        async with watched.running() as sessions:
            sessions.begin(node(), 0)
            watched.removed.add(NODE)
            await asyncio.sleep(10.0)
            assert sessions.find(NODE) is None
            assert not watched.told

    with World() as world:
        world.run(story(world))


@pytest.mark.parametrize("is_elected", [False, True])
def test_a_longer_session_is_waited_for(is_elected: bool):
    async def story(world: World) -> None:
        watched = Watched(world, is_elected=is_elected, session_ns=3_000_000_000)
        async with watched.running() as sessions:
            sessions.begin(node(), 0)
            sessions.begin(node(FIRST, 3), 0)
            await asyncio.sleep(1.0)
            await watched.beat_for(1.9)
            assert sessions.active == [NODE, 3], "it is silent for 2.9 s"
            await watched.beat_for(0.3)
            assert sessions.active == [NODE]

    with World() as world:
        world.run(story(world))


def test_a_node_that_beats_stays_alive_and_a_silent_one_does_not():
    async def story(world: World) -> None:
        watched = Watched(world)
        async with watched.running() as sessions:
            assert not sessions.beat(NODE, FIRST, 0)  # not registered here
            sessions.begin(node(), 0)
            sessions.begin(node(6, 3), 0)
            await watched.beat_for(3.0)
            assert watched.told == [(3, 6, False)]
            assert sessions.active == [NODE]
            found = sessions.find(NODE)
            assert found is not None
            assert found.applied == 7
            await asyncio.sleep(0.6)
            assert sessions.active == [NODE]
            await asyncio.sleep(0.4)
            assert sessions.active == []
            sessions.beat(NODE, FIRST, 0)
            await asyncio.sleep(0.1)
            assert watched.told[1:] == [(NODE, FIRST, False), (NODE, FIRST, True)]

    with World() as world:
        world.run(story(world))


def test_a_node_is_active_when_it_has_caught_up():
    async def story(world: World) -> None:
        watched = Watched(world)
        async with watched.running() as sessions:
            sessions.begin(node(state="fenced"), 8)
            await watched.beat_for(1.0)  # it shows what is below 7
            assert watched.told == []
            sessions.beat(NODE, FIRST, 8)
            await asyncio.sleep(0.1)
            assert watched.told == [(NODE, FIRST, True)]

    with World() as world:
        world.run(story(world))


def test_a_refused_connection_ends_the_session_at_once():
    async def story(world: World) -> None:
        watched = Watched(world)
        watched.refused = {NODE}
        async with watched.running() as sessions:
            sessions.begin(node(), 0)
            sessions.connection_lost(NODE)
            await asyncio.sleep(0.1)
            assert watched.told == [(NODE, FIRST, False)]
            sessions.begin(node(9), 0)  # it is started again
            await asyncio.sleep(0.1)
            assert sessions.active == [NODE]

    with World() as world:
        world.run(story(world))


def test_a_lost_connection_without_refusal_waits_for_the_session():
    async def story(world: World) -> None:
        watched = Watched(world)
        async with watched.running() as sessions:
            sessions.begin(node(), 0)
            sessions.connection_lost(NODE)
            sessions.connection_lost(NodeId(77))  # nobody
            await asyncio.sleep(0.6)
            assert watched.told == []
            await asyncio.sleep(0.4)
            assert watched.told == [(NODE, FIRST, False)]

    with World() as world:
        world.run(story(world))


def test_an_earlier_process_is_told_to_stop():
    async def story(world: World) -> None:
        sessions = Watched(world).sessions
        sessions.begin(node(), 0)
        sessions.begin(node(6), 0)
        with pytest.raises(DuplicateNodeId, match="another process has registered as node 2"):
            sessions.beat(NODE, FIRST, 0)
        assert sessions.beat(NODE, NodeEpoch(6), 0)

    with World() as world:
        world.run(story(world))


def test_what_could_not_be_noted_is_tried_again():
    async def story(world: World) -> None:
        watched = Watched(world)
        watched.failures = 3
        async with watched.running() as sessions:
            sessions.begin(node(), 0)
            await asyncio.sleep(1.5)
            assert watched.told == [(NODE, FIRST, False)]

    with World() as world:
        world.run(story(world))


def test_a_controller_that_did_not_run_itself_judges_nobody_by_it():
    async def story(world: World) -> None:
        watched = Watched(world)
        async with watched.running() as sessions:
            sessions.begin(node(), 0)
            await asyncio.sleep(0.2)
            watched.clock.paused_ns = 30_000_000_000
            await watched.beat_for(1.0)
            assert watched.told == []

    with World() as world:
        world.run(story(world))


def test_a_controller_that_hears_no_majority_waits_to_be_replaced():
    async def story(world: World, *, is_elected: bool) -> list[tuple[int, int, bool]]:
        watched = Watched(world, is_elected=is_elected)
        async with watched.running() as sessions:
            for number in (2, 3):
                sessions.begin(node(node_id=number), 0)
            await asyncio.sleep(2.0)
            early = list(watched.told)
            await asyncio.sleep(1.0)
            assert [each[0] for each in watched.told] == [2, 3], "in the end it does judge"
        return early

    with World() as world:
        assert world.run(story(world, is_elected=True)) == []
        assert len(world.run(story(world, is_elected=False))) == 2


def test_one_silent_node_of_three_is_noticed_after_a_session():
    async def story(world: World) -> None:
        watched = Watched(world, is_elected=True)
        async with watched.running() as sessions:
            for number in (2, 3):
                sessions.begin(node(node_id=number), 0)
            await watched.beat_for(1.5)
            assert watched.told == [(3, FIRST, False)]

    with World() as world:
        world.run(story(world))


@pytest.mark.parametrize(("session_ms", "state"), [(750, "fenced"), (3_000, "active")])
def test_nodes_are_waited_for_as_the_setting_says(
    session_ms: int, state: str, monkeypatch: pytest.MonkeyPatch
):
    cluster = msgspec.structs.replace(CONFIG.cluster, session_ms=session_ms)
    config = msgspec.structs.replace(CONFIG, cluster=cluster)
    monkeypatch.setattr(cluster_world, "CONFIG", config)
    with three_nodes() as nodes:
        nodes.world.pause("b")
        nodes.world.run_for(1.5)
        assert nodes.state_of(2) == state
        nodes.world.resume("b")
