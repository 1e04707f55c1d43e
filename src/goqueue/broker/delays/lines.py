"""The delays of all partitions that this node leads.

A line begins with the partition's first delayed message.  Those that are stored are opened at the
start, since their messages are due although nobody asks.  A line goes with its partition: it is
closed when another node leads, and read anew when this one does again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, Protocol

import structlog

from goqueue.broker.delays.chunk_file import ChunkFile
from goqueue.broker.delays.delivery import OnDelivered
from goqueue.broker.delays.line import DelayLine
from goqueue.broker.delays.waiting_messages import AheadBudget
from goqueue.broker.host_upkeep import HostUpkeep
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.bundle import DELAYS, TIMERS
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Topic
from goqueue.cluster.replication import Leader
from goqueue.delay import DelayMachine
from goqueue.model.errors import GoQueueError, LeadershipLost, NotLeader
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.runtime import Environment

OPENED_AT_ONCE: Final = 16
CLEAN_SECONDS: Final = 60.0
SNAPSHOT_RECORDS_MIN: Final = 100
SNAPSHOTS: Final = "snapshots"
CHUNKS: Final = "chunks"

_log = structlog.get_logger("goqueue.delays")


class FindsPartitions(Protocol):
    async def partition(self, topic: str, index: int) -> Partition: ...


class DelayLines:
    def __init__(
        self,
        environment: Environment,
        partitions: Partitions,
        services: FindsPartitions,
        on_opened: Callable[[Partition], Coroutine[Any, Any, None]],
        on_delivered: OnDelivered,
    ) -> None:
        self._disk, self._clock = environment.disk, environment.clock
        self._partitions = partitions
        self._services = services
        self._on_opened = on_opened
        self._on_delivered = on_delivered
        self._upkeep = HostUpkeep(self._clock, records_min=SNAPSHOT_RECORDS_MIN)
        self._budget = AheadBudget()
        self._open: dict[TopicPartition, DelayLine] = {}
        self._opening: dict[TopicPartition, asyncio.Lock] = {}
        self._topics: Counter[str] = Counter()  # how many of their lines are open
        self._tasks: asyncio.TaskGroup | None = None

    def __iter__(self) -> Iterator[DelayLine]:
        return iter(list(self._open.values()))

    def find(self, topic: str, partition: int) -> DelayLine | None:
        return self._open.get(TopicPartition(TopicName(topic), partition))

    def has_topic(self, topic: str) -> bool:
        """Whether messages of the topic were ever delayed, in a partition that is led here."""
        return topic in self._topics

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(self._upkeep.run())
                tasks.create_task(self._clean_all())
                for line in self:
                    line.task = tasks.create_task(line.run())
                    tasks.create_task(self._on_opened(line.messages))
        finally:
            self._tasks = None

    async def _clean_all(self) -> None:
        while True:
            await self._clock.sleep(CLEAN_SECONDS)
            for line in self:
                try:
                    await line.clean()
                except GoQueueError as error:  # next time
                    _log.warning("delay log not cleaned", problem=str(error))

    # --- opening ----------------------------------------------------------------------------------

    async def get(self, topic: Topic, partition: int) -> DelayLine:
        """The delays of the partition; they begin when they are first asked for."""
        place = TopicPartition(topic.name, partition)
        found = self._open.get(place)
        if found is not None:
            return found
        self._partitions.bundle(topic, partition).check_leader()
        async with self._opening.setdefault(place, asyncio.Lock()):
            return self._open.get(place) or await self._open_line(topic, partition)

    def check_led(self, topic: Topic, partition: int) -> None:
        """Raise `NotLeader` when another node leads the partition, or its delays are not read."""
        bundle = self._partitions.bundle(topic, partition)
        bundle.check_leader()
        if bundle.find(DELAYS) is not None:
            raise NotLeader(f"the delays of {bundle} are being loaded")

    async def open_all(self, topics: Iterable[Topic]) -> None:
        """Those that are stored, and only here; others are opened when their partition is led."""
        every, directories = list(topics), self._partitions.directories
        stored = await self._disk.in_background(lambda: directories.find_with(every, DELAYS))
        stored = [place for place in stored if not self._has_replicas(*place)]
        for first in range(0, len(stored), OPENED_AT_ONCE):
            some = stored[first : first + OPENED_AT_ONCE]
            await asyncio.gather(*(self.try_open(topic, index) for topic, index in some))

    def _has_replicas(self, topic: Topic, index: int) -> bool:
        role = self._partitions.bundle(topic, index).role
        return isinstance(role, Leader) and len(role.replicas) > 1

    async def try_open(self, topic: Topic, index: int) -> None:
        try:
            await self.get(topic, index)
        except NotLeader:
            return
        except GoQueueError as error:
            _log.error("delays not opened", partition=f"{topic.name}-{index}", problem=str(error))

    async def _open_line(self, topic: Topic, index: int) -> DelayLine:
        data = await self._services.partition(topic.name, index)
        messages = await self._partitions.log_beside(topic, index, DELAYS)
        timers = await self._partitions.log_beside(topic, index, TIMERS)
        timers.check_leader()
        epoch, directory = timers.leader_epoch, timers.log.directory
        chunks = await self._disk.in_background(
            lambda: ChunkFile(self._disk, f"{directory}/{CHUNKS}")
        )
        journal = PartitionJournal(timers, self._disk, self._clock, f"{directory}/{SNAPSHOTS}")
        machine = DelayMachine(self._clock.now(), chunks)
        host = MachineHost(machine, journal, self._clock, None, self._upkeep)
        line = DelayLine(
            data,
            messages,
            host,
            chunks,
            self._clock,
            self._budget,
            self._partitions.room.take,
            self._on_delivered,
            lambda: self._upkeep.want_snapshot(host),
        )
        try:
            await host.open()
            await line.open()
            if timers.leader_epoch != epoch:
                timers.check_leader()
                raise NotLeader(f"{data} has a new epoch: its delays are read once more")
        except BaseException:
            self._close(line)
            raise
        self._open[TopicPartition(topic.name, index)] = line
        self._topics[topic.name] += 1
        if self._tasks is not None:
            line.task = self._tasks.create_task(line.run())
            self._tasks.create_task(self._on_opened(messages))
        return line

    def drop(self, topic: str, partition: int | None = None) -> None:
        """The topic is deleted, or another node leads."""
        gone = [
            place
            for place in self._open
            if place.topic == topic and partition in (None, place.partition)
        ]
        for place in gone:
            self._close(self._open.pop(place))
            self._topics = +(self._topics - Counter((topic,)))
        if partition is None:
            for place in [place for place in self._opening if place.topic == topic]:
                del self._opening[place]

    def _close(self, line: DelayLine) -> None:
        text = f"the delays of {line.data} are not led here any more"
        line.timers.resign(lambda: NotLeader(text), lambda: LeadershipLost(text))
        line.close()
