"""Partitions are led elsewhere and here again, at any moment of what queues and producers do.

What was not committed when this node lost a partition is cut off, as a follower does.  Whatever was
answered stands: published messages are delivered, acked ones are not delivered again; and nobody
waits for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.cluster.replication import Follower, Leader
from goqueue.log.replica import Replica
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError, LeadershipLost, NotLeader
from goqueue.model.ids import Epoch, NodeId
from goqueue.queue import Delivered, Settled
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from goqueue.txn import ProducerIdentity
from tests import queue_verbs

HERE, ELSEWHERE = NodeId(1), NodeId(2)
PARTITIONS = 2
CHANGES = 12
STUCK_SECONDS = 300


Settle = Callable[[list[Delivered]], Awaitable[None]]


class Story:
    """What the outside world was told."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.random = Random(f"leadership/{seed}")
        self.broker = broker
        self.published: set[bytes] = set()
        self.delivered: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.unsure: set[bytes] = set()  # acked, and the answer was that nobody knows
        self.is_over = False

    async def sleep(self, most: float) -> None:
        await self.broker.environment.clock.sleep(self.random.uniform(0, most))

    async def publish(self) -> None:
        messages, number = Messages(self.broker), 0
        while not self.is_over:
            number += 1
            value = b"%d" % number
            try:
                outcomes = await messages.publish("jobs", [OutgoingMessage(value)])
            except GoQueueError:
                outcomes = []
            if any(isinstance(each, Published) for each in outcomes):
                self.published.add(value)
            await self.sleep(0.01)

    async def work(self, name: str) -> None:
        while not self.is_over:
            await self.receive(name, self.ack)

    async def work_in_transactions(self, name: str) -> None:
        transactions = self.broker.transactions
        while not self.is_over:
            try:
                who = await transactions.init(name, timeout_ms=60_000)
                await transactions.begin(name, who)
                await self.receive(name, partial(self.ack_in, name, who))
            except GoQueueError:
                await self.sleep(0.01)

    async def receive(self, name: str, settle: Settle) -> bool:
        try:
            held = await queue_verbs.receive(
                self.broker.queues, ["jobs"], "workers", name, max_messages=5, wait_ms=1_000
            )
        except GoQueueError:
            await self.sleep(0.01)
            return False
        for each in held:
            assert each.record.value not in self.acked, "an answered ack was taken back"
            self.delivered.add(each.record.value or b"")
        await self.sleep(0.005)
        await settle(held)
        return bool(held)

    async def ack(self, held: list[Delivered]) -> None:
        try:
            outcomes = await queue_verbs.ack(self.broker.queues, [each.receipt for each in held])
        except LeadershipLost:
            self.unsure |= values(held)
            return
        except NotLeader:
            return
        for each, outcome in zip(held, outcomes, strict=True):
            if isinstance(outcome, Settled):
                self.acked.add(each.record.value or b"")

    async def ack_in(self, name: str, who: ProducerIdentity, held: list[Delivered]) -> None:
        transactions = self.broker.transactions
        refused = await transactions.add_acks(name, who, [each.receipt for each in held])
        commits = not refused and self.random.random() < 0.8
        if commits:
            self.unsure |= values(held)
        await transactions.end(name, who, commits=commits, bumps_epoch=False)
        if commits:  # decided, for good: the markers are sent until they arrive
            self.acked |= values(held)

    async def change_leaders(self) -> None:
        partitions, topic = self.broker.partitions, self.broker.topic("jobs")
        led: list[asyncio.Future[None]] = []
        for epoch in range(1, 2 * CHANGES, 2):
            await self.sleep(0.05)
            index = self.random.randrange(PARTITIONS)
            await partitions.change_role(topic, index, Follower(ELSEWHERE, Epoch(epoch)))
            for log in list(partitions.bundle(topic, index)):
                await log.truncate_to(log.log.high_watermark)
            await self.sleep(0.02)
            role = Leader.alone(HERE, Epoch(epoch + 1))
            led.append(partitions.change_role(topic, index, role))
            if self.random.random() < 0.7:
                await led[-1]
        await asyncio.gather(*led, return_exceptions=True)
        self.is_over = True

    async def drain(self) -> None:
        """Everything that is not acked is delivered in the end, and nothing else."""
        for _ in range(4):
            while await self.receive("ann", self.ack):
                pass
            await self.broker.environment.clock.sleep(60)
        assert self.delivered >= self.published, "a published message is lost"
        assert self.acked | self.unsure >= self.published, "a message was not delivered again"


def values(held: list[Delivered]) -> set[bytes]:
    return {each.record.value or b"" for each in held}


def test_what_was_answered_stands_whoever_led_meanwhile(seed):
    async def main(environment: Environment) -> None:
        broker = Broker(environment, Config(data_dir="/data"))
        broker.partitions.replica_of = lambda topic_id, index: (
            None if topic_id is None else Replica(topic_id, index)
        )
        async with broker.running():
            await broker.create_topic("jobs", partitions=PARTITIONS)
            story = Story(broker, seed)
            everybody = asyncio.gather(
                story.publish(),
                story.work("ann"),
                story.work("bob"),
                story.work_in_transactions("tess"),
                story.change_leaders(),
            )
            await asyncio.wait_for(everybody, STUCK_SECONDS)
            await story.drain()
            assert story.published
            assert story.acked

    with World(f"leadership/{seed}") as world:
        world.run(main(world.environment("a")))
