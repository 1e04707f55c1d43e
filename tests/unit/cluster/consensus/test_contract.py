"""The contract of the consensus log, on the engines that need nothing beside this process."""

import asyncio

import pytest

from goqueue.testing.sim import SimClock, SimDisk, SimLoop, run
from tests.unit.cluster.consensus.contract import SCENARIOS, Scenario
from tests.unit.cluster.consensus.quorums import LocalQuorum, ModelQuorum


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_local_log_keeps_the_contract(scenario: Scenario):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        await scenario(LocalQuorum(SimDisk(0), SimClock(loop)))

    run(main())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_model_keeps_the_contract(scenario: Scenario):
    async def main() -> None:
        await scenario(ModelQuorum(scenario.__name__))

    run(main())
