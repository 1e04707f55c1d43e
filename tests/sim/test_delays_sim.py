"""Delayed messages on a machine that may die at any disk operation, and whose leaders change.

Whatever was answered as scheduled is delivered exactly once, and what was answered as cancelled
never is.
"""

import asyncio
from collections import Counter
from random import Random

import pytest

from goqueue.broker import Broker
from goqueue.broker.delays.delivery import Delivery
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.cluster.replication import Follower, Leader
from goqueue.log.replica import Replica
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Epoch, NodeId
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World

TOPIC = "jobs"
COUNT = 25
CHANGES = 8


def delayed(value: bytes, delay_ms: int) -> OutgoingMessage:
    return OutgoingMessage(value, headers=(("gq-delay-ms", b"%d" % delay_ms),), partition=0)


class Story:
    """What the outside world was told."""

    def __init__(self, seed: object) -> None:
        self.random = Random(f"delays/{seed}")
        self.scheduled: set[bytes] = set()
        self.cancelled: set[bytes] = set()
        self.unsure: set[bytes] = set()  # cancelled, and nobody answered
        self.number = 0
        self.is_over = False
        self.cuts = 0  # of the delay log
        self.moves = 0  # of messages in it

    async def run(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            if not broker.has_topic(TOPIC):
                await broker.create_topic(TOPIC, partitions=1)
            cleaning = asyncio.create_task(self.clean_logs(broker))
            await self.publish(broker, COUNT)
            await environment.clock.sleep(2)
            cleaning.cancel()
            self.is_over = True

    async def publish(self, broker: Broker, count: int) -> None:
        messages, sleep = Messages(broker), broker.environment.clock.sleep
        while self.number < count:
            some = [b"%d" % (self.number + step) for step in range(self.random.randrange(1, 4))]
            self.number += len(some)
            wanted = [delayed(each, self.random.choice((1, 15, 300, 2_000))) for each in some]
            try:
                outcomes = await messages.publish(TOPIC, wanted)
            except GoQueueError:
                outcomes = []
            for value, outcome in zip(some, outcomes, strict=False):
                if isinstance(outcome, Published):
                    self.scheduled.add(value)
                    if self.random.random() < 0.2:
                        await self.cancel(broker, value, outcome)
            await sleep(self.random.uniform(0, 0.05))

    async def cancel(self, broker: Broker, value: bytes, outcome: Published) -> None:
        self.unsure.add(value)
        try:
            await broker.delays.admin.cancel(TOPIC, 0, outcome.offset)
        except GoQueueError:
            return
        self.cancelled.add(value)

    async def clean_logs(self, broker: Broker) -> None:
        """Small segments, looked at all the time: most of what still waits is moved."""
        nap = self._nap(broker)
        while not self.is_over:
            await nap(0.2)
            line = broker.delays.lines.find(TOPIC, 0)
            if line is None:
                continue
            log = line.messages.log
            try:
                if log.segments[-1].size:
                    log.roll()
                start, moved = log.start_offset, line.timers.ahead.moved
                await line.clean()
                await line.index()
            except GoQueueError:
                continue
            self.cuts += log.start_offset > start
            self.moves += line.timers.ahead.moved > moved

    async def change_leaders(self, broker: Broker) -> None:
        partitions, topic, sleep = broker.partitions, broker.topic(TOPIC), self._nap(broker)
        for epoch in range(1, 2 * CHANGES, 2):
            await sleep(0.15)
            await partitions.change_role(topic, 0, Follower(NodeId(2), Epoch(epoch)))
            for log in list(partitions.bundle(topic, 0)):
                await log.truncate_to(log.log.high_watermark)
            await sleep(0.02)
            await partitions.change_role(topic, 0, Leader.alone(NodeId(1), Epoch(epoch + 1)))

    def _nap(self, broker: Broker):
        return lambda most: broker.environment.clock.sleep(self.random.uniform(0, most))

    async def check(self, broker: Broker) -> None:
        await broker.environment.clock.sleep(30)
        if not broker.has_topic(TOPIC):
            return
        partition = await broker.partition(TOPIC, 0)
        await partition.flush_visible()
        reader, found, offset = PartitionReader(partition), Counter[bytes](), 0
        while blocks := await reader.read_blocks(offset):
            found.update(record.value or b"" for block in blocks for record in block.records)
            offset = blocks[-1].next_offset
        twice = [value for value, count in found.items() if count > 1]
        assert not twice, f"delivered twice: {twice}"
        lost = self.scheduled - self.unsure - found.keys()
        assert not lost, f"lost: {lost}"
        assert not found.keys() & self.cancelled, "cancelled, and delivered"


class Audit:
    def __init__(self, story: Story) -> None:
        self._story = story
        self.is_done = False

    async def run(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await self._story.check(broker)
            self.is_done = True


def play(seed: object, crash_at: int | None, crash_again_at: int | None = None) -> int:
    story = Story(seed)
    with World(f"delays/{seed}") as world:
        disk = world.disk("a")
        world.start("a", story.run)
        if crash_at is not None:
            disk.crash_at(crash_at)
        world.run_until(lambda: not world.alive("a") or story.is_over, limit_s=600)
        operations = disk.operations
        audit = Audit(story)
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


def test_a_delayed_message_is_delivered_once_when_the_power_fails(seed):
    operations = play(seed, None)
    random = Random(f"points/{seed}")
    for _ in range(3):
        again = random.choice([None, random.randrange(1, 150)])
        play(seed, random.randrange(operations // 4, operations), again)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_delayed_message_is_delivered_once_wherever_the_power_fails():
    for crash_at in range(1, play(0, None)):
        play(0, crash_at)


def change_leaders_at_any_moment(seed: object) -> Story:
    async def main(environment: Environment) -> None:
        broker = Broker(environment, Config(data_dir="/data"))
        broker.partitions.replica_of = lambda topic_id, index: (
            None if topic_id is None else Replica(topic_id, index)
        )
        async with broker.running():
            await broker.create_topic(TOPIC, partitions=1)
            cleaning = asyncio.create_task(story.clean_logs(broker))
            await asyncio.gather(story.publish(broker, 4 * COUNT), story.change_leaders(broker))
            await story.check(broker)
            story.is_over = True
            await cleaning
            assert story.scheduled

    story = Story(seed)
    with World(f"leaders of delays/{seed}") as world:
        world.run(main(world.environment("a")))
    return story


def test_a_delayed_message_is_delivered_once_whoever_led_meanwhile(seed):
    change_leaders_at_any_moment(seed)


def test_leaders_change_while_the_delay_log_is_cut_and_messages_are_moved():
    stories = [change_leaders_at_any_moment(f"moves/{seed}") for seed in range(5)]
    assert sum(story.cuts for story in stories) > 5
    assert sum(story.moves for story in stories) > 5


@pytest.mark.parametrize("bug", ["forgets what is in doubt", "notes before the commit"])
def test_planted_bugs_are_caught(monkeypatch, bug: str):
    if bug == "forgets what is in doubt":

        async def recover(_: Delivery) -> None:
            return

        monkeypatch.setattr(Delivery, "recover", recover)
    else:
        watch = Delivery._watch

        def note_at_once(self: Delivery, offsets, entries, last) -> None:
            watch(self, offsets, entries, last)
            self._note(self._in_doubt[-1])
            self._timers.demand_sync()

        monkeypatch.setattr(Delivery, "_watch", note_at_once)
    with pytest.raises(AssertionError, match=r"delivered twice|lost"):
        try_seeds()


def try_seeds() -> None:
    for seed in range(100):
        play(f"bug/{seed}", 60 + 7 * seed)
        change_leaders_at_any_moment(f"bug/{seed}")
