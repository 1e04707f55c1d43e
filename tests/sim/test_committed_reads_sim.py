"""What a client was told is still so after the power went, whenever that was.

Writers raise numbers without waiting for each other, readers ask for them all the while.  An answer
that was read from state ahead of its log is found out after the next power loss: the number is
smaller than it was said to be.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

from goqueue.broker import Broker
from goqueue.broker.groups.admin import GroupAdmin
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.publish import Messages
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit
from goqueue.groups.errors import GroupNotFound
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError, TopicExists
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.model.topic_partition import TopicPartition
from goqueue.queue import QueueSettings
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import ProducerFenced, TransactionError
from tests import queue_verbs

LIVES = 12
STEPS = 25
CLIENTS = 3
NAMES = 20
GROUP = GroupId("readers")
TOPIC = TopicName("t")

Ask = Callable[[Broker], Awaitable[int]]


# --- writing: each raises its number -------------------------------------------------------------


async def commit(broker: Broker, number: int) -> None:
    for group_id in (GROUP, GroupId(f"group-{number % NAMES}")):
        offsets = (OffsetToCommit(TOPIC, 0, Offset(number)),)
        await broker.groups.commit(CommitRequest(group_id=group_id, offsets=offsets))


async def grow(broker: Broker, number: int) -> None:
    await broker.add_partitions(TOPIC, number + 1)


async def create(broker: Broker, number: int) -> None:
    await broker.create_topic(f"topic-{number % NAMES}", partitions=1)


async def configure_topic(broker: Broker, number: int) -> None:
    await broker.change_settings(TOPIC, {"retention.ms": str(number)})


async def configure_group(broker: Broker, number: int) -> None:
    await broker.queues.configure(GROUP, QueueSettings(visibility_ms=number))


async def init_producer(broker: Broker, number: int) -> None:
    """Each has an epoch of its own, and the application a run."""
    await broker.transactions.init("producer", timeout_ms=60_000)
    await broker.group_transactions.start_run("application", number)


async def begin(broker: Broker, number: int) -> None:
    who = await broker.transactions.init(f"writer-{number % NAMES}", timeout_ms=600_000)
    await broker.transactions.begin(f"writer-{number % NAMES}", who)


async def work(broker: Broker, number: int) -> None:
    """Publish a message and work it off: the ack floor rises."""
    await broker.ensure_topic("jobs")
    await Messages(broker).publish("jobs", [OutgoingMessage(b"job", partition=0)])
    taken = await queue_verbs.receive(broker.queues, ["jobs"], "workers", "worker")
    await queue_verbs.ack(broker.queues, [each.receipt for each in taken])


WRITERS = (work, commit, grow, create, configure_topic, configure_group, init_producer, begin)


# --- asking: each gives the newest number that it sees --------------------------------------------


async def fetched_offset(broker: Broker) -> int:
    (fetched,) = await broker.groups.fetch([FetchRequest(group_id=GROUP)])
    return max((each.offset for each in fetched.offsets.values() if each), default=0)


async def committed_offset(broker: Broker) -> int:
    try:
        _, committed = await GroupAdmin(broker).read_committed(GROUP)
    except GroupNotFound:
        return 0
    return committed[TopicPartition(TOPIC, 0)].offset


async def listed_groups(broker: Broker) -> int:
    return len(await broker.queue_groups.list_groups())


async def described_groups(broker: Broker) -> int:
    found = 0
    for number in range(NAMES):
        with contextlib.suppress(GroupNotFound):
            await broker.groups.describe(GroupId(f"group-{number}"))
            found += 1
    return found


async def partitions(broker: Broker) -> int:
    return broker.topic(TOPIC).partitions


async def topics(broker: Broker) -> int:
    return len(broker.topics())


async def refused_topics(broker: Broker) -> int:
    """How many cannot be created because they exist."""
    found = 0
    for number in range(NAMES):
        try:
            await broker.create_topic(f"topic-{number}", validate_only=True)
        except TopicExists:
            found += 1
    return found


async def topic_setting(broker: Broker) -> int:
    return int(broker.topic(TOPIC).overrides.get("retention.ms", "0"))


async def group_setting(broker: Broker) -> int:
    found = broker.queues.settings(GROUP).visibility_ms
    return 0 if found == QueueSettings().visibility_ms else found


async def producer_epoch(broker: Broker) -> int:
    """As DescribeTransactions has it."""
    async with broker.transactions.barrier:
        found = broker.transactions.ahead.find("producer")
        return 0 if found is None else found.epoch + 1


async def fenced_epochs(broker: Broker) -> int:
    """How many producers are refused, because another one came after them."""
    async with broker.transactions.barrier:
        found = broker.transactions.ahead.find("producer")
    for epoch in range(NAMES):
        try:
            producer_id = 0 if found is None else found.producer_id
            await broker.transactions.check("producer", ProducerIdentity(producer_id, epoch))
        except ProducerFenced:
            continue
        except TransactionError:
            return epoch
        return epoch
    return NAMES


async def application_run(broker: Broker) -> int:
    async with broker.transactions.barrier:
        found = broker.transactions.host.ahead.applications.find("application")
        return 0 if found is None else found.run


async def known_writers(broker: Broker) -> int:
    return await broker.transactions.host.read(
        lambda machine: sum(each.transactional_id.startswith("writer") for each in machine.all())
    )


async def ack_floor(broker: Broker) -> int:
    try:
        (stats,) = await broker.queues.stats("workers")
    except GoQueueError:  # nobody has begun
        return 0
    return sum(each.floor for each in stats.partitions)


QUESTIONS: tuple[Ask, ...] = (
    fetched_offset,
    committed_offset,
    listed_groups,
    described_groups,
    partitions,
    topics,
    refused_topics,
    topic_setting,
    group_setting,
    producer_epoch,
    fenced_epochs,
    application_run,
    known_writers,
    ack_floor,
)


class Clients:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"{seed}/clients")
        self._numbers = dict.fromkeys(WRITERS, 0)
        self.told = dict.fromkeys(QUESTIONS, 0)

    async def live(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            if not broker.has_topic(TOPIC):
                await broker.create_topic(TOPIC, partitions=1)
            for ask, before in self.told.items():
                found = await ask(broker)
                assert found >= before, f"{ask.__name__}: {found}, and {before} was told"
            workers = [self._write(broker) for _ in range(CLIENTS)]
            await asyncio.gather(*workers, *(self._ask(broker) for _ in range(CLIENTS)))

    async def _write(self, broker: Broker) -> None:
        for _ in range(STEPS):
            write = self._random.choice(WRITERS)
            self._numbers[write] += 1
            with contextlib.suppress(GoQueueError):  # another one was faster, or it is there
                await write(broker, self._numbers[write])

    async def _ask(self, broker: Broker) -> None:
        for _ in range(STEPS):
            ask = self._random.choice(QUESTIONS)
            found = await ask(broker)
            self.told[ask] = max(self.told[ask], found)
            await broker.environment.clock.sleep(self._random.choice((0, 0.0001, 0.001)))


def test_what_was_told_is_still_so_after_the_power_went(seed: int):
    with World(seed) as world:
        clients = Clients(seed)
        for _ in range(LIVES):
            world.start("a", clients.live)
            world.run_for(world.random.uniform(0.005, 0.05))
            if world.alive("a"):
                world.power_loss("a", in_order=world.random.random() < 0.3)
        world.start("a", clients.live)
        world.run_until(lambda: not world.alive("a"))
        assert any(clients.told.values()), "nobody was told anything"
