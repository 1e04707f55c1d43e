"""Scenarios of queues as text (`tests/scenarios.py`), on a simulated broker.

`ann`, `bob` … are workers of the group `workers`; the topic `jobs` has one partition.  A worker
knows a message by its value, and uses the receipt that it got for it last.

    settings max_failures=2             of the group; durations in ms, and without jitter
    publish one two [priority=high]     messages, in order; also key=, and any other header
    ann receive [2]                     at most so many messages
    ann ack one two, ann reject one     the end of a message
    ann nack one                        it failed, and is tried again after the backoff
    ann extend one 60s                  more time for it
    ann release one                     back to the queue, which is no failure

    queue                               how far the group is, and what is in flight
    dlq                                 the dead letters, and why they are there
    redrive                             the dead letters go back to their topic
    records                             what the partition's ledger wrote since the last `records`
    advance 10s                         time passes
    power cut                           the broker loses what was not synced, and starts again
"""

from collections.abc import Callable

import msgspec

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.ids import GroupId, TopicName
from goqueue.queue import QueueSettings, Settled, Where
from goqueue.queue.replies import SettleOutcome
from goqueue.testing.sim.world import World
from tests import queue_verbs
from tests.scenarios import milliseconds
from tests.unit.broker.queue_world import Bench
from tests.unit.broker.scenario import Answer, BrokerScenario

WORKERS = GroupId("workers")
JOBS = TopicName("jobs")


class ScenarioWorld(BrokerScenario):
    def __init__(self, world: World) -> None:
        self.receipts: dict[tuple[str, str], str] = {}  # by worker and value
        self.settings = QueueSettings(backoff_jitter=0.0)
        super().__init__(world)

    async def prepare(self, broker: Broker) -> None:
        if not broker.has_topic(JOBS):
            await broker.create_topic(JOBS, partitions=1)
            await broker.queues.configure(WORKERS, self.settings)

    @property
    def now(self) -> Bench:
        return Bench(self.broker)

    def answer(self, first: str, *rest: str) -> Answer:
        if first in OF_THE_WORLD:
            return OF_THE_WORLD[first](self, *rest)
        return OF_WORKERS[rest[0]](self, first, *rest[1:])

    # --- workers ----------------------------------------------------------------------------------

    async def receive(self, worker: str, count: str = "1") -> list[str]:
        found = await self.now.receive(consumer=worker, max_messages=int(count), wait_ms=0)
        lines = []
        for each in found:
            value = (each.record.value or b"").decode()
            self.receipts[worker, value] = each.receipt
            lines.append(f"{worker} received {value}, attempt {each.attempt}")
        return lines or [f"{worker} received nothing"]

    async def ack(self, worker: str, *values: str) -> list[str]:
        return self._outcomes(
            worker, values, await queue_verbs.ack(self.now.queues, self._of(worker, values))
        )

    async def nack(self, worker: str, *values: str) -> list[str]:
        found = await queue_verbs.nack(
            self.now.queues, self._of(worker, values), reason="it failed"
        )
        return self._outcomes(worker, values, found)

    async def reject(self, worker: str, *values: str) -> list[str]:
        found = await queue_verbs.reject(
            self.now.queues, self._of(worker, values), reason="it is wrong"
        )
        return self._outcomes(worker, values, found)

    async def extend(self, worker: str, value: str, span: str) -> list[str]:
        receipts = self._of(worker, (value,))
        found = await self.now.queues.extend(receipts, visibility_ms=milliseconds(span))
        return self._outcomes(worker, (value,), found)

    async def release(self, worker: str, *values: str) -> list[str]:
        found = await self.now.queues.release(self._of(worker, values))
        return self._outcomes(worker, values, found)

    def _of(self, worker: str, values: tuple[str, ...]) -> list[str]:
        return [self.receipts[worker, value] for value in values]

    def _outcomes(
        self, worker: str, values: tuple[str, ...], outcomes: list[SettleOutcome]
    ) -> list[str]:
        return [
            f"{worker}: {value} is {each.action}"
            if isinstance(each, Settled)
            else f"{worker}: {value} is refused, {type(each).__name__}"
            for value, each in zip(values, outcomes, strict=True)
        ]

    # --- the queue --------------------------------------------------------------------------------

    async def configure(self, *words: str) -> list[str]:
        fields = {**msgspec.to_builtins(self.settings), **dict(word.split("=") for word in words)}
        self.settings = msgspec.convert(fields, QueueSettings, strict=False)
        await self.now.queues.configure(WORKERS, self.settings)
        return ["ok"]

    async def publish(self, *words: str) -> list[str]:
        values = [word for word in words if "=" not in word]
        fields = dict(word.split("=") for word in words if "=" in word)
        key = fields.pop("key", None)
        names = {"priority": "gq-priority"}
        headers = tuple((names.get(name, name), each.encode()) for name, each in fields.items())
        messages = [
            OutgoingMessage(value.encode(), key=key.encode() if key else None, headers=headers)
            for value in values
        ]
        await self.now.publish(JOBS, *messages)
        return [f"published {' '.join(values)}"]

    async def queue(self) -> list[str]:
        state = self.now.queues.state(Where(WORKERS, JOBS, 0))
        floor = 0 if state is None else state.ack_floor
        (stats,) = await self.now.queues.stats(WORKERS)
        return [f"done below {floor}, in flight {stats.in_flight}, acked {stats.totals.acked}"]

    async def dlq(self) -> list[str]:
        found = await self.now.queues.dead_letters.browse(JOBS)
        return [
            f"{(each.record.value or b'').decode()}: {each.history.reason} after"
            f" {each.history.attempts} {'attempt' if each.history.attempts == 1 else 'attempts'}"
            for each in found
            if each.history is not None
        ] or ["no dead letters"]

    async def redrive(self) -> list[str]:
        return [f"moved {await self.now.queues.dead_letters.redrive(JOBS)}"]

    async def records(self) -> list[str]:
        ledger = self.now.queues.ledgers.find(JOBS, 0)
        assert ledger is not None
        found = await self.new_values(ledger._journal)
        return [f"  {type(ledger.ahead.decode(value)).__name__}" for value in found] or [
            "  nothing"
        ]


OF_WORKERS: dict[str, Callable[..., Answer]] = {
    name: getattr(ScenarioWorld, name)
    for name in ("receive", "ack", "nack", "reject", "extend", "release")
}
OF_THE_WORLD: dict[str, Callable[..., Answer]] = {
    "settings": ScenarioWorld.configure,
    **{
        name: getattr(ScenarioWorld, name)
        for name in ("publish", "queue", "dlq", "redrive", "records", "advance", "power")
    },
}
