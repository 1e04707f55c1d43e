"""Workers of a queue group on several nodes: every message is done, and nobody shares one.

lost            published, and neither acked nor delivered at the end
delivered again after its ack was answered
two holders     delivered while another worker has it, and its visibility time-out is not over
attempt         of a later delivery that is not higher
"""

import asyncio
from dataclasses import dataclass

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.queue import Delivered, QueueSettings, Settled
from tests import queue_verbs
from tests.sim.cluster.clients import SECONDS_MAX, Clients, Refused
from tests.unit.broker.cluster.cluster_world import ClusterWorld

TOPIC, GROUP = "jobs", "workers"
PARTITIONS = 2
WORKERS = 2
VISIBILITY_S = 5.0
CLOCK_ERROR = 0.8  # clocks drift by a tenth, either way
SETTINGS = QueueSettings(
    visibility_ms=int(VISIBILITY_S * 1000),
    backoff_base_ms=100,
    max_failures=1_000,
    max_timeouts=1_000,
)
IDLE_ROUNDS = 2  # without a message, at the end
REFUSALS_MAX = 10  # when nothing is broken any more


@dataclass
class Held:
    worker: str
    asked_at: float  # the visibility time-out began later
    attempt: int


class QueueWorkers(Clients):
    def __init__(self, nodes: ClusterWorld, messages: int = 12) -> None:
        super().__init__(nodes, "queues")
        self.messages = messages
        self.published: set[bytes] = set()
        self.asked: set[bytes] = set()  # to be acked, and perhaps were
        self.acked: set[bytes] = set()
        self.delivered: set[bytes] = set()
        self.attempts: dict[bytes, int] = {}
        self._held: dict[bytes, Held] = {}
        self._is_over = False

    async def set_up(self) -> None:
        await self.create(TOPIC, PARTITIONS)
        while True:
            try:
                await self.ask(
                    self.somewhere(), lambda node: node.queues.configure(GROUP, SETTINGS)
                )
                return
            except Refused:
                await self.rest()

    async def run(self) -> None:
        working = [asyncio.ensure_future(self._work(f"w{each}")) for each in range(WORKERS)]
        for number in range(self.messages):
            await self._publish(b"job-%d" % number)
            await self.rest()
        self._is_over = True
        await asyncio.gather(*working)

    async def _publish(self, value: bytes) -> None:
        async def publish(broker: Broker) -> bool:
            (found,) = await Messages(broker).publish(TOPIC, [OutgoingMessage(value, key=value)])
            return isinstance(found, Published)

        try:
            if await self.ask(self.somewhere(), publish):
                self.published.add(value)
        except Refused:
            pass  # nobody was told that it is there

    # --- working ----------------------------------------------------------------------------------

    async def _work(self, worker: str) -> None:
        while not self._is_over:
            try:
                await self._settle_some(worker, await self._receive(worker, wait_ms=200))
            except Refused:
                await self.rest(0.5)
            await self.rest()

    async def _receive(self, worker: str, *, wait_ms: int) -> list[Delivered]:
        asked_at = self.world.loop.time()

        async def receive(broker: Broker) -> list[Delivered]:
            return await queue_verbs.receive(
                broker.queues, [TOPIC], GROUP, worker, wait_ms=wait_ms, max_messages=3
            )

        found = await self.ask(self.somewhere(), receive, SECONDS_MAX + wait_ms / 1000)
        for each in found:
            self._take(worker, asked_at, each)
        return found

    def _take(self, worker: str, asked_at: float, each: Delivered) -> None:
        value, now = each.record.value or b"", self.world.loop.time()
        if value in self.acked:
            self.note(f"{value!r} was acked, and is delivered to {worker}")
        if each.attempt <= self.attempts.get(value, 0):
            self.note(f"{value!r}: attempt {each.attempt} after {self.attempts[value]}")
        held = self._held.get(value)
        if held is not None and now < held.asked_at + VISIBILITY_S * CLOCK_ERROR:
            self.note(f"{value!r} has two holders: {held} and {worker}, attempt {each.attempt}")
        self.delivered.add(value)
        self.attempts[value] = max(each.attempt, self.attempts.get(value, 0))
        self._held[value] = Held(worker, asked_at, each.attempt)

    async def _settle_some(self, worker: str, found: list[Delivered]) -> None:
        for each in found:
            value = each.record.value or b""
            match self.draw.randrange(6):
                case 0:
                    continue  # it runs out of time
                case 1:
                    self._held.pop(value, None)
                    await self._settle(each, acks=False)
                case _:
                    self.asked.add(value)
                    self._held.pop(value, None)
                    if await self._settle(each, acks=True):
                        self.acked.add(value)

    async def _settle(self, each: Delivered, *, acks: bool) -> bool:
        async def settle(broker: Broker) -> bool:
            verb = queue_verbs.ack if acks else queue_verbs.nack
            (outcome,) = await verb(broker.queues, [each.receipt])
            return isinstance(outcome, Settled)

        return await self.ask(self.somewhere(), settle)

    # --- the end ----------------------------------------------------------------------------------

    async def judge(self) -> None:
        """Work everything off."""
        idle, refusals = 0, 0
        while idle < IDLE_ROUNDS:
            found: list[Delivered] = []
            try:
                found = await self._receive("last", wait_ms=int(VISIBILITY_S * 700))
                for each in found:
                    await self._ack(each)
                idle = 0 if found else idle + 1
            except Refused as error:  # a connection may have ended long ago, unnoticed
                refusals += 1
                if refusals > REFUSALS_MAX:
                    self.note(f"nothing is broken, and yet: {error!r}")
                    return
        for value in sorted(self.published - self.delivered - self.asked):
            self.note(f"lost: {value!r}")

    async def _ack(self, each: Delivered) -> None:
        value = each.record.value or b""
        self._held.pop(value, None)
        self.asked.add(value)
        if await self._settle(each, acks=True):
            self.acked.add(value)
