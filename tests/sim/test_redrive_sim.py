"""Dead letters on their way back, on a machine that may die at any disk operation.

Whatever happens, a dead letter is where it was or at the target, once; and what the answer of a
redrive counted is there.
"""

import asyncio
import random
from collections import Counter

import pytest

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.publish import Messages
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.model.config import Config
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests import queue_verbs

TOPIC, TARGET, GROUP = "jobs", "again", "workers"
COUNT = 12


class FailureHistory:
    """What the outside world knows."""

    def __init__(self) -> None:
        self.is_ready = False  # all are dead letters
        self.moved = 0  # as answers said
        self.is_over = False


async def prepare(broker: Broker) -> None:
    """Every message is a dead letter."""
    for name in (TOPIC, TARGET):
        if not broker.has_topic(name):
            await broker.create_topic(name, partitions=2)
    messages = [OutgoingMessage(b"%d" % number, key=b"%d" % number) for number in range(COUNT)]
    await Messages(broker).publish(TOPIC, messages)
    while held := await queue_verbs.receive(broker.queues, [TOPIC], GROUP, "ann", max_messages=100):
        await queue_verbs.reject(broker.queues, [each.receipt for each in held], reason="bad")
    while await broker.queues.dead_letters.count(TOPIC) < COUNT:
        await broker.environment.clock.sleep(0.1)


class Operator:
    """Redrives, twice at a time and slowly, as one process with its broker."""

    def __init__(self, story: FailureHistory) -> None:
        self._story = story

    async def run(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            if not self._story.is_ready:
                await prepare(broker)
                self._story.is_ready = True
            await asyncio.gather(self._redrive(broker), self._redrive(broker))
            self._story.is_over = True

    async def _redrive(self, broker: Broker) -> None:
        letters = broker.queues.dead_letters
        while count := await letters.redrive(TOPIC, target=TARGET, limit=3, rate=100):
            self._story.moved += count


class Audit:
    def __init__(self, story: FailureHistory) -> None:
        self._story = story
        self.is_done = False

    async def run(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            boxes = [ledger.ahead.dead_letters for ledger in broker.queues.ledgers]
            while any(box.moves for box in boxes):
                await broker.environment.clock.sleep(0.1)
            letters = broker.queues.dead_letters
            there = await letters.browse(TOPIC) if broker.has_topic(f"{TOPIC}.dlq") else []
            moved = await values_in(broker, TARGET)
            if self._story.is_ready:
                self._compare(Counter(each.record.value or b"" for each in there), moved)
                assert await letters.redrive(TOPIC, target=TARGET) == len(there)
                assert await values_in(broker, TARGET) == every_one(1)
                assert await letters.count(TOPIC) == 0
            self.is_done = True

    def _compare(self, there: Counter[bytes], moved: Counter[bytes]) -> None:
        assert there + moved == every_one(1), "lost, or twice"
        assert moved.total() >= self._story.moved, "an answer spoke of more"


def every_one(count: int) -> Counter[bytes]:
    return Counter({b"%d" % number: count for number in range(COUNT)})


async def values_in(broker: Broker, topic: str) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    if broker.has_topic(topic):
        for index in range(broker.topic(topic).partitions):
            partition = await broker.partition(topic, index)
            await partition.flush_visible()
            reader, offset = PartitionReader(partition), 0
            while lots := await reader.read_blocks(offset):
                offset = lots[-1].next_offset
                found.update(record.value or b"" for lot in lots for record in lot.records)
    return found


def play(seed: int, crash_at: int | None, crash_again_at: int | None = None) -> int:
    """One life with its end at a disk operation; gives how many there were."""
    story = FailureHistory()
    with World(f"redrive/{seed}") as world:
        disk = world.disk("a")
        world.start("a", Operator(story).run)
        if crash_at is not None:
            disk.crash_at(crash_at)
        world.run_until(lambda: not world.alive("a"), limit_s=600)
        operations = disk.operations
        audit = Audit(story)
        for again in (crash_again_at, None):
            world.power_loss("a")
            audit = Audit(story)
            world.start("a", audit.run)
            if again is not None:
                world.disk("a").crash_at(again)
            world.run_until(lambda: not world.alive("a"), limit_s=600)
            if audit.is_done:
                break
        assert audit.is_done
    return operations


def test_a_dead_letter_arrives_once_when_the_power_is_cut(seed):
    operations = play(seed, None)
    chance = random.Random(f"points/{seed}")
    for _ in range(6):
        again = chance.choice([None, chance.randrange(1, 60)])
        play(seed, chance.randrange(operations // 3, operations), again)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_dead_letter_arrives_once_wherever_the_power_is_cut():
    for crash_at in range(1, play(0, None)):
        play(0, crash_at)
