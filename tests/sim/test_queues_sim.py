"""Queues on a machine that may die at any disk operation, and again while it recovers.

Whatever was answered holds afterwards:

- acked: never delivered again; rejected: one dead letter, never delivered again;
- published: delivered again, or acked, or one dead letter; never lost;
- no message is two dead letters, or a dead letter and delivered too;
- the wall clock is set by up to a day, now and then, and all comes back in time;
- a later delivery of a message has a higher attempt than those that were answered; when deliveries
  are only written, after the process was killed, and not after a power cut.
"""

import random
from collections import Counter

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.model.config import Config
from goqueue.queue import Delivered, QueueSettings, Settled
from goqueue.queue.dead_letter import read_failure_history
from goqueue.runtime import Environment
from goqueue.testing.sim import SimClock
from goqueue.testing.sim.world import World
from tests import queue_verbs

TOPIC, GROUP = "jobs", "workers"
DAY_MS = 24 * 3_600_000
SETTINGS = QueueSettings(
    visibility_ms=3_000, backoff_base_ms=100, backoff_jitter=0.1, max_failures=2, max_timeouts=2
)

ASYNC = msgspec.structs.replace(SETTINGS, delivery_durability="async")


class FailureHistory:
    """What the outside world knows."""

    def __init__(self) -> None:
        self.published: set[bytes] = set()
        self.asked: set[bytes] = set()  # to be acked, and perhaps were
        self.acked: set[bytes] = set()
        self.rejected: set[bytes] = set()
        self.attempts: dict[bytes, int] = {}
        self.is_over = False

    def note(self, delivered: list[Delivered]) -> None:
        for each in delivered:
            value = each.record.value or b""
            assert value not in self.acked, f"{value!r} was acked and is delivered again"
            assert value not in self.rejected, f"{value!r} is a dead letter and is delivered"
            assert each.attempt > self.attempts.get(value, 0), f"{value!r}: attempt repeated"
            self.attempts[value] = each.attempt


