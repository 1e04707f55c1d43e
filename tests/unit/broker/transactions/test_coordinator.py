"""The transaction coordinator resigns, and another one, or the same again, goes on from the log."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.cluster.replication import Follower, Leader
from goqueue.model.errors import NotCoordinator, NotLeader
from goqueue.model.ids import Epoch, NodeId, TopicName, TopicPartition
from goqueue.runtime import Environment
from goqueue.server.kafka.errors import coordinator_code
from goqueue.testing.sim.world import World
from goqueue.txn import ProducerIdentity
from tests.sim.transaction_world import batch_of
from tests.unit.broker.brokers import running, values_in

ORDERS = TopicPartition(TopicName("orders"), 0)


def play(story: Callable[[Broker, ProducerIdentity], Awaitable[None]]) -> None:
    """With a transaction `tx` that has written one record."""

    async def main(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("orders", partitions=1)
            who = await broker.transactions.init("tx", timeout_ms=60_000)
            await write(broker, who, 0)
            await story(broker, who)

    with World(0) as world:
        world.run(main(world.environment("a")))


async def write(broker: Broker, who: ProducerIdentity, sequence: int) -> None:
    partition = await broker.partition(*ORDERS)
    broker.transactions.admit("tx", who, ORDERS, adds=True)
    appended = broker.append(partition, batch_of(broker, who, sequence, b"%d" % sequence))
    await partition.wait_committed(appended.last_offset)
    await broker.transactions.wait_durable("tx")


def lead_elsewhere(broker: Broker) -> None:
    """Markers cannot be written any more."""
    role = Follower(NodeId(2), Epoch(1))
    assert broker.partitions.change_role(broker.topic("orders"), 0, role).done()


async def lead_here(broker: Broker) -> None:
    role = Leader.alone(NodeId(1), Epoch(2))
    await broker.partitions.change_role(broker.topic("orders"), 0, role)


async def read(broker: Broker) -> list[str]:
    partition = await broker.partition(*ORDERS)
    await partition.flush()
    assert partition.log.stable_offset == partition.log.high_watermark, "nothing is open"
    return [value for value in await values_in(partition) if value.isdigit()]


def test_whoever_waits_for_an_end_is_told_to_look_for_the_coordinator():
    async def story(broker: Broker, who: ProducerIdentity) -> None:
        transactions = broker.transactions
        lead_elsewhere(broker)
        ending = asyncio.ensure_future(transactions.end("tx", who, commits=True, bumps_epoch=False))
        await broker.environment.clock.sleep(1)
        beginning = asyncio.ensure_future(transactions.init("tx", timeout_ms=60_000))
        await broker.environment.clock.sleep(0.5)
        assert not beginning.done()
        transactions.resign()
        with pytest.raises(NotCoordinator) as refused:
            await beginning
        assert coordinator_code(refused.value) is ErrorCode.not_coordinator
        assert await ending == who  # it was decided, durably
        with pytest.raises(NotCoordinator):
            await transactions.begin("tx", who)

        await lead_here(broker)
        await broker.coordinate_transactions()
        assert await transactions.wait_completed("tx")
        assert await read(broker) == ["0"]

    play(story)


def test_a_transaction_goes_on_with_the_next_coordinator():
    async def story(broker: Broker, who: ProducerIdentity) -> None:
        transactions, former = broker.transactions, broker.transactions.host
        transactions.resign()
        transactions.resign()
        with pytest.raises(NotCoordinator):
            transactions.admit("tx", who, ORDERS, adds=True)
        with pytest.raises(NotCoordinator):
            await former.read(lambda machine: len(machine.ongoing))
        await broker.coordinate_transactions()
        await write(broker, who, 1)
        await transactions.end("tx", who, commits=True, bumps_epoch=False)
        assert await read(broker) == ["0", "1"]

    play(story)


def test_a_transaction_times_out_at_the_next_coordinator():
    async def story(broker: Broker, who: ProducerIdentity) -> None:
        broker.transactions.resign()
        await broker.environment.clock.sleep(90)
        await broker.coordinate_transactions()
        await broker.environment.clock.sleep(1)
        assert not broker.transactions.ahead.ongoing
        partition = await broker.partition(*ORDERS)
        assert not partition.log.producers.open_transactions

    play(story)


@pytest.mark.parametrize("turns", range(5))
def test_what_was_decided_when_the_log_got_another_leader_is_so_or_was_not_answered(turns: int):
    async def main(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("orders", partitions=1)
            who = await broker.transactions.init("tx", timeout_ms=60_000)
            await write(broker, who, 0)
            ending = asyncio.ensure_future(
                broker.transactions.end("tx", who, commits=True, bumps_epoch=False)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            log = next(each for each in broker.partitions if each.topic == "__transactions")
            log.take_role(Follower(NodeId(2), Epoch(1)))
            broker.transactions.resign()
            (told,) = await asyncio.gather(ending, return_exceptions=True)
            assert told == who or isinstance(told, NotCoordinator | NotLeader)
            log.take_role(Leader.alone(NodeId(1), Epoch(2)))
            await broker.coordinate_transactions()
            if told != who and broker.transactions.ahead.ongoing:
                await broker.transactions.end("tx", who, commits=True, bumps_epoch=False)
            assert await broker.transactions.wait_completed("tx")
            assert await read(broker) == ["0"]

    with World(turns) as world:
        world.run(main(world.environment("a")))
