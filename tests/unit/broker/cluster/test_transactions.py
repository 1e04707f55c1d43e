"""Transactions over three nodes: all of it or nothing, whoever leads and whatever breaks."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from goqueue.broker import Broker
from goqueue.broker.storage.partition import Partition
from goqueue.model.errors import NotCoordinator, NotEnoughReplicas
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import (
    InvalidTransactionState,
    ProducerFenced,
    TransactionError,
)
from goqueue.wire.node_messages import NodeApi
from tests.sim.transaction_history import Place
from tests.sim.transaction_world import batch_of
from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.test_failover import three_nodes
from tests.unit.broker.cluster.transaction_workload import ClusterWorkload, append, read

ON_A, ON_B, ON_C = ("orders", 0), ("orders", 1), ("bills", 0)


@contextmanager
def workload_on_three_nodes(seed: int = 0, coordinators: int = 1) -> Iterator[ClusterWorkload]:
    with three_nodes(seed, coordinators) as nodes:
        workload = ClusterWorkload(nodes)
        workload.create_topics()
        workload.world.run_until(lambda: is_coordinated(workload), limit_s=30)
        yield workload


async def init(workload: ClusterWorkload, name: str = "tx") -> ProducerIdentity:
    return await coordinator(workload).transactions.init(name, timeout_ms=60_000)


def coordinator(workload: ClusterWorkload) -> Broker:
    """The one that leads `__transactions`."""
    brokers = workload.nodes.brokers.values()
    return next(each for each in brokers if each.transactions.coordinates("tx"))


def is_coordinated(workload: ClusterWorkload) -> bool:
    brokers = workload.nodes.brokers.values()
    return any(each.transactions.coordinates("tx") for each in brokers)


async def send(
    workload: ClusterWorkload, who: ProducerIdentity, place: Place, value: bytes, sequence: int = 0
) -> Partition:
    leader = workload._leader(place)
    partition = await leader.partition(*place)
    await append(leader, "tx", who, partition, batch_of(leader, who, sequence, value))
    return partition


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("bumps_epoch", [True, False], ids=["own epoch", "same epoch"])
def test_a_transaction_over_all_nodes_ends_whole(commits: bool, bumps_epoch: bool):
    places = [(topic, index) for topic in ("orders", "bills") for index in range(2)]

    async def story(workload: ClusterWorkload) -> None:
        who = await init(workload)
        for place in places:
            await send(workload, who, place, b"paid")
            assert await read(workload, place) == []
        transactions = coordinator(workload).transactions
        after = await transactions.end("tx", who, commits=commits, bumps_epoch=bumps_epoch)
        for place in places:
            assert await read(workload, place) == ([b"paid"] if commits else [])
        sequence = 0 if bumps_epoch else 1
        for place in places:
            await send(workload, after, place, b"next", sequence)
        await transactions.end("tx", after, commits=True, bumps_epoch=bumps_epoch)
        for place in places:
            assert (await read(workload, place))[-1] == b"next"

    with workload_on_three_nodes() as workload:
        assert {workload._leader(place).node_id for place in places} == {1, 2, 3}
        workload.world.run(story(workload))


def test_the_coordinator_is_asked_once_a_transaction(monkeypatch: pytest.MonkeyPatch):
    asked = 0

    async def story(workload: ClusterWorkload) -> None:
        nonlocal asked
        handlers = coordinator(workload).cluster.handlers
        admit = handlers[NodeApi.ADMIT_TO_TRANSACTION]

        async def count(node_id, request):
            nonlocal asked
            asked += 1
            return await admit(node_id, request)

        monkeypatch.setitem(handlers, NodeApi.ADMIT_TO_TRANSACTION, count)
        who = await init(workload)
        for expected in (1, 2):
            for sequence in range(3):
                number = 3 * (expected - 1) + sequence
                await send(workload, who, ON_B, b"%d" % number, number)
            assert asked == expected
            transactions = coordinator(workload).transactions
            who = await transactions.end("tx", who, commits=True, bumps_epoch=False)

    with workload_on_three_nodes() as workload:
        workload.world.run(story(workload))


def test_a_leader_refuses_as_the_coordinator_does():
    async def story(workload: ClusterWorkload) -> None:
        leader = workload._leader(ON_B)
        peers, partition = leader.transaction_peers, await leader.partition(*ON_B)
        with pytest.raises(TransactionError):  # nobody knows it
            await peers.admit("tx", ProducerIdentity(7, 0), partition, adds=True)
        who = await init(workload)
        with pytest.raises(InvalidTransactionState):  # the older protocol did not add it
            await peers.admit("tx", who, partition, adds=False)
        await init(workload)
        with pytest.raises(ProducerFenced):
            await peers.admit("tx", who, partition, adds=True)
        for refused in (
            leader.transactions.init("tx", timeout_ms=1_000),
            leader.transactions.add_partitions("tx", who, []),
            leader.transactions.add_group("tx", who, "workers"),
            leader.transactions.end("tx", who, commits=True, bumps_epoch=True),
        ):
            with pytest.raises(NotCoordinator):
                await refused

    with workload_on_three_nodes() as workload:
        workload.world.run(story(workload))


def test_without_the_coordinator_s_word_nothing_is_appended():
    async def story(workload: ClusterWorkload) -> None:
        who = await init(workload)
        await send(workload, who, ON_A, b"paid")
        leader = workload._leader(ON_B)
        end = (await leader.partition(*ON_B)).log.end_offset
        workload.world.fabric.cut("a", "b")
        partition = leader.partitions.find_open(*ON_B)
        assert partition is not None
        with pytest.raises(NotEnoughReplicas):
            await append(leader, "tx", who, partition, batch_of(leader, who, 0, b"paid"))
        assert partition.log.end_offset == end

    with workload_on_three_nodes() as workload:
        workload.world.run(story(workload))


def test_a_marker_that_overtakes_the_word_is_noticed(monkeypatch: pytest.MonkeyPatch):
    """The transaction ends between the coordinator's word and the append."""

    async def story(workload: ClusterWorkload) -> None:
        found = coordinator(workload)
        admit = found.cluster.handlers[NodeApi.ADMIT_TO_TRANSACTION]
        who = await init(workload)

        async def end_first(node_id, request):
            answer = await admit(node_id, request)
            handlers[NodeApi.ADMIT_TO_TRANSACTION] = admit
            await found.transactions.end("tx", who, commits=False, bumps_epoch=False)
            return answer

        handlers = found.cluster.handlers
        monkeypatch.setitem(handlers, NodeApi.ADMIT_TO_TRANSACTION, end_first)
        leader = workload._leader(ON_B)
        partition = await leader.partition(*ON_B)
        await found.transactions.add_partitions("tx", who, [TopicPartition(*_named(ON_B))])
        with pytest.raises(InvalidTransactionState):
            await leader.transaction_peers.admit("tx", who, partition, adds=False)

    with workload_on_three_nodes() as workload:
        workload.world.run(story(workload))


