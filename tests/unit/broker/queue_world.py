"""A broker in simulated time, and workers on it."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.model.config import Config
from goqueue.model.ids import GroupId
from goqueue.queue import Delivered, Peeked, QueueSettings
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests import queue_verbs

Scenario = Callable[["Bench"], Awaitable[None]]


class Bench:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.queues = broker.queues
        self.messages = Messages(broker)

    async def publish(self, topic: str, *messages: OutgoingMessage | bytes) -> list[Published]:
        wanted = [OutgoingMessage(m) if isinstance(m, bytes) else m for m in messages]
        outcomes = await self.messages.publish(topic, wanted)
        published = [outcome for outcome in outcomes if isinstance(outcome, Published)]
        assert len(published) == len(messages), outcomes
        return published

    async def receive(
        self, topic: str = "jobs", group: str = "workers", consumer: str = "ann", **options: Any
    ) -> list[Delivered]:
        return await queue_verbs.receive(self.queues, [topic], group, consumer, **options)

    async def peek(self, count: int, group: str = "workers") -> list[Peeked]:
        return await self.queues.receiver.peek(GroupId(group), "jobs", count)

    async def ack(self, delivered: Sequence[Delivered]) -> None:
        outcomes = await queue_verbs.ack(self.queues, [each.receipt for each in delivered])
        assert not [each for each in outcomes if isinstance(each, Exception)]

    async def sleep(self, seconds: float) -> None:
        await self.broker.environment.clock.sleep(seconds)

    async def drain(self, topic: str = "jobs", group: str = "workers") -> list[bytes]:
        """Work everything off that can be had without waiting."""
        values: list[bytes] = []
        while some := await self.receive(topic, group, max_messages=1000):
            values += [each.record.value or b"" for each in some]
            await self.ack(some)
        return values


@contextlib.asynccontextmanager
async def running(environment: Environment) -> AsyncIterator[Bench]:
    async with Broker(environment, Config(data_dir="/data")).running() as broker:
        yield Bench(broker)


def play(scenario: Scenario, *, partitions: int = 1, settings: QueueSettings | None = None) -> None:
    """Run the scenario on a new broker with a topic `jobs`, in simulated time."""

    async def main(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic("jobs", partitions=partitions)
            if settings is not None:
                await bench.queues.configure("workers", settings)
            await scenario(bench)

    with World(seed=1) as world:
        world.run(main(world.environment("a")))


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def with_priority(value: bytes, priority: str) -> OutgoingMessage:
    return OutgoingMessage(value, headers=(("gq-priority", priority.encode()),))


def values(delivered: Sequence[Delivered]) -> list[bytes]:
    return [each.record.value or b"" for each in delivered]
