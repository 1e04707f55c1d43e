"""A cluster in the simulator whose nodes coordinate a shard of groups and of transactions each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from structlog.testing import capture_logs

from goqueue.broker import Broker
from goqueue.broker.cluster.coordinator_topics import COORDINATED
from goqueue.cluster import controller
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit, PartitionResult
from goqueue.model.ids import GroupId, NodeId, Offset, TopicName, TopicPartition
from goqueue.testing.sim import World
from goqueue.txn import ProducerIdentity
from tests.unit.broker.cluster.cluster_world import NUMBERS, ClusterWorld

SHARDS = 3
HOSTS = {number: host for host, number in NUMBERS.items()}
PLACE = TopicPartition(TopicName("orders"), 0)
NAMES = [f"name-{number}" for number in range(12)]


@contextmanager
def three_nodes(seed: int = 0) -> Iterator[ClusterWorld]:
    """Each leads one shard of groups and one of transactions."""
    with capture_logs(), World(seed) as world:
        nodes = ClusterWorld(world, coordinators=SHARDS)
        nodes.start("a", "b", "c")
        world.run_until(lambda: is_spread(nodes), limit_s=120)
        world.run(nodes.controller.create_topic("orders", partitions=1))
        world.run_until(lambda: all(each.has_topic("orders") for each in nodes.brokers.values()))
        yield nodes


def is_spread(nodes: ClusterWorld) -> bool:
    if len(nodes.brokers) < 3:
        return False
    metadata = nodes.controller.metadata
    for name in COORDINATED:
        topic = metadata.find(name)
        states = [] if topic is None else metadata.partitions.of(topic.topic_id)
        if any(len(each.isr) < 3 or each.adding for each in states):
            return False
    return all(
        len(each.groups.shards) == len(each.transactions.shards) == 1
        for each in nodes.brokers.values()
    )


def group_node(nodes: ClusterWorld, group_id: str) -> Broker | None:
    brokers = nodes.brokers.values()
    return next((each for each in brokers if each.groups.coordinates(GroupId(group_id))), None)


def transaction_node(nodes: ClusterWorld, name: str) -> Broker | None:
    brokers = nodes.brokers.values()
    return next((each for each in brokers if each.transactions.coordinates(name)), None)


def found(
    find: Callable[[ClusterWorld, str], Broker | None], nodes: ClusterWorld, name: str
) -> Broker:
    nodes.world.run_until(lambda: find(nodes, name) is not None, limit_s=60)
    broker = find(nodes, name)
    assert broker is not None
    return broker


def apart(nodes: ClusterWorld) -> tuple[str, str]:
    """A transactional id and a group that different nodes coordinate."""
    return next(
        (name, group)
        for name in NAMES
        for group in NAMES
        if transaction_node(nodes, name) is not group_node(nodes, group)
    )


def offset(number: int) -> OffsetToCommit:
    return OffsetToCommit(PLACE.topic, PLACE.partition, Offset(number))


async def commit(broker: Broker, group: str, number: int) -> None:
    await broker.groups.commit(CommitRequest(group_id=GroupId(group), offsets=(offset(number),)))


async def committed(broker: Broker, group: str) -> int | None:
    (fetched,) = await broker.groups.fetch([FetchRequest(group_id=GroupId(group))])
    at = fetched.offsets.get(PLACE)
    return None if at is None else at.offset


def move(nodes: ClusterWorld, name: str, shard: int, away_from: Broker) -> None:
    """Let another node lead the shard."""
    topic = nodes.controller.metadata.topic(name)
    first = next(NodeId(each) for each in (1, 2, 3) if each != away_from.node_id)
    replicas = [first, *(NodeId(each) for each in (1, 2, 3) if each != first)]
    change = nodes.controller.change_partition

    async def work() -> None:
        await change(
            lambda metadata: controller.reassign(metadata, topic.topic_id, shard, replicas)
        )
        await change(
            lambda metadata: controller.elect_leader(metadata, topic.topic_id, shard, "preferred")
        )

    nodes.world.run(work())


def has_moved(nodes: ClusterWorld, name: str, former: Broker) -> Callable[[], bool]:
    return lambda: transaction_node(nodes, name) not in (None, former)


async def begin(broker: Broker, name: str, timeout_ms: int = 60_000) -> ProducerIdentity:
    return await broker.transactions.init(name, timeout_ms=timeout_ms)


async def add(
    broker: Broker, name: str, who: ProducerIdentity, group: str, number: int
) -> tuple[PartitionResult, ...]:
    request = CommitRequest(group_id=GroupId(group), offsets=(offset(number),))
    return await broker.transactions.add_offsets(name, who, request, adds_group=True)


async def end(
    broker: Broker, name: str, who: ProducerIdentity, *, commits: bool = True, bumps: bool = True
) -> ProducerIdentity:
    return await broker.transactions.end(name, who, commits=commits, bumps_epoch=bumps)


def holds_nothing(broker: Broker) -> Callable[[], bool]:
    return lambda: not broker.groups.pending_transactions()