def _named(place: Place) -> tuple[TopicName, int]:
    return TopicName(place[0]), place[1]


def test_a_marker_reaches_a_leader_that_comes_back():
    with workload_on_three_nodes() as workload:
        nodes, world = workload.nodes, workload.world

        async def write_to_both() -> ProducerIdentity:
            who = await init(workload)
            await send(workload, who, ON_B, b"paid")
            await send(workload, who, ON_A, b"paid")
            return who

        who = world.run(write_to_both())
        nodes.stop("b", power=True)
        world.run_until(lambda: is_coordinated(workload), limit_s=30)

        async def commit() -> None:
            transactions = coordinator(workload).transactions
            await transactions.end("tx", who, commits=True, bumps_epoch=True)

        world.run(commit())
        nodes.start("b")
        world.run_until(
            lambda: (
                is_coordinated(workload) and not coordinator(workload).transactions.ahead.prepared
            ),
            limit_s=60,
        )
        world.run_until(lambda: workload.leader_of(ON_B) is not None, limit_s=60)
        for place in (ON_A, ON_B):
            assert world.run(read(workload, place)) == [b"paid"]


def test_a_coordinator_that_loses_power_completes_what_it_decided():
    with workload_on_three_nodes() as workload:
        nodes, world = workload.nodes, workload.world

        async def decide() -> None:
            who = await init(workload)
            for place in (ON_A, ON_B, ON_C):
                await send(workload, who, place, b"paid")
            await coordinator(workload).transactions.end(
                "tx", who, commits=True, bumps_epoch=True, waits_for_markers=False
            )

        world.run(decide())
        former = coordinator(workload)
        (host,) = [each for each, broker in nodes.brokers.items() if broker is former]
        nodes.stop(host, power=True)
        nodes.start(host)
        world.run_until(workload._is_quiet, limit_s=120)
        for place in (ON_A, ON_B, ON_C):
            assert world.run(read(workload, place)) == [b"paid"]


