"""The verbs of transactions: what they answer waits for the log, and so does what they refuse."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker import Broker
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.runtime import Environment
from goqueue.testing.sim import World
from goqueue.txn import ProducerIdentity, State
from goqueue.txn.errors import InvalidTransactionState, UnknownProducer
from tests.unit.broker.brokers import CONFIG, running

ORDERS = TopicPartition(TopicName("orders"), 0)
NOBODY = ProducerIdentity(99, 0)


def play(story: Callable[[Broker], Awaitable[None]]) -> None:
    async def main(environment: Environment) -> None:
        async with running(environment, CONFIG) as broker:
            await broker.create_topic("orders", partitions=1)
            await story(broker)

    with World(0) as world:
        world.run(main(world.environment("a")))


REFUSED: dict[str, Callable[[Broker], Awaitable[object]]] = {
    "check": lambda broker: broker.transactions.check("tx", NOBODY),
    "find_id": lambda broker: broker.transactions.find_id(NOBODY),
    "init": lambda broker: broker.transactions.init("tx", timeout_ms=-1),
    "begin": lambda broker: broker.transactions.begin("tx", NOBODY),
    "add_partitions": lambda broker: broker.transactions.add_partitions("tx", NOBODY, [ORDERS]),
    "add_group": lambda broker: broker.transactions.add_group("tx", NOBODY, "group"),
    "add_acks": lambda broker: broker.transactions.add_acks("tx", NOBODY, []),
    "end": lambda broker: broker.transactions.end("tx", NOBODY, commits=True, bumps_epoch=False),
    "abort": lambda broker: broker.transactions.abort("nobody"),
}


@pytest.mark.parametrize("verb", REFUSED)
def test_a_refusal_is_told_when_all_that_it_may_rest_on_is_durable(verb: str):
    """It may contradict what a power cut still takes back."""

    async def story(broker: Broker) -> None:
        await broker.transactions.init("tx", timeout_ms=60_000)
        host = broker.transactions.host
        host.write(  # decided for another caller, and nobody has waited for it
            lambda machine: machine.init(
                broker.environment.clock.steady(),
                "other",
                timeout_ms=60_000,
                new_producer_id=10**6,
                expected=None,
            )
        )
        assert host.pending_commit() is not None
        with pytest.raises(GoQueueError):
            await REFUSED[verb](broker)
        assert host.pending_commit() is None

    play(story)


def test_a_producer_writes_only_where_its_transaction_is():
    async def story(broker: Broker) -> None:
        transactions = broker.transactions
        who = await transactions.init("tx", timeout_ms=60_000)
        with pytest.raises(InvalidTransactionState, match="not part of a transaction"):
            transactions.admit("tx", who, ORDERS, adds=False)
        await transactions.add_partitions("tx", who, [ORDERS])
        assert transactions.admit("tx", who, ORDERS, adds=False) is None, "it is durable"
        await transactions.end("tx", who, commits=False, bumps_epoch=False)
        assert transactions.admit("tx", who, ORDERS, adds=True) is not None, "not durable yet"

    play(story)


def test_who_starts_again_aborts_what_its_former_self_left_and_fences_it():
    async def story(broker: Broker) -> None:
        transactions = broker.transactions
        former = await transactions.init("tx", timeout_ms=60_000)
        await transactions.add_partitions("tx", former, [ORDERS])
        now = await transactions.init("tx", timeout_ms=60_000)
        assert now.epoch > former.epoch
        assert transactions.ahead.get("tx").state is not State.ONGOING
        with pytest.raises(GoQueueError):
            await transactions.add_partitions("tx", former, [ORDERS])
        assert await transactions.find_id(now) == "tx"

    play(story)


def test_an_operator_aborts_what_is_open_and_nothing_else():
    async def story(broker: Broker) -> None:
        transactions = broker.transactions
        who = await transactions.init("tx", timeout_ms=60_000)
        assert not await transactions.abort("tx")
        await transactions.add_partitions("tx", who, [ORDERS])
        assert await transactions.abort("tx")
        assert transactions.ahead.get("tx").state is State.COMPLETE_ABORT
        with pytest.raises(GoQueueError):
            await transactions.end("tx", who, commits=True, bumps_epoch=False)

    play(story)


def test_the_age_is_that_of_the_oldest_open_transaction():
    async def story(broker: Broker) -> None:
        transactions = broker.transactions
        assert transactions.oldest_age_ms() == 0
        who = await transactions.init("tx", timeout_ms=60_000)
        await transactions.add_partitions("tx", who, [ORDERS])
        await asyncio.sleep(3)
        assert 3_000 <= transactions.oldest_age_ms() < 3_100
        await transactions.end("tx", who, commits=True, bumps_epoch=False)
        assert transactions.oldest_age_ms() == 0

    play(story)


def test_a_producer_that_nobody_knows_has_no_id():
    async def story(broker: Broker) -> None:
        with pytest.raises(UnknownProducer):
            await broker.transactions.find_id(NOBODY)

    play(story)
