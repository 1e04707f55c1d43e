"""Workers that take jobs from a queue, write results and ack the jobs in one transaction.

The broker keeps dying, and so do workers: each job has exactly one result in the end.
"""

import asyncio
import random
from collections import Counter

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.broker.messages.read import read_page
from goqueue.broker.messages.transactional_publish import TransactionMessages
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset
from goqueue.queue import Delivered, QueueSettings
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from goqueue.txn import ProducerIdentity
from tests import queue_verbs

HOST = "a"
JOBS, RESULTS, GROUP = "jobs", "results", "workers"
PARTITIONS = 2
TIMEOUT_MS = 5_000
SETTINGS = QueueSettings(
    visibility_ms=3_000, backoff_base_ms=100, backoff_max_ms=1_000, max_timeouts=1000
)
LONG_ENOUGH_S = 300.0


class Work:
    def __init__(self, world: World, jobs: int = 12, workers: int = 2) -> None:
        self.random = random.Random(f"{world.seed}/work")
        self.jobs = [b"%d" % number for number in range(jobs)]
        self.published = 0
        self.workers = workers
        self.committed: Counter[bytes] = Counter()  # as workers were told
        self.problems: list[str] = []
        self.broker: Broker | None = None  # the last one
        self.done = False

    # --- lives ------------------------------------------------------------------------------------

    async def live(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await self._prepare(broker)
            await self._work_off(broker)
            self.done = True
            await asyncio.sleep(3600)

    async def finish(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await self._prepare(broker)
            await self._work_off(broker)
            await asyncio.sleep(LONG_ENOUGH_S)
            await self._check(broker)
            self.done = True
            await asyncio.sleep(3600)

    async def _prepare(self, broker: Broker) -> None:
        self.broker = broker
        for topic in (JOBS, RESULTS):
            if not broker.has_topic(topic):
                await broker.create_topic(topic, partitions=PARTITIONS)
        await broker.queues.configure(GROUP, SETTINGS)
        while self.published < len(self.jobs):
            await self._publish(broker)

    async def _publish(self, broker: Broker) -> None:
        """A job that may be there twice would prove nothing: its name changes with each try."""
        job = self.jobs[self.published] = b"%d.%d" % (self.published, self.random.randrange(10**9))
        (outcome,) = await Messages(broker).publish(JOBS, [OutgoingMessage(job, key=job)])
        assert isinstance(outcome, Published)
        self.published += 1

    async def _work_off(self, broker: Broker) -> None:
        await asyncio.gather(
            *(self._worker(broker, f"worker-{number}") for number in range(self.workers))
        )

    # --- a worker ---------------------------------------------------------------------------------

    async def _worker(self, broker: Broker, name: str) -> None:
        who: ProducerIdentity | None = None
        idle = 0
        while idle < 3:
            try:
                if who is None or self.random.random() < 0.1:  # it died, and is started again
                    who = await broker.transactions.init(name, timeout_ms=TIMEOUT_MS)
                jobs = await queue_verbs.receive(
                    broker.queues, [JOBS], GROUP, name, max_messages=4, wait_ms=8000
                )
                idle = 0 if jobs else idle + 1
                if jobs:
                    await self._transaction(broker, name, who, jobs)
            except GoQueueError:
                who = None

    async def _transaction(
        self, broker: Broker, name: str, who: ProducerIdentity, jobs: list[Delivered]
    ) -> None:
        transactions, messages = broker.transactions, TransactionMessages(broker)
        await transactions.begin(name, who)
        await self._dawdle(4.0)
        for job in jobs:
            result = OutgoingMessage(b"<%s>" % (job.record.value or b""), key=job.record.value)
            await messages.publish(name, who, RESULTS, result)
        for some in (jobs[:2], jobs[2:]):
            if some and await transactions.add_acks(name, who, [each.receipt for each in some]):
                await transactions.end(name, who, commits=False, bumps_epoch=False)
                return
        await self._dawdle(4.0)
        if self.random.random() < 0.1:
            return  # it dies, and its transaction hangs
        commits = self.random.random() < 0.8
        await transactions.end(name, who, commits=commits, bumps_epoch=False)
        if commits:
            self.committed.update(job.record.value or b"" for job in jobs)
        elif self.random.random() < 0.5:  # the receipts are good again
            outcomes = await broker.queues.release([each.receipt for each in jobs])
            assert len(outcomes) == len(jobs)

    async def _dawdle(self, seconds: float) -> None:
        if self.random.random() < 0.2:
            await asyncio.sleep(self.random.uniform(0, seconds))

    # --- what must hold ---------------------------------------------------------------------------

    async def _check(self, broker: Broker) -> None:
        found: Counter[bytes] = Counter()
        for index in range(PARTITIONS):
            partition = await broker.partition(RESULTS, index)
            page = await read_page(partition, Offset(0), limit=10_000, bytes_max=10_000_000)
            found.update(record.value or b"" for record in page.records)
        expected = Counter(b"<%s>" % job for job in self.jobs)
        expected.update(b"<%s>" % job for job in await self._list_unanswered(broker))
        if found != expected:
            self.problems.append(f"twice: {found - expected}, missing: {expected - found}")
        lost = {job for job in self.committed if b"<%s>" % job not in found}
        if lost:
            self.problems.append(f"committed and not there: {lost}")
        (stats,) = await broker.queues.stats(GROUP)
        if stats.in_flight or any(each.floor != each.end for each in stats.partitions):
            self.problems.append(f"not worked off: {stats}")
        if broker.queues.reservations:
            self.problems.append(f"still reserved: {list(broker.queues.reservations)}")

    async def _list_unanswered(self, broker: Broker) -> list[bytes]:
        """Jobs that were written though their publish was never answered."""
        known, found = set(self.jobs), list[bytes]()
        for index in range(PARTITIONS):
            partition = await broker.partition(JOBS, index)
            page = await read_page(partition, Offset(0), limit=10_000, bytes_max=10_000_000)
            found += [each.value or b"" for each in page.records if each.value not in known]
        return found