def test_what_no_coordinator_knows_is_aborted_by_the_leader_and_not_while_nobody_answers():
    stranger = ProducerIdentity(4711, 3)

    async def write(workload: ClusterWorkload) -> Partition:
        leader = workload._leader(ON_B)
        partition = await leader.partition(*ON_B)
        appended = leader.append(partition, batch_of(leader, stranger, 0, b"lost"))
        await partition.wait_committed(appended.last_offset)
        return partition

    with workload_on_three_nodes() as workload:
        partition = workload.world.run(write(workload))
        workload.nodes.stop("a")
        workload.nodes.stop("c")
        workload.world.run_for(150)
        assert partition.log.producers.open_transactions, "no answer means nothing"
        workload.nodes.start("a", "c")
        workload.world.run_until(workload._is_quiet, limit_s=200)
        assert workload.world.run(read(workload, ON_B)) == []


def test_what_a_coordinator_knows_is_no_orphan():
    async def story(workload: ClusterWorkload) -> None:
        who = await init(workload)
        partition = await send(workload, who, ON_B, b"paid")
        await asyncio.sleep(50)  # upkeep looks once a minute, and the transaction may take one
        assert partition.log.producers.open_transactions
        transactions = coordinator(workload).transactions
        await transactions.end("tx", who, commits=True, bumps_epoch=True)
        assert await read(workload, ON_B) == [b"paid"]

    with workload_on_three_nodes() as workload:
        workload.world.run_for(30)
        workload.world.run(story(workload))


def break_something(nodes: ClusterWorld) -> None:
    fabric, draw = nodes.world.fabric, nodes.world.random
    one, other = draw.sample(["a", "b", "c"], 2)
    match draw.randrange(6):
        case 0:
            fabric.cut(one, other)
        case 1:
            fabric.cut(one, other, one_way=True)
        case 2:
            fabric.reset(one)
        case 3:
            fabric.isolate(one)
        case 4:
            nodes.stop(one)
        case _:
            nodes.stop(one, power=True)


def test_readers_see_all_of_a_transaction_or_nothing_whatever_breaks(seed: int):
    """Nothing that was committed is lost; nothing that was aborted is read; nothing hangs.

    The nodes share three coordinators.
    """
    with workload_on_three_nodes(seed, coordinators=3) as workload:
        nodes, world = workload.nodes, workload.world

        async def story() -> None:
            working = asyncio.ensure_future(workload.run())
            while not working.done():
                await asyncio.sleep(world.random.uniform(0.2, 1.5))
                break_something(nodes)
                await asyncio.sleep(world.random.uniform(0.2, 2.0))
                world.fabric.heal()
                nodes.start("a", "b", "c")
                await asyncio.sleep(world.random.uniform(0.0, 3.0))
            await working

        world.run(story())
        world.fabric.heal()
        nodes.start("a", "b", "c")
        workload.finish_over_nodes()
        assert workload.problems == []
        assert workload.history.anomalies() == {}
        assert workload.history.final, "something was committed"
