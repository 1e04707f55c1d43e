"""Which node coordinates groups and transactions; in a cluster: `test_coordinator_topics`."""

from goqueue.broker import Broker
from goqueue.runtime import Environment
from goqueue.testing.sim import World
from tests.unit.broker.brokers import NODE, play, running


def test_a_broker_that_is_alone_coordinates_everything():
    async def story(broker: Broker) -> None:
        assert broker.group_coordinator("workers") == NODE
        assert broker.transaction_coordinator("tx") == NODE
        assert broker.groups.is_coordinating
        assert broker.transactions.is_coordinating

    play(story)


def test_a_broker_that_has_stopped_coordinates_nothing():
    stopped: list[Broker] = []

    async def life(environment: Environment) -> None:
        async with running(environment) as broker:
            stopped.append(broker)

    with World(0) as world:
        world.run(life(world.environment("a")))
    assert not stopped[0].groups.is_coordinating
    assert not stopped[0].transactions.is_coordinating
