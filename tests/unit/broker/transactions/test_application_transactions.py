"""Transactions of one application's run: one record decides all of them."""

from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker import Broker
from goqueue.broker.transactions.application_transactions import attempt_name
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.runtime import Environment
from goqueue.testing.sim import World
from goqueue.txn import Attempt, ProducerIdentity, State
from tests.unit.broker.brokers import CONFIG, running

ORDERS = TopicPartition(TopicName("orders"), 0)


def play(story: Callable[[Broker], Awaitable[None]]) -> None:
    async def main(environment: Environment) -> None:
        async with running(environment, CONFIG) as broker:
            await broker.create_topic("orders", partitions=1)
            await story(broker)

    with World(0) as world:
        world.run(main(world.environment("a")))


async def attempted(
    broker: Broker, *, task: int = 0, number: int = 0, version: int = 1, run: int = 1
) -> tuple[str, ProducerIdentity] | None:
    """An attempt that writes to `orders`."""
    started = await broker.group_transactions.start_attempt(
        Attempt("app", run, version), task=task, number=number, timeout_ms=60_000
    )
    if started is not None:
        await broker.transactions.add_partitions(*started, [ORDERS])
    return started


def test_members_are_committed_together_and_the_other_attempts_aborted():
    async def story(broker: Broker) -> None:
        groups, transactions = broker.group_transactions, broker.transactions
        await groups.start_run("app", 1)
        first = await attempted(broker, task=0)
        second = await attempted(broker, task=1)
        straggler = await attempted(broker, task=1, number=1)
        assert first is not None
        assert second is not None
        assert straggler is not None
        ended = await groups.decide("app", 1, 1, [first, second])
        assert not ended.was_decided
        states = [transactions.ahead.find(name) for name, _ in (first, second, straggler)]
        assert not transactions.ahead.prepared
        assert all(each is None or each.state is not State.ONGOING for each in states)
        assert straggler[0] in ended.aborted

    play(story)


def test_a_version_is_decided_once():
    async def story(broker: Broker) -> None:
        groups = broker.group_transactions
        await groups.start_run("app", 1)
        member = await attempted(broker)
        assert member is not None
        assert not (await groups.decide("app", 1, 1, [member])).was_decided
        assert (await groups.decide("app", 1, 1, [])).was_decided
        assert await attempted(broker, number=1) is None, "there is nothing to try any more"
        assert await attempted(broker, version=2) is not None

    play(story)


def test_a_new_run_fences_the_one_before_and_aborts_its_attempts():
    async def story(broker: Broker) -> None:
        groups = broker.group_transactions
        await groups.start_run("app", 1)
        old = await attempted(broker)
        assert old is not None
        begun = await groups.start_run("app", 2)
        assert old[0] in begun.aborted
        with pytest.raises(GoQueueError):
            await groups.decide("app", 1, 1, [old])
        with pytest.raises(GoQueueError):
            await attempted(broker, number=1)

    play(story)


def test_a_run_is_known_by_its_name():
    async def story(broker: Broker) -> None:
        groups = broker.group_transactions
        first = await groups.start_named_run("app", "monday")
        again = await groups.start_named_run("app", "monday")
        other = await groups.start_named_run("app", "tuesday")
        assert again.run == first.run
        assert other.run > first.run

    play(story)


def test_an_abort_ends_every_attempt_at_the_version():
    async def story(broker: Broker) -> None:
        groups = broker.group_transactions
        await groups.start_run("app", 1)
        some = [await attempted(broker, task=task) for task in range(2)]
        names = {each[0] for each in some if each is not None}
        assert set((await groups.abort("app", 1, 1)).aborted) == names
        assert not broker.transactions.ahead.ongoing

    play(story)


def test_a_refusal_is_told_when_all_that_it_may_rest_on_is_durable():
    async def story(broker: Broker) -> None:
        groups, host = broker.group_transactions, broker.transactions.host
        await groups.start_run("app", 2)
        now = broker.environment.clock.steady()
        host.write(lambda machine: machine.applications.start_run(now, "app", 3))
        assert host.pending_commit() is not None
        with pytest.raises(GoQueueError):
            await groups.start_run("app", 2)
        assert host.pending_commit() is None

    play(story)


def test_an_application_that_is_retired_is_forgotten():
    async def story(broker: Broker) -> None:
        groups = broker.group_transactions
        assert not await groups.retire("app")
        await groups.start_run("app", 7)
        assert await groups.retire("app")
        await groups.start_run("app", 1)

    play(story)


def test_an_attempt_has_a_name_of_its_own():
    attempt = Attempt("app", 2, 3)
    assert attempt_name(attempt, 0, 1) != attempt_name(attempt, 1, 0)
    assert attempt_name(attempt, 4, 5) == "app:2:3:4:5"
