"""A peer asks another node over a network that breaks."""

import asyncio
from collections import Counter

import msgspec
import pytest
from structlog.testing import capture_logs

from goqueue.broker.cluster.handshake import Identity
from goqueue.broker.cluster.peer import Peer, Peers
from goqueue.model.errors import (
    DuplicateNodeId,
    Fenced,
    GoQueueError,
    NodeUnreachable,
    ShuttingDown,
    TopicExists,
    Unauthorized,
    Uncertain,
    WrongCluster,
)
from goqueue.model.ids import NodeId
from goqueue.runtime import Environment
from goqueue.server.cluster.listener import Handler
from goqueue.testing.sim import World
from goqueue.wire.node_messages import Forward, Forwarded, NodeApi
from tests.unit.broker.cluster.cluster_hosts import (
    ONE,
    PORT,
    TWO,
    listening,
    peer_on,
    serve_for_ever,
)

NOTHING = msgspec.Raw(msgspec.msgpack.encode(None))


def verb(name: str) -> Forward:
    return Forward(name, NOTHING)


class Counting:
    """Counts what it is asked to do; refuses or waits for some of it."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def handlers(self, environment: Environment) -> dict[NodeApi, Handler]:
        async def forward(node_id: NodeId, request: Forward) -> Forwarded:
            self.done[request.verb] += 1
            if request.verb == "refuse":
                raise TopicExists("it exists")
            if request.verb == "fenced":
                raise Fenced("another node")
            if request.verb == "hang":
                await asyncio.Event().wait()
            return Forwarded(self.done[request.verb], NOTHING)

        return {NodeApi.FORWARD: forward}


def test_a_node_answers_and_refuses():
    async def story(world: World) -> None:
        counting = Counting()
        async with listening(world.environment("a"), counting.handlers(world.environment("a"))):
            peer = peer_on(world, "b", "a")
            assert (await peer.ask(verb("do"), 1.0)).end == 1
            assert peer.node_id == 1
            with pytest.raises(TopicExists, match="it exists"):
                await peer.ask(verb("refuse"), 1.0)
            assert (await peer.ask(verb("do"), 1.0)).end == 2
            peer.close()
            with pytest.raises((NodeUnreachable, ShuttingDown)):
                await peer.ask(verb("do"), 1.0)
        assert counting.done == {"do": 2, "refuse": 1}

    with World() as world:
        world.run(story(world))


def test_answers_find_those_who_asked():
    async def story(world: World) -> None:
        counting = Counting()
        async with listening(world.environment("a"), counting.handlers(world.environment("a"))):
            peer = peer_on(world, "b", "a")
            names = [f"verb {number}" for number in range(30)]
            await asyncio.gather(*(peer.ask(verb(name), 5.0) for name in names))
            peer.close()
        assert counting.done == dict.fromkeys(names, 1)

    with World(7) as world:
        world.run(story(world))


def test_what_is_not_answered_in_time_is_uncertain_and_asked_once():
    async def story(world: World) -> None:
        counting = Counting()
        async with listening(world.environment("a"), counting.handlers(world.environment("a"))):
            peer = peer_on(world, "b", "a")
            with pytest.raises(Uncertain, match="did not answer forward in"):
                await peer.ask(verb("hang"), 1.0)
            assert (await peer.ask(verb("do"), 1.0)).end == 1  # over a new connection
            peer.close()
        assert counting.done == {"hang": 1, "do": 1}

    with World() as world:
        world.run(story(world))


def test_a_node_that_is_not_there_is_unreachable_in_time():
    async def story(world: World) -> None:
        world.environment("a")
        peer = peer_on(world, "b", "a")
        loop = asyncio.get_running_loop()
        before = loop.time()
        with pytest.raises(NodeUnreachable, match="no node at a:7000"):
            await peer.ask(verb("do"), 1.0)
        assert loop.time() - before <= 1.0
        assert peer.was_refused
        world.fabric.cut("a", "b")
        with pytest.raises(NodeUnreachable):
            await peer.ask(verb("do"), 3.0)
        assert not peer.was_refused
        with pytest.raises(NodeUnreachable, match="not known where"):
            await peer_on(world, "b").ask(verb("do"), 0.2)

    with World() as world:
        world.run(story(world))


def test_nobody_waits_for_a_node_that_the_metadata_says_is_gone():
    async def story(world: World) -> None:
        world.environment("a")
        live = {NodeId(1)}
        peers = Peers(
            world.environment("b"),
            lambda: TWO,
            lambda: {NodeId(1): f"a:{PORT}"},
            live.__contains__,
        )
        loop = asyncio.get_running_loop()
        before = loop.time()
        loop.call_later(0.5, live.clear)
        with pytest.raises(NodeUnreachable, match="no node at a:7000"):
            await peers.of(NodeId(1)).ask(verb("do"), 30.0)
        assert 0.5 <= loop.time() - before <= 2.0

    with World() as world:
        world.run(story(world))


@pytest.mark.parametrize(
    ("stranger", "error"),
    [
        (msgspec.structs.replace(TWO, secret=b"a wrong shared secret"), Unauthorized),
        (msgspec.structs.replace(TWO, cluster_id="another"), WrongCluster),
        (msgspec.structs.replace(TWO, node_id=NodeId(1)), DuplicateNodeId),
    ],
)
def test_a_stranger_is_told_why_it_is_refused(stranger: Identity, error: type[GoQueueError]):
    async def story(world: World) -> None:
        counting = Counting()
        async with listening(world.environment("a"), counting.handlers(world.environment("a"))):
            with pytest.raises(error):
                await peer_on(world, "b", "a", identity=stranger).ask(verb("do"), 1.0)
        assert not counting.done

    with World() as world:
        world.run(story(world))


def test_the_next_address_is_asked_when_a_node_does_not_decide():
    async def story(world: World) -> None:
        first, second = Counting(), Counting()
        a, c = world.environment("a"), world.environment("c")
        three = msgspec.structs.replace(ONE, node_id=NodeId(3))
        async with listening(a, first.handlers(a)), listening(c, second.handlers(c), three):
            peer = peer_on(world, "b", "a", "c")
            with pytest.raises(Fenced):
                await peer.ask(verb("fenced"), 1.0)
            assert (await peer.ask(verb("do"), 1.0)).end == 1
            peer.close()
        assert (first.done, second.done) == ({"fenced": 1}, {"do": 1})

    with World() as world:
        world.run(story(world))


def test_a_node_whose_connection_broke_off_is_suspect_until_it_is_reached_or_known_to_be_gone():
    async def story(world: World) -> None:
        counting = Counting()
        peers = Peers(world.environment("b"), lambda: TWO, lambda: {NodeId(1): f"a:{PORT}"})
        peer = peers.another(NodeId(1))

        async def is_suspect_soon() -> bool:
            await asyncio.sleep(0.1)
            return peers.is_suspect(NodeId(1))

        world.start("a", serve_for_ever(counting.handlers))
        await peer.connect(5.0)
        assert not await is_suspect_soon()
        world.kill("a")
        assert await is_suspect_soon()
        world.start("a", serve_for_ever(counting.handlers))
        await peer.connect(5.0)
        assert not await is_suspect_soon()
        world.kill("a")
        assert await is_suspect_soon()
        await asyncio.sleep(2)
        assert not peers.is_suspect(NodeId(1)), "the session has decided by now"
        peer.close()

    with World() as world:
        world.run(story(world))


def test_peers_are_kept_by_number():
    async def story(world: World) -> None:
        counting = Counting()
        addresses = {NodeId(1): f"a:{PORT}"}
        async with listening(world.environment("a"), counting.handlers(world.environment("a"))):
            peers = Peers(world.environment("b"), lambda: TWO, lambda: addresses)
            assert peers.of(NodeId(1)) is peers.of(NodeId(1))
            await peers.of(NodeId(1)).ask(verb("do"), 1.0)
            with pytest.raises(NodeUnreachable):
                await peers.of(NodeId(9)).ask(verb("do"), 0.1)
            peers.close()

    with World() as world:
        world.run(story(world))


def test_requests_are_done_once_or_fail_although_the_network_breaks(seed: int):
    """Whoever got an answer was served once; whoever was not asked, not at all."""

    async def ask_on(peer: Peer, answered: list[str], unasked: list[str]) -> None:
        for number in range(40):
            name = f"verb {number}"
            try:
                await peer.ask(verb(name), 2.0)
            except NodeUnreachable:
                unasked.append(name)
            except Uncertain:
                pass
            else:
                answered.append(name)
            await asyncio.sleep(world.random.uniform(0.0, 0.3))

    async def trouble() -> None:
        while True:
            await asyncio.sleep(world.random.uniform(0.1, 1.5))
            match world.random.randrange(4):
                case 0:
                    world.fabric.cut("a", "b")
                case 1:
                    world.fabric.cut(*world.random.sample(["a", "b"], 2), one_way=True)
                case 2:
                    world.fabric.reset("a", "b")
                case _:
                    world.kill("a")
            await asyncio.sleep(world.random.uniform(0.05, 3.0))
            world.fabric.heal()
            if not world.alive("a"):
                world.start("a", serve_for_ever(counting.handlers))

    async def story() -> None:
        peer = peer_on(world, "b", "a")
        disturbing = asyncio.ensure_future(trouble())
        await ask_on(peer, answered, unasked)
        disturbing.cancel()
        world.fabric.heal()
        if not world.alive("a"):
            world.start("a", serve_for_ever(counting.handlers))
        await peer.ask(verb("last"), 10.0)
        peer.close()

    answered, unasked = list[str](), list[str]()
    with capture_logs(), World(seed) as world:
        counting = Counting()
        world.start("a", serve_for_ever(counting.handlers))
        world.run(story())
        assert answered
        assert all(counting.done[name] == 1 for name in answered)
        assert all(counting.done[name] == 0 for name in unasked)
        assert max(counting.done.values()) == 1
