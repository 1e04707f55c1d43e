"""A broker that dies at any moment keeps its word.

The seed decides what is done, when the machine dies, and what its disk keeps.  One is repeated by

    GOQUEUE_SIM_SEED=17 pytest tests/sim/test_crash.py

`make sim` tries many.
"""

import random

from goqueue.broker import Broker
from goqueue.log import open_log
from goqueue.model.settings import topic_settings
from goqueue.runtime import Environment
from goqueue.testing.sim import SimDisk, World
from tests.sim.workload import CONFIG, Ledger

LIVES = 5
OPERATIONS_MAX = 400


def test_a_broker_that_dies_again_and_again_keeps_its_word(seed: int):
    """By power loss and by kill, while it works, stops, or is still recovering."""
    with World(seed) as world:
        chance = world.random
        ledger = Ledger(random.Random(f"{seed}/ledger"))
        for _ in range(LIVES):
            world.start("a", ledger.live)
            disk = world.disk("a")
            if chance.random() < 0.7:
                # Often early: then it dies while it recovers from its last death.
                within = chance.choice((10, 60, OPERATIONS_MAX))
                disk.crash_at(disk.operations + chance.randint(1, within))
                world.run_until(lambda: not world.alive("a"))
            else:
                world.run_for(chance.uniform(0.0, 0.5))
            if chance.random() < 0.25 and not disk.dead:
                world.kill("a")
            else:
                world.power_loss("a", in_order=chance.random() < 0.3, holes=chance.random() < 0.3)
        ledger.last_steps = 10
        for _ in range(2):
            world.start("a", ledger.live)
            world.run_until(lambda: not world.alive("a"))
            _assert_nothing_to_verify(world.disk("a"))
        assert ledger.checks >= 2


def test_power_may_go_at_every_operation(seed: int):
    """One short life, looked at as it would be if the power went before each change to the disk."""
    moments: list[tuple[int, str, SimDisk, Ledger]] = []
    with World(seed) as world:
        disk = world.disk("a")
        ledger = Ledger(random.Random(f"{seed}/ledger"))

        def watch(number: int, operation: str, path: str) -> None:
            fate = f"{seed}/{number}"
            moments.append(
                (
                    number,
                    f"{operation} {path}",
                    disk.crash(fate, holes=number % 3 == 0),
                    ledger.copy(),
                )
            )

        async def story(environment: Environment) -> None:
            async with Broker(environment, CONFIG).running() as broker:
                disk.watch(watch)
                await ledger.work(broker, steps=15)

        world.run(story(world.environment("a")))
        for number, what, crashed, known in moments:
            try:
                world.run(_check(known, world.environment("a"), crashed))
            except Exception as error:
                error.add_note(f"after the power went before operation {number}, {what}")
                raise
    assert len(moments) > 10


async def _check(ledger: Ledger, environment: Environment, disk: SimDisk) -> None:
    crashed = Environment(environment.clock, disk, environment.network, environment.random)
    async with Broker(crashed, CONFIG).running() as broker:
        await ledger.check(broker)


def _assert_nothing_to_verify(disk: SimDisk) -> None:
    """After a clean stop, also of a log that died often before."""
    for topic in disk.list_directory("/data/logs"):
        for index in disk.list_directory(f"/data/logs/{topic}"):
            if index.isdigit():
                directory = f"/data/logs/{topic}/{index}"
                _, recovery = open_log(disk, directory, topic_settings({}))
                assert recovery.verified_bytes == recovery.cut_bytes == 0, directory
