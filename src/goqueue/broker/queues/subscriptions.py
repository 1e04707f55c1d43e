"""Where a group's messages come from: its topics' partitions, each with the group's ledger."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from goqueue.broker.queues.dispatcher import Source
from goqueue.broker.queues.dispatchers import IDLE_SECONDS, Dispatchers
from goqueue.broker.queues.ledgers import Ledger
from goqueue.broker.queues.offset_sync import OffsetSync
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.rates import Rates
from goqueue.broker.queues.state import QueueState
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import Topic
from goqueue.model.errors import GoQueueError, TopicNotFound
from goqueue.model.ids import NO_TIMESTAMP, GroupId, Offset, Timestamp, TopicName, TopicPartition
from goqueue.model.names import refuse_internal
from goqueue.queue import LeaseBook, PartitionState, QueueSettings, Where
from goqueue.queue.lanes import LANES

UPKEEP_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 600.0  # after which the lanes of a partition are let go

KNOWN_MAX: Final = 10_000  # groups, and lists of topics, whose sources are remembered

Known = tuple[list[Topic], list[Source], int]  # as of a version of the ledgers
ReaderKey = tuple[str, int, bool]  # topic, partition, and whether only of what is committed

_log = structlog.get_logger("goqueue.queues")


class Subscriptions:
    def __init__(self, services: BrokerServices, queues: QueueState, floors: OffsetSync) -> None:
        self._services = services
        self._queues = queues
        self._offset_sync = floors
        self._settings_of = services.group_configs.queue_settings
        self._clock = services.environment.clock
        self._readers: dict[ReaderKey, PartitionReader] = {}
        self._delivered: dict[PartitionState, Rates] = {}  # of those that delivered anything
        self._known: dict[tuple[str, ...], Known] = {}  # by group and topics

    async def find(self, topics: Sequence[str], group_id: GroupId) -> list[Source]:
        """The partitions of the topics that this node leads, in order.

        The group begins in those that are new to it.  Raises `NotLeader` when there are none.
        """
        found = [self._services.topic(name) for name in topics]
        known = self._known.get((group_id, *topics))
        version = self._queues.ledgers.version
        sources = None if known is None else self._still(known, found, group_id)
        if sources is None:
            sources = [each for topic in found for each in await self._of_topic(topic, group_id)]
            if found and not sources:
                self._services.partitions.bundle(found[0], 0).check_leader()
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[group_id, *topics] = found, sources, version
        await self._offset_sync.adopt_commits(group_id, [state for state, *_ in sources])
        return sources

    def _still(self, known: Known, topics: list[Topic], group_id: GroupId) -> list[Source] | None:
        """What was found before, if it is all as it was then."""
        before, sources, version = known
        if version != self._queues.ledgers.version:
            return None
        if any(old is not new for old, new in zip(before, topics, strict=True)):
            return None
        group = self._queues.groups.get(group_id)
        if group is None:
            return None
        now, committed_only = self._clock.instant(), _reads_committed(group.settings)
        for state, reader, _ in sources:
            where = state.where
            topic, partition = where.topic, where.partition
            if group.states.get(TopicPartition(topic, partition)) is not state:
                return None
            if self._readers.get((topic, partition, committed_only)) is not reader:
                return None
            if reader.partition.log.abandoned:
                return None
            reader.used_at = now
        return sources

    async def _of_topic(self, topic: Topic, group_id: GroupId) -> list[Source]:
        refuse_internal(topic.name)
        sources: list[Source] = []
        for index in self._find_led_here(topic):
            partition = await self._services.partition(topic.name, index)
            ledger = await self._queues.ledger(topic, index)
            state = ledger.ahead.states.get(group_id)
            if state is None or state.topic_id != topic.topic_id:
                state = await self._begin(ledger, group_id, topic, partition)
            sources.append((state, self._reader(partition, group_id), ledger))
        return sources

    def _find_led_here(self, topic: Topic) -> list[int]:
        bundle = self._services.partitions.bundle
        return [index for index in range(topic.partitions) if bundle(topic, index).is_led_here]

    async def peek(self, topic: Topic, group_id: GroupId) -> list[Source]:
        """As `find`, for who only looks: the group does not begin in what is new to it."""
        sources: list[Source] = []
        for index in self._find_led_here(topic):
            partition = await self._services.partition(topic.name, index)
            where = Where(group_id, topic.name, index)
            state = self._queues.state(where)
            if state is None or state.topic_id != topic.topic_id:
                floor, _ = await self._start(where, partition)
                state = PartitionState(where, topic.topic_id, floor, LeaseBook())
            ledger = self._queues.ledger_of(state)
            sources.append((state, self._reader(partition, group_id), ledger))
        return sources

    async def _begin(
        self, ledger: Ledger, group_id: GroupId, topic: Topic, partition: Partition
    ) -> PartitionState:
        where = Where(group_id, topic.name, partition.index)
        floor, adopted_at = await self._start(where, partition)
        now = self._clock.steady()
        self._queues.registry.write_through(lambda registry: registry.begin(group_id))
        ledger.write_through(
            lambda machine: machine.open(now, group_id, topic.topic_id, floor, adopted_at)
        )
        return ledger.ahead.states[group_id]

    async def _start(self, where: Where, partition: Partition) -> tuple[Offset, Timestamp]:
        """Where the group's committed offset says, and when that was made, if there is one."""
        committed = await self._offset_sync.committed_offset(
            where.group_id, TopicPartition(where.topic, where.partition)
        )
        adopted_at, settings = NO_TIMESTAMP, self._settings_of(where.group_id)
        if committed is not None:
            floor, adopted_at = committed.offset, committed.committed_at
        elif settings.start == "latest":
            await partition.flush_visible()
            floor = partition.read_limit(committed_only=_reads_committed(settings))
        else:
            floor = partition.log.start_offset
        log = partition.log
        return Offset(min(max(floor, log.start_offset), log.end_offset)), adopted_at

    def _reader(self, partition: Partition, group_id: GroupId) -> PartitionReader:
        """The partition as the group's isolation lets it be seen."""
        committed_only = _reads_committed(self._settings_of(group_id))
        key = partition.topic, partition.index, committed_only
        reader = self._readers.get(key)
        if reader is None or reader.partition is not partition:
            reader = self._readers[key] = PartitionReader(partition, committed_only=committed_only)
        reader.used_at = self._clock.instant()
        return reader

    async def reader_of(self, state: PartitionState) -> PartitionReader | None:
        """The partition of a state; None when its topic is gone."""
        try:
            partition = await self._services.partition(state.where.topic, state.where.partition)
        except TopicNotFound:
            return None
        if partition.topic_id != state.topic_id:
            return None
        return self._reader(partition, state.where.group_id)

    async def flush(self, topics: Sequence[str]) -> bool:
        """Make visible what is written and nobody waited for; whether there was anything."""
        written = []
        for name in topics:
            for index in self._find_led_here(self._services.topic(name)):
                partition = await self._services.partition(name, index)
                log = partition.log
                if log.high_watermark < log.end_offset and log.failed is None:
                    written.append(partition)
        await asyncio.gather(*(partition.flush_visible() for partition in written))
        return bool(written)

    def forget(self, topic: str) -> None:
        for key in [key for key in self._readers if key[0] == topic]:
            del self._readers[key]

    # --- upkeep -----------------------------------------------------------------------------------

    async def run(self, dispatchers: Dispatchers) -> None:
        """Know the lanes to the end, and let go of what is not needed."""
        while True:
            await self._clock.sleep(UPKEEP_SECONDS)
            for reader in list(self._readers.values()):
                await self._keep_up(reader)
            self._look_at_rates(self._clock.instant())
            dispatchers.evict_idle()

    def delivery_rates(self, state: PartitionState) -> Rates:
        return self._delivered.get(state) or Rates()

    def _look_at_rates(self, now: int) -> None:
        known = {state for state in self._queues.table.states() if any(state.delivered)}
        self._delivered = {state: self._delivered.get(state) or _from_zero(now) for state in known}
        for state, rates in self._delivered.items():
            rates.observe(state.delivered, now)

    async def _keep_up(self, reader: PartitionReader) -> None:
        idle = (self._clock.instant() - reader.used_at) / 1e9
        partition = reader.partition
        if partition.log.abandoned or idle > FORGET_SECONDS:
            self._readers.pop((partition.topic, partition.index, reader.committed_only), None)
            return
        if idle > IDLE_SECONDS:
            reader.evict()
        floors = [
            state.ack_floor
            for group in self._queues.groups.values()
            for state in (group.states.get(_place(partition)),)
            if state is not None
        ]
        if floors:
            reader.index.prune(min(floors))
        try:
            if reader.index.end < reader.limit:
                await reader.scan_all()
            reader.look_at_rates(self._clock.instant())
        except GoQueueError as error:
            _log.error("priorities not known", partition=str(partition), problem=str(error))


def _reads_committed(settings: QueueSettings) -> bool:
    return settings.isolation == "read_committed"


def _from_zero(now: int) -> Rates:
    rates = Rates()
    rates.begin([0] * LANES, now - int(UPKEEP_SECONDS * 1e9))
    return rates


def _place(partition: Partition) -> TopicPartition:
    return TopicPartition(TopicName(partition.topic), partition.index)