class Workers:
    """A broker and those who work on it, as one process."""

    def __init__(
        self, story: FailureHistory, seed: int, settings: QueueSettings = SETTINGS
    ) -> None:
        self._story = story
        self._settings = settings
        self._seed = seed
        self._chance = random.Random(f"workers/{seed}")

    async def run(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            if not broker.has_topic(TOPIC):
                await broker.create_topic(TOPIC, partitions=2)
            await broker.queues.configure(GROUP, self._settings)
            for number in range(6):
                await self._publish(broker, number)
                await self._work(broker)
            self._story.is_over = True

    async def _publish(self, broker: Broker, number: int) -> None:
        values = [b"%d-%d-%d" % (self._seed, number, each) for each in range(4)]
        outcomes = await Messages(broker).publish(
            TOPIC, [OutgoingMessage(value, key=value) for value in values]
        )
        assert all(isinstance(outcome, Published) for outcome in outcomes)
        self._story.published.update(values)

    async def _work(self, broker: Broker) -> None:
        queues, story = broker.queues, self._story
        self._perhaps_set_clock(broker)
        delivered = await queue_verbs.receive(
            queues, [TOPIC], GROUP, "ann", max_messages=5, wait_ms=50
        )
        story.note(delivered)
        if self._chance.random() < 0.3:
            await broker.environment.clock.sleep(3.5)  # some run out of time
            return
        for each in delivered:
            value = each.record.value or b""
            match self._chance.randrange(5):
                case 0 | 1:
                    story.asked.add(value)
                    (outcome,) = await queue_verbs.ack(queues, [each.receipt])
                    if isinstance(outcome, Settled):
                        story.acked.add(value)
                case 2:
                    (outcome,) = await queue_verbs.reject(queues, [each.receipt], reason="bad")
                    if isinstance(outcome, Settled):
                        story.rejected.add(value)
                case 3:
                    await queue_verbs.nack(
                        queues, [each.receipt], delay_ms=self._chance.choice([None, 0])
                    )
                case _:
                    await queues.release([each.receipt])

    def _perhaps_set_clock(self, broker: Broker) -> None:
        clock = broker.environment.clock
        if self._chance.random() < 0.2 and isinstance(clock, SimClock):
            clock.jump(self._chance.randrange(-DAY_MS, DAY_MS))


class Audit:
    """After the crash: work everything off, and compare with what was known."""

    def __init__(self, story: FailureHistory) -> None:
        self._story = story
        self.is_done = False

    async def run(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            seen: Counter[bytes] = Counter()
            if broker.has_topic(TOPIC):
                seen = await self._drain(broker)
            letters = await self._letters(broker)
            self._compare(seen, letters)
            self.is_done = True

    async def _drain(self, broker: Broker) -> Counter[bytes]:
        queues, seen = broker.queues, Counter[bytes]()
        await queues.configure(GROUP, SETTINGS)
        while True:
            some = await queue_verbs.receive(
                queues, [TOPIC], GROUP, "auditor", max_messages=100, wait_ms=8_000
            )
            if not some:
                break
            self._story.note(some)
            seen.update(each.record.value or b"" for each in some)
            self._story.asked.update(each.record.value or b"" for each in some)
            await queue_verbs.ack(queues, [each.receipt for each in some])
            self._story.acked.update(each.record.value or b"" for each in some)
        assert not queues.table.has_dead, "everybody who died is buried"
        assert queues.in_flight(GROUP) == []
        return seen

    async def _letters(self, broker: Broker) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        ids: set[str] = set()
        if not broker.has_topic(f"{TOPIC}.dlq"):
            return found
        for index in range(broker.topic(f"{TOPIC}.dlq").partitions):
            partition = await broker.partition(f"{TOPIC}.dlq", index)
            reader, offset = PartitionReader(partition), 0
            while lots := await reader.read_blocks(offset):
                offset = lots[-1].next_offset
                for record in [record for lot in lots for record in lot.records]:
                    story = read_failure_history(record)
                    assert story is not None
                    assert story.dead_letter_id not in ids, (
                        f"{story.dead_letter_id} is written twice"
                    )
                    ids.add(story.dead_letter_id)
                    found[record.value or b""] += 1
        return found

    def _compare(self, seen: Counter[bytes], letters: Counter[bytes]) -> None:
        story = self._story
        for value in story.published:
            ends = (value in story.acked) + letters[value]
            assert ends == 1 or (value in story.asked and ends == 0), (
                f"{value!r} ended {ends} times"
            )
        assert all(count == 1 for count in seen.values()), "acked and delivered again"
        assert story.rejected <= set(letters), "a rejected message is no dead letter"
        assert not set(letters) & (story.acked | set(seen)), "a dead letter was delivered too"


def play(seed: int, crash_at: int | None, crash_again_at: int | None = None) -> int:
    """One life with its end at a disk operation; gives how many there were."""
    story = FailureHistory()
    with World(f"queues/{seed}") as world:
        disk = world.disk("a")
        world.start("a", Workers(story, seed).run)
        if crash_at is not None:
            disk.crash_at(crash_at)
        world.run_until(lambda: not world.alive("a"), limit_s=600)
        operations = disk.operations
        world.power_loss("a")
        audit = Audit(story)
        world.start("a", audit.run)
        if crash_again_at is not None:
            world.disk("a").crash_at(crash_again_at)
            world.run_until(lambda: not world.alive("a"), limit_s=600)
            if not audit.is_done:
                world.power_loss("a")
                audit = Audit(story)
                world.start("a", audit.run)
        world.run_until(lambda: not world.alive("a"), limit_s=600)
        assert audit.is_done
    return operations


def test_async_deliveries_hold_when_the_process_is_killed(seed):
    chance = random.Random(f"kills/{seed}")
    story = FailureHistory()
    with World(f"kills/{seed}") as world:
        for life in range(4):
            world.start("a", Workers(story, seed * 10 + life, ASYNC).run)
            world.run_for(chance.uniform(0.05, 12))
            world.kill("a")
        run_audit(world, story)


def test_a_power_cut_undoes_async_deliveries_and_no_more(seed):
    chance = random.Random(f"cuts/{seed}")
    story = FailureHistory()
    with World(f"cuts/{seed}") as world:
        for life in range(4):
            world.start("a", Workers(story, seed * 10 + life, ASYNC).run)
            world.run_for(chance.uniform(0.05, 12))
            world.power_loss("a")
            story.attempts.clear()
        run_audit(world, story)


def test_a_receipt_that_a_power_cut_took_back_is_not_somebody_elses():
    taken_back = [_receipt_after_a_power_cut(seed) for seed in range(8)]
    assert any(taken_back)


def _receipt_after_a_power_cut(seed: int) -> bool:
    """Ann got a message before the cut, and Bob after it; whether Ann's hand-out was forgotten."""
    held: dict[str, Delivered] = {}

    async def receive(environment: Environment, name: str) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            if name == "ann":
                await broker.create_topic(TOPIC, partitions=1)
                await broker.queues.configure(GROUP, ASYNC)
                await Messages(broker).publish(TOPIC, [OutgoingMessage(b"x")])
            (held[name],) = await queue_verbs.receive(
                broker.queues, [TOPIC], GROUP, name, wait_ms=30_000
            )
            if name == "bob":
                late, own = await queue_verbs.ack(
                    broker.queues, [held["ann"].receipt, held["bob"].receipt]
                )
                assert not isinstance(late, Settled)
                assert isinstance(own, Settled)
            held[f"{name} is done"] = held[name]
            await environment.clock.sleep(60)

    with World(f"receipts/{seed}") as world:
        world.start("a", lambda environment: receive(environment, "ann"))
        world.run_until(lambda: "ann is done" in held)
        world.power_loss("a", seed)
        world.start("a", lambda environment: receive(environment, "bob"))
        world.run_until(lambda: "bob is done" in held)
    return held["bob"].attempt == 1


def run_audit(world: World, story: FailureHistory) -> None:
    audit = Audit(story)
    world.start("a", audit.run)
    world.run_until(lambda: not world.alive("a"), limit_s=600)
    assert audit.is_done


def test_what_was_answered_holds_after_a_power_cut(seed):
    operations = play(seed, None)
    chance = random.Random(f"points/{seed}")
    for _ in range(4):
        again = chance.choice([None, chance.randrange(1, 120)])
        play(seed, chance.randrange(1, operations), again)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_what_was_answered_holds_wherever_the_power_is_cut():
    for crash_at in range(1, play(0, None)):
        play(0, crash_at)
