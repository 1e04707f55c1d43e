"""Two nodes on a simulated network that copy each other's partitions, as their roles say."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest

from goqueue.broker import Partition
from goqueue.broker.cluster.handshake import Identity
from goqueue.broker.cluster.leader_peer import LeaderPeer
from goqueue.broker.cluster.peer import Peer
from goqueue.broker.replicas import ReplicaManager, ReplicationLimits
from goqueue.broker.storage.bundle import DATA, LEDGER
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Topic
from goqueue.cluster.replication import Follower, Leader, Offline, Role
from goqueue.log.replica import Replica
from goqueue.model.config import StorageConfig
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.ids import Epoch, NodeEpoch, NodeId, Timestamp, TopicId, TopicName
from goqueue.model.settings import topic_settings
from goqueue.runtime import Environment
from goqueue.server.cluster.listener import ClusterListener
from goqueue.server.cluster.replica_fetch import replica_fetch_handler
from goqueue.server.kafka.replica_sessions import ReplicaSessions
from goqueue.testing.sim import SimDisk, World
from goqueue.wire.apis import ApiKey
from tests.unit.broker.cluster.cluster_hosts import PORT, NoMetrics
from tests.unit.broker.replicas.replicas import content, write

ONE, TWO = NodeId(1), NodeId(2)
SETTINGS = {"min.insync.replicas": "2", "segment.bytes": "1024"}
TOPIC = Topic(
    TopicId(UUID(int=7)), TopicName("t"), 2, SETTINGS, topic_settings(SETTINGS), Timestamp(0), 2
)


async def nothing(_partition: Partition) -> None:
    return


class NodeUnderTest:
    def __init__(self, environment: Environment, node: NodeId) -> None:
        self.node = node
        self.environment = environment
        config = StorageConfig(free_bytes_min=0)
        self.partitions = Partitions(environment, "/data", config, node_id=node, on_opened=nothing)
        self.partitions.replica_of = Replica
        self.partitions.role_of = lambda _topic_id, _index: Offline("not told", Epoch(0))
        self.problems: list[GoQueueError] = []
        self.manager = ReplicaManager(
            self.partitions,
            environment.clock,
            node=node,
            node_epoch=lambda: NodeEpoch(1),
            connect=self._connect,
            on_problem=lambda _replica, error: self.problems.append(error),
            limits=ReplicationLimits(wait_ms=200),
        )
        sessions = ReplicaSessions(
            environment.clock,
            1 << 20,
            self.manager.find_log,
            lambda _partition: None,
            self.manager.beside,
        )
        self.listener = ClusterListener(
            environment,
            f"0.0.0.0:{PORT}",
            self._identity,
            {},
            NoMetrics(),
            kafka_handlers={ApiKey.FETCH: replica_fetch_handler(sessions)},
        )

    def _identity(self) -> Identity:
        return Identity(self.node, "cluster", b"a shared secret!")

    def _connect(self, leader: NodeId) -> LeaderPeer:
        peer = Peer(self.environment, self._identity, lambda: [f"n{leader}:{PORT}"])
        return LeaderPeer(peer)

    def log(self, index: int = 0, kind: str = DATA) -> Partition | None:
        return self.partitions.bundle(TOPIC, index).find(kind)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            await self.listener.start(tasks)
            try:
                yield
            finally:
                await self.manager.close()
                await self.listener.stop(0.1)
                await self.partitions.close()


def leads(node: NodeId, epoch: int) -> Leader:
    return Leader(node=node, epoch=Epoch(epoch), replicas=(ONE, TWO), isr=frozenset((ONE, TWO)))


async def tell_roles(
    one: NodeUnderTest, two: NodeUnderTest, leader: NodeId, epoch: int, index: int = 0
) -> None:
    for each in (one, two):
        role: Role = Follower(leader, Epoch(epoch))
        if each.node == leader:
            role = leads(leader, epoch)
        await each.manager.change_role(TOPIC, index, role)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            if holds():
                return
            await asyncio.sleep(0.001)


def tell(story: Callable[[NodeUnderTest, NodeUnderTest], Awaitable[None]]) -> None:
    with World(3) as world:

        async def main() -> None:
            one = NodeUnderTest(world.environment("n1"), ONE)
            two = NodeUnderTest(world.environment("n2"), TWO)
            async with one.running(), two.running():
                await story(one, two)

        world.run(main())


def the(log: Partition | None) -> Partition:
    assert log is not None
    return log


def test_what_one_node_leads_the_other_copies_and_then_the_other_way_round():
    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        await tell_roles(one, two, ONE, 1)
        await the(one.log()).wait_committed(write(the(one.log()), "a"))
        await tell_roles(one, two, TWO, 2)
        with pytest.raises(NotLeader):
            write(the(one.log()), "refused")
        await the(two.log()).wait_committed(write(the(two.log()), "b"))
        await until(lambda: the(one.log()).log.high_watermark == 2)
        assert content(the(one.log())) == content(the(two.log()))
        assert not one.problems + two.problems

    tell(story)


def test_each_node_may_lead_something():
    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        await tell_roles(one, two, ONE, 1, index=0)
        await tell_roles(one, two, TWO, 1, index=1)
        first, second = the(one.log(0)), the(two.log(1))
        await asyncio.gather(
            first.wait_committed(write(first, "a")), second.wait_committed(write(second, "b"))
        )

    tell(story)


def test_the_ledger_is_copied_once_there_is_one():
    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        await tell_roles(one, two, ONE, 1)
        assert two.log(kind=LEDGER) is None
        await one.partitions.ledger(TOPIC, 0)
        ledger = the(one.log(kind=LEDGER))
        await ledger.wait_committed(write(ledger, "leased"))
        assert content(the(two.log(kind=LEDGER))) == content(ledger)
        await tell_roles(one, two, TWO, 2)
        copy = the(two.log(kind=LEDGER))
        await copy.wait_committed(write(copy, "acked"))

    tell(story)


def test_the_same_role_told_again_changes_nothing():
    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        await tell_roles(one, two, ONE, 1)
        await the(one.log()).wait_committed(write(the(one.log()), "a"))
        await tell_roles(one, two, ONE, 1)
        await the(one.log()).wait_committed(write(the(one.log()), "b"))

    tell(story)


def test_of_several_roles_at_once_the_last_stands():
    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        roles: list[Role] = [
            Follower(ONE, Epoch(1)),
            Follower(ONE, Epoch(2)),
            Offline("nobody leads", Epoch(3)),
            Follower(ONE, Epoch(4)),
        ]
        changes = []
        for role in roles:
            changes.append(asyncio.ensure_future(two.manager.change_role(TOPIC, 0, role)))
            await asyncio.sleep(0.00001)  # it has begun; to open the log takes longer
        await asyncio.gather(*changes)
        await one.manager.change_role(TOPIC, 0, leads(ONE, 4))
        await the(one.log()).wait_committed(write(the(one.log()), "a"))

    tell(story)


@pytest.mark.parametrize("leader", [ONE, TWO])
def test_a_role_is_taken_once_the_disk_has_room_for_its_files(leader):
    """Nobody tells the role again."""

    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        disk = two.environment.disk
        assert isinstance(disk, SimDisk)
        disk.fill_up(0)
        taking = asyncio.ensure_future(tell_roles(one, two, leader, 1))
        await asyncio.sleep(5)
        assert two.log() is None
        disk.make_room()
        async with asyncio.timeout(10):
            await taking
        log = the((one if leader == ONE else two).log())
        await log.wait_committed(write(log, "a"))

    tell(story)


def test_a_role_for_which_there_was_no_room_is_not_taken_after_another_one():
    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        disk = two.environment.disk
        assert isinstance(disk, SimDisk)
        disk.fill_up(0)
        _ = two.manager.change_role(TOPIC, 0, leads(TWO, 1))
        await asyncio.sleep(1.5)
        disk.make_room()
        await tell_roles(one, two, ONE, 2)
        await asyncio.sleep(5)
        await the(one.log()).wait_committed(write(the(one.log()), "a"))

    tell(story)


def test_a_ledger_is_copied_once_the_disk_has_room_for_it():
    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        await tell_roles(one, two, ONE, 1)
        disk = two.environment.disk
        assert isinstance(disk, SimDisk)
        disk.fill_up(0)
        await one.partitions.ledger(TOPIC, 0)
        await asyncio.sleep(5)
        assert two.log(kind=LEDGER) is None
        disk.make_room()
        ledger = the(one.log(kind=LEDGER))
        async with asyncio.timeout(10):
            await ledger.wait_committed(write(ledger, "leased"))

    tell(story)


def test_a_log_that_is_not_here_is_not_led_here():
    async def story(one: NodeUnderTest, two: NodeUnderTest) -> None:
        with pytest.raises(NotLeader):
            await one.manager.find_log(TOPIC.topic_id, 0)

    tell(story)
