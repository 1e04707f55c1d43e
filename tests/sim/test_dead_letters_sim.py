"""Dead letters are written on a machine that may die at any disk operation: each exactly once."""

from collections import Counter
from random import Random

import pytest

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.publish import Messages
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests import queue_verbs

TOPIC, GROUP = "jobs", "workers"
COUNT = 6


class Worker:
    """Rejects every message it is given, until it is told that all are dead."""

    def __init__(self) -> None:
        self.published = 0  # as answers said
        self.is_over = False

    async def run(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            if not broker.has_topic(TOPIC):
                await broker.create_topic(TOPIC, partitions=1)
            while self.published < COUNT:
                value = b"%d" % self.published
                await Messages(broker).publish(TOPIC, [OutgoingMessage(value)])
                self.published += 1
                await self._reject(broker)
            await self._reject(broker)
            self.is_over = True

    async def _reject(self, broker: Broker) -> None:
        held = await queue_verbs.receive(broker.queues, [TOPIC], GROUP, "ann", max_messages=100)
        outcomes = await queue_verbs.reject(
            broker.queues, [each.receipt for each in held], reason="bad"
        )
        assert not [each for each in outcomes if isinstance(each, GoQueueError)]


async def dead_values(broker: Broker) -> Counter[bytes]:
    partition = await broker.partition(f"{TOPIC}.dlq", 0)
    await partition.flush_visible()
    blocks = await PartitionReader(partition).read_blocks(0)
    return Counter(record.value or b"" for block in blocks for record in block.records)


class Audit:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.is_done = False

    async def run(self, environment: Environment) -> None:
        """What is left is rejected, and then all are there once."""
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            if broker.has_topic(TOPIC):
                await environment.clock.sleep(60)  # what a dead worker held comes back
                await self._worker._reject(broker)
                log = (await broker.partition(TOPIC, 0)).log
                if log.end_offset:
                    await environment.clock.sleep(60)
                    found = await dead_values(broker)
                    assert found.total() == log.end_offset, "lost, or twice"
                    assert set(found) >= {b"%d" % each for each in range(self._worker.published)}
            self.is_done = True


def play(seed: int, crash_at: int | None, crash_again_at: int | None = None) -> int:
    worker = Worker()
    with World(f"dead letters/{seed}") as world:
        disk = world.disk("a")
        world.start("a", worker.run)
        if crash_at is not None:
            disk.crash_at(crash_at)
        world.run_until(lambda: not world.alive("a"), limit_s=600)
        operations = disk.operations
        audit = Audit(worker)
        for again in (crash_again_at, None):
            world.power_loss("a")
            if again is not None:
                world.disk("a").crash_at(again)
            world.start("a", audit.run)
            world.run_until(lambda: audit.is_done or not world.alive("a"), limit_s=600)
            if audit.is_done:
                break
        assert audit.is_done
    return operations


def test_a_dead_letter_is_written_once_when_the_power_fails(seed):
    operations = play(seed, None)
    random = Random(f"points/{seed}")
    for _ in range(3):
        again = random.choice([None, random.randrange(1, 100)])
        play(seed, random.randrange(operations // 3, operations), again)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_dead_letter_is_written_once_wherever_the_power_fails():
    for crash_at in range(1, play(0, None)):
        play(0, crash_at)
