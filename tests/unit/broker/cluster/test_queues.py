"""A queue over three leaders, whatever breaks: nobody loses a message, and nobody shares one."""

import asyncio
import os

import pytest

from tests.unit.broker.cluster.queue_workload import QueueWorkload
from tests.unit.broker.cluster.test_failover import three_nodes
from tests.unit.broker.cluster.test_transactions import break_something

CHANCES = int(os.environ.get("GOQUEUE_SIM_SEEDS", "3"))


@pytest.mark.parametrize("chance", range(CHANCES))
def test_a_queue_over_three_leaders_is_whole_whatever_breaks(chance: int):
    chance = int(os.environ.get("GOQUEUE_SIM_SEED", chance))
    with three_nodes(chance) as nodes:
        workload, world = QueueWorkload(nodes), nodes.world
        workload.create_topic()

        async def story() -> None:
            working = asyncio.ensure_future(workload.run())
            for _ in range(8):
                await asyncio.sleep(world.random.uniform(0.2, 2.0))
                break_something(nodes)
                await asyncio.sleep(world.random.uniform(0.2, 3.0))
                world.fabric.heal()
                nodes.start("a", "b", "c")
                await asyncio.sleep(world.random.uniform(0.0, 3.0))
            await working

        world.run(story())
        world.fabric.heal()
        nodes.start("a", "b", "c")
        workload.finish()
        assert workload.problems == []
        assert workload.finished
