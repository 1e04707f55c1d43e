"""Consumers of a queue on three nodes, whose partitions are led apart, while nodes die.

Whatever breaks:

- no message has two holders: one that was delivered, and not given back, comes again only after its
  visibility time;
- what was acked, and answered so, is never delivered again;
- what was rejected becomes one dead letter, and one that is redriven is one message again.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.broker.messages.read import read_page
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId, Offset
from goqueue.queue import Delivered, Settled
from goqueue.testing.sim.loop import SimCrash
from tests import queue_verbs
from tests.unit.broker.cluster.cluster_world import NUMBERS, ClusterWorld

TOPIC, GROUP = "orders", "workers"
PARTITIONS = 3
VISIBILITY_MS = 4_000
STEP_SECONDS = 8.0  # that a client waits for an answer
RUN_SECONDS = 90.0  # a message whose ack was not answered may be finished, and nobody knows
HOSTS = {number: host for host, number in NUMBERS.items()}

Place = tuple[int, int]  # partition and offset


class QueueWorkload:
    def __init__(self, nodes: ClusterWorld, count: int = 40) -> None:
        self.nodes = nodes
        self.world = nodes.world
        self.random = nodes.world.random
        self.count = count
        self.published: set[str] = set()  # and answered
        self.finished: Counter[str] = Counter()  # acks, by value
        self.problems: list[str] = []
        self._held: dict[Place, float] = {}  # until when, at least
        self._acked: set[Place] = set()  # and answered
        self._asked: set[Place] = set()  # to be acked; an answer may have been lost
        self._rejected: dict[Place, str] = {}
        self._messages: dict[Broker, Messages] = {}
        self._ends = 0.0

    # --- the cluster ------------------------------------------------------------------------------

    def create_topic(self) -> None:
        replicas = [[NodeId((i + j) % 3 + 1) for j in range(3)] for i in range(PARTITIONS)]
        creating = self.nodes.controller.create_topic(
            TOPIC, partitions=PARTITIONS, assignments=replicas
        )
        self.world.run(creating)
        self.world.run_until(lambda: self.is_led(TOPIC), limit_s=30)

    def is_led(self, topic: str) -> bool:
        """Whether all nodes are there, and all leaders lead."""
        if len(self.nodes.brokers) < 3:
            return False
        found = self.nodes.controller.metadata.find(topic)
        return found is not None and all(
            self._leads(topic, index) for index in range(found.partitions)
        )

    def _leads(self, topic: str, index: int) -> bool:
        metadata = self.nodes.controller.metadata
        state = metadata.partition(metadata.topic(topic).topic_id, index)
        broker = self.nodes.brokers.get(HOSTS.get(state.leader, ""))
        partition = None if broker is None else broker.partitions.find_open(topic, index)
        return partition is not None and partition.leads

    def _any(self) -> Broker | None:
        for each in self.nodes.brokers.values():
            if each not in self._messages:
                self._messages[each] = Messages(each)  # and it serves the others
        brokers = list(self.nodes.brokers.values())
        return self.random.choice(brokers) if brokers else None

    def _is_alive(self, broker: Broker) -> bool:
        """An answer of a process that died meanwhile never arrived."""
        return any(each is broker for each in self.nodes.brokers.values())

    # --- clients ----------------------------------------------------------------------------------

    async def run(self) -> None:
        self._ends = self.world.loop.time() + RUN_SECONDS
        clients = [self._repeat(self._publish)]
        clients += [self._repeat(self._consume, f"c{number}") for number in range(3)]
        clients.append(self._repeat(self._redrive))
        await asyncio.gather(*clients)

    async def _repeat(self, step: Callable[..., Awaitable[None]], *given: str) -> None:
        while self.world.loop.time() < self._ends and (
            len(self.published) < self.count or not self.is_done
        ):
            broker = self._any()
            if broker is not None:
                try:
                    async with asyncio.timeout(STEP_SECONDS):
                        await step(broker, *given)
                except (GoQueueError, TimeoutError, SimCrash):
                    pass
            await asyncio.sleep(self.random.uniform(0.05, 0.4))

    @property
    def is_done(self) -> bool:
        return self.published <= set(self.finished)

    async def _publish(self, broker: Broker) -> None:
        if len(self.published) >= self.count:
            return
        value = f"m{self.random.randrange(2**40)}"
        message = OutgoingMessage(value.encode(), partition=self.random.randrange(PARTITIONS))
        (done,) = await self._messages[broker].publish(TOPIC, [message])
        if isinstance(done, Published) and self._is_alive(broker):
            self.published.add(value)

    async def _consume(self, broker: Broker, consumer: str) -> None:
        asked_at = self.world.loop.time()
        wait_ms = self.random.choice((0, 1_000, 3_000))
        found = await queue_verbs.receive(
            broker.queues,
            [TOPIC],
            GROUP,
            consumer,
            wait_ms=wait_ms,
            max_messages=5,
            visibility_ms=VISIBILITY_MS,
        )
        if not self._is_alive(broker):
            return
        for each in found:
            self._note_delivery(each, asked_at)
        await asyncio.sleep(self.random.uniform(0, 1.0))
        for each in found:
            other = self._any()
            if other is not None:
                await self._settle(other, each)

    def _note_delivery(self, message: Delivered, asked_at: float) -> None:
        place, now = (message.partition, message.record.offset), self.world.loop.time()
        if place in self._acked:
            self.problems.append(f"{place} was acked, and delivered again at {now}")
        if now < self._held.get(place, 0):
            self.problems.append(f"{place} has two holders at {now}: {self._held[place]}")
        self._held[place] = asked_at + VISIBILITY_MS / 1000

    async def _settle(self, broker: Broker, message: Delivered) -> None:
        place = message.partition, message.record.offset
        value, draw = (message.record.value or b"").decode(), self.random.random()
        if draw < 0.1:
            return  # it is forgotten, and comes again
        self._held.pop(place, None)  # whatever is answered, it may be over now
        if draw < 0.25 and not self.finished[value]:
            outcomes = await queue_verbs.reject(broker.queues, [message.receipt], reason="bad")
        else:
            self._asked.add(place)
            outcomes = await queue_verbs.ack(broker.queues, [message.receipt])
        if not self._is_alive(broker) or not isinstance(outcomes[0], Settled):
            return
        if draw >= 0.25 or self.finished[value]:
            self._acked.add(place)
            self.finished[value] += 1
        else:
            self._rejected[place] = value

    async def _redrive(self, broker: Broker) -> None:
        await broker.queues.dead_letters.redrive(TOPIC)
        await asyncio.sleep(self.random.uniform(0, 2.0))

    # --- the end ----------------------------------------------------------------------------------

    def finish(self) -> None:
        """When all nodes are there: nothing is left, and nothing was doubled."""
        self.world.run_until(lambda: self.is_led(TOPIC), limit_s=120)
        self.world.run(self._drain())
        found = self.world.run(self._read_all())
        counts = Counter(found.values())
        rejected = Counter(self._rejected.values())
        for value in self.published:
            copies = counts[value]
            if copies < 1 + rejected[value]:
                self.problems.append(f"{value}: {copies} copies, rejected {rejected[value]} times")
            ended = self._acked | self._asked
            dead = sum(1 for place in found if found[place] == value and place not in ended)
            if copies - dead < 1:
                self.problems.append(f"{value} was never acked")
        self._check_unanswered(found, counts)

    def _check_unanswered(self, found: dict[Place, str], counts: Counter[str]) -> None:
        """A place that was neither acked nor rejected has no copy behind it."""
        for value, copies in counts.items():
            places = [place for place, each in found.items() if each == value]
            ended = sum(place in self._acked for place in places)
            if ended > 1:
                self.problems.append(f"{value} was acked at {ended} of {copies} places")

    async def _drain(self) -> None:
        async with asyncio.timeout(300):
            while not await self._is_drained():  # noqa: ASYNC110 # simulated time
                await asyncio.sleep(0.5)

    async def _is_drained(self) -> bool:
        broker = self._any()
        assert broker is not None
        try:
            await broker.queues.dead_letters.redrive(TOPIC)
            left = await broker.queues.dead_letters.count(TOPIC)
            found = await queue_verbs.receive(
                broker.queues, [TOPIC], GROUP, "last", wait_ms=VISIBILITY_MS + 1_000,
                max_messages=100, visibility_ms=VISIBILITY_MS,
            )  # fmt: skip
            asked_at = self.world.loop.time() - 2 * VISIBILITY_MS
            for each in found:
                self._note_delivery(each, asked_at)
                (outcome,) = await queue_verbs.ack(broker.queues, [each.receipt])
                if isinstance(outcome, Settled):
                    self._acked.add((each.partition, each.record.offset))
                    self.finished[(each.record.value or b"").decode()] += 1
        except GoQueueError:
            return False
        return not found and not left

    async def _read_all(self) -> dict[Place, str]:
        found: dict[Place, str] = {}
        for index in range(PARTITIONS):
            broker = next(b for b in self.nodes.brokers.values() if self._leads_at(b, index))
            partition = await broker.partition(TOPIC, index)
            page = await read_page(partition, Offset(0), limit=10_000, bytes_max=2**24)
            for each in page.records:
                found[index, each.offset] = (each.value or b"").decode()
        return found

    def _leads_at(self, broker: Broker, index: int) -> bool:
        partition = broker.partitions.find_open(TOPIC, index)
        return partition is not None and partition.leads
