"""A queue over three leaders, whatever breaks: nobody loses a message, and nobody shares one."""

import asyncio
import os

import pytest

from tests.sim.cluster.faults import BASIC, Faults
from tests.unit.broker.cluster.queue_workload import QueueWorkload
from tests.unit.broker.cluster.test_failover import three_nodes

CHANCES = int(os.environ.get("GOQUEUE_SIM_SEEDS", "3"))


@pytest.mark.parametrize("chance", range(CHANCES))
def test_a_queue_over_three_leaders_is_whole_whatever_breaks(chance: int):
    chance = int(os.environ.get("GOQUEUE_SIM_SEED", chance))
    with three_nodes(chance) as nodes:
        workload, world = QueueWorkload(nodes), nodes.world
        workload.create_topic()

        async def story() -> None:
            working = asyncio.ensure_future(workload.run())
            await faults.run_while(lambda: not working.done(), rounds=8)
            await working

        faults = Faults(nodes, BASIC)
        world.run(story())
        workload.finish()
        assert workload.problems == []
        assert workload.finished
