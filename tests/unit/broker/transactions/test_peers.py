"""Transactions with a partition that another node leads: admitted, ended, never left open."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker import Broker, Partition
from goqueue.broker.transactions.participants import end_in_partition
from goqueue.cluster import NodeRegistered
from goqueue.model.batch import TRANSACTIONAL, encode
from goqueue.model.config import Config
from goqueue.model.errors import NodeUnreachable, NotEnoughReplicas
from goqueue.model.ids import NodeEpoch, NodeId, Offset, TopicName, TopicPartition
from goqueue.model.machine import Decision
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from goqueue.runtime import real_environment
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import InvalidTransactionState, ProducerFenced
from goqueue.wire.node_messages import NodeRequest, encode_node_request

COORDINATOR, LEADER = NodeId(1), NodeId(2)
PLACE = TopicPartition(TopicName("t"), 0)


class Direct:
    """The other node, without a wire between."""

    def __init__(self, other: Broker) -> None:
        self._other = other
        self.asked: list[NodeRequest[Any]] = []
        self.on_answer: Callable[[], Awaitable[None]] | None = None
        self.is_cut = False

    def of(self, node_id: NodeId) -> "Direct":
        assert node_id == self._other.node_id
        return self

    async def ask(self, request: NodeRequest[Any], _seconds: float) -> Any:
        if self.is_cut:
            raise NodeUnreachable("cut off")
        self.asked.append(request)
        encode_node_request(1, request)
        answer = await self._other.cluster.handlers[request.api](LEADER, request)
        if self.on_answer is not None:
            await self.on_answer()
        return answer

    def close(self) -> None: ...


class Two:
    """A coordinator, and the node that leads the one partition of topic t."""

    def __init__(self, coordinator: Broker, leader: Broker) -> None:
        self.coordinator, self.leader = coordinator, leader
        self.to_leader, self.to_coordinator = Direct(leader), Direct(coordinator)
        coordinator.cluster.peers = self.to_leader  # type: ignore[assignment]
        leader.cluster.peers = self.to_coordinator  # type: ignore[assignment]
        vars(leader)["transaction_coordinator"] = lambda _id: COORDINATOR

    async def partition(self) -> Partition:
        return await self.leader.partition("t", 0)

    async def init(self) -> ProducerIdentity:
        return await self.coordinator.transactions.init("x", timeout_ms=60_000)

    async def write(self, who: ProducerIdentity, sequence: int = 0, *, adds: bool = True) -> None:
        partition = await self.partition()
        await self.leader.transaction_peers.admit("x", who, partition, adds=adds)
        record = Record(0, self.leader.environment.clock.now(), None, b"x")
        producer = (who.producer_id, who.epoch, sequence)
        data = encode([record], attributes=TRANSACTIONAL, producer=producer)
        appended = self.leader.append(partition, data)
        await partition.wait_committed(appended.last_offset)

    async def end(self, who: ProducerIdentity, *, commits: bool = True) -> ProducerIdentity:
        return await self.coordinator.transactions.end("x", who, commits=commits, bumps_epoch=True)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with contextlib.AsyncExitStack() as stack:
            brokers = [
                await stack.enter_async_context(
                    Broker(
                        environment, Config(data_dir=str(tmp_path / str(number)), node_id=number)
                    ).running()
                )
                for number in (COORDINATOR, LEADER)
            ]
            other = NodeRegistered(LEADER, "disk", 1, NodeEpoch(2))
            await brokers[0].controller.host.submit(lambda _: Decision((other,), None))
            await brokers[0].create_topic("t", partitions=1, assignments=[[LEADER]])
            await brokers[1].create_topic("t", partitions=1)
            yield Two(*brokers)


async def test_a_transaction_begins_and_ends_on_another_node(two: Two):
    partition, who = await two.partition(), await two.init()
    await two.write(who)
    await two.write(who, 1)
    assert len(two.to_coordinator.asked) == 1, "asked once for all batches of the transaction"
    assert PLACE in two.coordinator.transactions.ahead.get("x").partitions
    assert partition.log.stable_offset == 0
    await two.end(await two.init(), commits=False)  # nothing: the producer before was shut out
    assert partition.log.stable_offset == partition.log.end_offset == 3
    assert [each.first_offset for each in partition.log.aborted.between(Offset(0), Offset(3))] == [
        0
    ]


async def test_a_commit_shows_the_records(two: Two):
    partition = await two.partition()
    await two.write(who := await two.init())
    await two.end(who)
    assert partition.log.stable_offset == partition.log.end_offset == 2
    assert not list(partition.log.aborted.between(Offset(0), Offset(2)))


async def test_the_coordinator_refuses_for_the_leader(two: Two):
    partition, former = await two.partition(), await two.init()
    who = await two.init()
    with pytest.raises(ProducerFenced):
        await two.write(former)
    with pytest.raises(InvalidTransactionState):
        await two.write(who, adds=False)
    assert partition.log.end_offset == 0


async def test_an_end_between_the_answer_and_the_append_is_noticed(two: Two):
    """Else the batch would be open for ever: its marker has been there."""
    partition, who = await two.partition(), await two.init()
    clock = two.leader.environment.clock

    async def abort() -> None:
        two.to_coordinator.on_answer = None
        epoch = who.epoch + 1
        marker = Marker(who.producer_id, epoch, 0, commits=False, is_bumped=True)
        await end_in_partition(partition, marker, clock)
        await two.coordinator.transactions.abort("x")

    two.to_coordinator.on_answer = abort
    with pytest.raises(ProducerFenced):
        await two.write(who)
    assert len(two.to_coordinator.asked) == 2
    assert partition.log.stable_offset == partition.log.end_offset


async def test_a_leader_that_cannot_ask_refuses(two: Two):
    who = await two.init()
    two.to_coordinator.is_cut = True
    with pytest.raises(NotEnoughReplicas):  # as in Kafka, and every producer tries that again
        await two.write(who)
    assert (await two.partition()).log.end_offset == 0


async def test_a_marker_is_sent_until_it_is_confirmed(two: Two):
    partition = await two.partition()
    await two.write(who := await two.init())
    two.to_leader.is_cut = True
    ended = await two.coordinator.transactions._decide(
        "x",
        lambda machine: machine.end(
            two.coordinator.environment.clock.steady(),
            "x",
            who,
            commits=True,
            bumps_epoch=True,
            spare_producer_id=-1,
        ),
    )
    assert ended.producer_id == who.producer_id
    prepared = two.coordinator.transactions.ahead.get("x")
    end = two.coordinator.transactions._completion.complete(prepared)
    await end.wait_changed()
    while end.retry is None:
        await end.wait_changed()
    assert partition.log.stable_offset == 0
    two.to_leader.is_cut = False
    assert await end.wait_complete()
    assert partition.log.stable_offset == partition.log.end_offset == 2
