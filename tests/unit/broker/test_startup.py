"""A broker that opens, and says where it listens."""

import pytest

from goqueue.broker import Broker
from goqueue.model.config import Address
from goqueue.runtime import Environment
from goqueue.testing.sim import World
from tests.unit.broker.brokers import CONFIG, NODE, play, running


def test_before_it_is_open_a_broker_has_no_metadata():
    with World(0) as world:
        broker = Broker(world.environment("a"), CONFIG)
        with pytest.raises(AssertionError, match="not open"):
            broker.topics()


def test_a_cluster_keeps_its_id_when_its_node_starts_again():
    found: list[str] = []

    async def life(environment: Environment) -> None:
        async with running(environment) as broker:
            found.append(broker.cluster_id)

    with World(0) as world:
        world.run(life(world.environment("a")))
        world.power_loss("a")
        world.run(life(world.environment("a")))
    assert found[0]
    assert found[0] == found[1]


def test_what_is_announced_is_in_the_metadata():
    async def story(broker: Broker) -> None:
        await broker.announce({"kafka": Address("broker", 9092)}, "some machine")
        await broker.controller.host.read(lambda metadata: None)
        node = broker.metadata.nodes.at(NODE)
        assert node.addresses == {"kafka": Address("broker", 9092)}
        assert node.machine == "some machine"

    play(story)
