"""The log of another node, followed over the cluster port: the contract as far as it goes."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence

import pytest
from structlog.testing import capture_logs

from goqueue.broker.metadata.local_log import LocalLog
from goqueue.broker.metadata.remote_log import RemoteLog, serve_follow
from goqueue.cluster.consensus import (
    ConsensusLog,
    Entries,
    Index,
    Leadership,
    Member,
    Snapshot,
    Term,
)
from goqueue.model.errors import CorruptData, Fenced, QuorumUnavailable
from goqueue.model.ids import NodeId
from goqueue.runtime import Environment
from goqueue.server.cluster.listener import ClusterListener, Handler
from goqueue.testing.sim import SimDisk, World
from goqueue.wire.node_messages import (
    MetadataEnd,
    MetadataEndReply,
    MetadataFollow,
    MetadataPart,
    NodeApi,
)
from tests.unit.broker.brokers import LonePartition
from tests.unit.broker.cluster.cluster_hosts import (
    listening,
    peer_on,
)
from tests.unit.cluster.consensus.contract import SCENARIOS, Scenario
from tests.unit.cluster.consensus.quorums import append

ENTRIES = 16


def local_log(environment: Environment) -> LocalLog:
    disk = environment.disk
    assert isinstance(disk, SimDisk)
    return LocalLog(LonePartition(disk), disk, environment.clock, "/snapshots")


def handlers_of(log: ConsensusLog) -> dict[NodeApi, Handler]:
    async def follow(node_id: NodeId, request: MetadataFollow) -> MetadataPart:
        return await serve_follow(log, request)

    async def end(node_id: NodeId, request: MetadataEnd) -> MetadataEndReply:
        return MetadataEndReply(await log.end())

    return {NodeApi.METADATA_FOLLOW: follow, NodeApi.METADATA_END: end}


def remote_log(world: World, host: str) -> RemoteLog:
    questions, following = peer_on(world, host, "a"), peer_on(world, host, "a")
    return RemoteLog(questions, following, world.clock(host))


class ReadFromAfar:
    """Leads and appends at the voter, and reads what came of it over the network."""

    def __init__(self, voter: LocalLog, remote: RemoteLog) -> None:
        self._voter = voter
        self._remote = remote
        self.name = remote.name
        self.failed = None

    async def lead(self, after: Term | None = None) -> Leadership:
        return await self._voter.lead(after)

    async def term(self) -> Term:
        return await self._voter.term()

    def append(self, term: Term, at: Index, values: Sequence[bytes]) -> Awaitable[None]:
        return self._voter.append(term, at, values)

    async def store_snapshot(self, term: Term, at: Index, slices: Iterable[Sequence[bytes]]) -> int:
        return await self._voter.store_snapshot(term, at, slices)

    async def end(self) -> Index:
        return await self._remote.end()

    def follow(self, start: Index) -> AsyncGenerator[Snapshot | Entries, None]:
        return self._remote.follow(start)

    async def members(self) -> Sequence[Member]:
        return await self._remote.members()

    async def close(self) -> None:
        await self._remote.close()


class VoterOnAHost:
    """See `Quorum`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._followers: list[RemoteLog] = []
        self._stack = contextlib.AsyncExitStack()
        self._log: LocalLog
        self._listener: ClusterListener

    async def start(self) -> None:
        environment = self._world.environment("a")
        self._log = local_log(environment)
        await self._stack.enter_async_context(listening(environment, handlers_of(self._log)))

    def connect(self) -> ReadFromAfar:
        self._followers.append(remote_log(self._world, "b"))
        return ReadFromAfar(self._log, self._followers[-1])

    async def restart(self) -> None:
        await self.stop()
        self._world.power_loss("a")
        await self.start()

    async def stop(self) -> None:
        for each in self._followers:
            await each.close()
        await self._stack.aclose()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_followed_log_keeps_the_contract(scenario: Scenario):
    async def story(world: World) -> None:
        quorum = VoterOnAHost(world)
        await quorum.start()
        await scenario(quorum)
        await quorum.stop()

    with World(scenario.__name__) as world:
        world.run(story(world))


def test_a_follower_has_no_vote():
    async def story(world: World) -> None:
        world.environment("a")
        log = remote_log(world, "b")
        with pytest.raises(Fenced):
            await log.lead()
        with pytest.raises(Fenced):
            await log.store_snapshot(Term(1), Index(0), [])
        with pytest.raises(Fenced):
            await log.append(Term(1), Index(0), [b"x"])
        with pytest.raises(QuorumUnavailable):
            await log.end()
        assert [member.problem for member in await log.members()] == ["it does not answer"]

    with World() as world:
        world.run(story(world))


def test_an_older_copy_of_the_metadata_is_not_followed():
    async def story(world: World) -> None:
        log = local_log(world.environment("a"))
        await append(log, (await log.lead()).term, b"only")
        with pytest.raises(CorruptData, match="seen 5 entries of metadata, and there are 1"):
            await serve_follow(log, MetadataFollow(5, 0))

    with World() as world:
        world.run(story(world))


def test_followers_have_everything_once_although_the_network_breaks(seed: int):
    """Two followers; cuts, one way or both, resets, and a voter that is killed or loses power."""

    async def voter(environment: Environment) -> None:
        log = local_log(environment)
        term = (await log.lead()).term
        async with listening(environment, handlers_of(log)):
            while len(written) < ENTRIES:
                value = b"%d/%d" % (len(written), term)
                at = await log.end()
                await log.append(term, at, [value])
                written[at] = value
                if at % 5 == 4:
                    everything = [value for _, value in sorted(written.items())]
                    await log.store_snapshot(term, Index(at + 1), [everything])
                await asyncio.sleep(world.random.uniform(0.0, 0.3))
            await asyncio.Event().wait()

    async def follow(environment: Environment) -> None:
        host = "b" if environment.clock is world.clock("b") else "c"
        position = Index(0)
        async for each in remote_log(world, host).follow(position):
            if isinstance(each, Snapshot):
                seen[host] = list(each.values)
            else:
                assert each.first == len(seen[host]), "no gap, nothing twice"
                seen[host] += each.values

    def break_something() -> None:
        hosts = world.random.sample(["a", "b", "c"], 2)
        match world.random.randrange(6):
            case 0:
                world.fabric.cut(*hosts)
            case 1:
                world.fabric.cut(*hosts, one_way=True)
            case 2:
                world.fabric.reset(*hosts)
            case 3:
                world.fabric.isolate(hosts[0])
            case 4:
                world.kill("a")
            case _:
                world.power_loss("a")

    written: dict[int, bytes] = {}
    seen: dict[str, list[bytes]] = {"b": [], "c": []}
    with capture_logs(), World(seed) as world:
        world.start("a", voter)
        world.start("b", follow)
        world.start("c", follow)
        while len(written) < ENTRIES:
            world.run_for(world.random.uniform(0.1, 2.0))
            break_something()
            world.run_for(world.random.uniform(0.1, 2.0))
            world.fabric.heal()
            if not world.alive("a"):
                world.start("a", voter)
        expected = [value for _, value in sorted(written.items())]
        world.run_until(lambda: len(seen["b"]) == len(seen["c"]) >= ENTRIES, limit_s=60)
        assert seen["b"] == seen["c"]
        assert set(expected) <= set(seen["b"])
