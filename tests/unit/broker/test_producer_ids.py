"""No two producers have the same id."""

from goqueue.broker import Broker
from goqueue.broker.producer_ids import PRODUCER_ID_BLOCK
from goqueue.runtime import Environment
from goqueue.testing.sim import World
from tests.unit.broker.brokers import play, running


def test_a_producer_id_is_given_once_also_after_a_restart():
    given: list[int] = []

    async def life(environment: Environment) -> None:
        async with running(environment) as broker:
            given.extend([await broker.reserve_producer_id() for _ in range(3)])

    with World(0) as world:
        for _ in range(3):
            world.run(life(world.environment("a")))
            world.power_loss("a")
    assert len(set(given)) == 9
    assert given[3] - given[0] >= PRODUCER_ID_BLOCK, "a block is durable before its first id"


def test_ids_go_on_when_a_block_is_used_up():
    async def story(broker: Broker) -> None:
        given = [await broker.reserve_producer_id() for _ in range(PRODUCER_ID_BLOCK + 2)]
        assert given == list(range(given[0], given[0] + PRODUCER_ID_BLOCK + 2))

    play(story)
