"""The history of events: written to `__traces` in the background, and read from it.

A topic of the cluster's metadata, or the log of that name of a broker that is alone.

    recorder.pending ── every `flush_ms` ── a block ──> a partition of `__traces` that is led here
                                                   └──> else its leader, over the cluster port

Nobody waits for it.  What cannot be written now is kept, up to a bound, and tried again.  Blocks
are encoded and decoded on a thread; a question reads at most `SCAN_BYTES_MAX`.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
import structlog

from goqueue.broker.cluster.coordinator_topics import TRACES_TOPIC
from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.broker.traces.parents import find_parents
from goqueue.broker.traces.recorder import PENDING_MAX, TraceRecorder
from goqueue.broker.traces.topic import (
    TopicCreator,
    create_traces_topic,
    decides,
    settings_of,
)
from goqueue.model import batch as batches
from goqueue.model.batch import Buffer
from goqueue.model.errors import CorruptData, GoQueueError
from goqueue.model.ids import NodeId, Offset, Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.trace.blocks import decode_block, encode_block, read_head
from goqueue.trace.events import TraceEvent
from goqueue.trace.lookup import Lookup

BLOCK_EVENTS_MAX: Final = 4_096
READ_BYTES: Final = 1024 * 1024
SCAN_BYTES_MAX: Final = 256 * 1024 * 1024
EVENTS_MAX: Final = 20_000  # that one answer has: the newest
CLOCK_SLACK_MS: Final = 60_000  # by which clocks of nodes may differ

OnEvents = Callable[[Sequence[TraceEvent]], None]

_log = structlog.get_logger("goqueue.traces")


class HistoryBroker(TopicCreator, Protocol):
    partitions: Partitions

    @property
    def others(self) -> OtherNodes | None: ...

    async def partition(self, topic: str, index: int) -> Partition: ...


class AppendTraces(Verb[bool], frozen=True):
    """Events of a node that leads no partition of the history."""

    name = "append_traces"
    reply_type = bool

    partition: int
    block: bytes


class CreateTraces(Verb[bool], frozen=True):
    """Of a node that has events, to the one that decides about the metadata."""

    name = "create_traces"
    reply_type = bool


class FoundEvents(msgspec.Struct, frozen=True):
    events: list[TraceEvent]
    is_whole: bool = True  # False: there was more than is looked at for one question


class TraceHistory:
    def __init__(self, broker: HistoryBroker, recorder: TraceRecorder) -> None:
        self._broker = broker
        self._recorder = recorder
        self._config = broker.config.traces
        self._disk, self._clock = broker.environment.disk, broker.environment.clock
        self._kept: list[TraceEvent] = []  # taken, and not written
        self._problem = ""
        self._retain_at = 0  # instant
        self.on_events: list[OnEvents] = []  # exporters
        self.exporters: list[str] = []  # their names
        self.written_total = 0
        self.written_bytes = 0

    def serve(self, others: OtherNodes) -> None:
        others.serve(AppendTraces, self._append_here)
        others.serve(CreateTraces, self._create_here)

    # --- writing ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        while self._recorder.is_enabled:
            await self._clock.sleep(self._config.flush_ms / 1000)
            self._recorder.read_clock()
            await self.flush()
            await self._retain()

    async def _retain(self) -> None:
        """A broker that is alone has the log, and no topic that retention would look at."""
        partitions, now = self._broker.partitions, self._clock.instant()
        if now < self._retain_at or self._broker.others is not None:
            return
        self._retain_at = now + self._broker.config.storage.retention_check_ms * 1_000_000
        opened = partitions.find_open(TRACES_TOPIC, 0)
        if opened is not None:
            await partitions.upkeep.retain(opened)

    async def finish(self) -> None:
        """The broker stops: what is pending is written."""
        if self._recorder.is_enabled:
            await self.flush()

    async def flush(self) -> None:
        """Write what is pending, as far as that is possible now."""
        unread = self._recorder.unread.take()
        links = await self._disk.in_background(lambda: find_parents(unread)) if unread else []
        self._recorder.link(links)
        events = [*links, *self._recorder.take_pending()]
        if events:
            for tell in self.on_events:
                tell(events)
        if not self._config.history:
            return
        self._keep(events)
        try:
            await self._write_kept()
            self._problem = ""
        except GoQueueError as error:
            if self._problem != str(error):  # once: it may go on for long
                self._problem = str(error)
                _log.warning("events not written to the history yet", problem=self._problem)

    def _keep(self, events: list[TraceEvent]) -> None:
        self._kept += events
        excess = len(self._kept) - PENDING_MAX
        if excess > 0:
            self._recorder.dropped_total += excess
            del self._kept[:excess]

    async def _write_kept(self) -> None:
        while self._kept and await self._is_there():
            some = self._kept[:BLOCK_EVENTS_MAX]
            block = await self._disk.in_background(lambda some=some: encode_block(some))  # type: ignore[misc]
            await self._write(block)
            del self._kept[: len(some)]
            self.written_total += len(some)
            self.written_bytes += len(block)

    async def _is_there(self) -> bool:
        """Whoever has events first has it created; False while it is not there yet."""
        broker = self._broker
        if broker.others is None or broker.metadata.find(TRACES_TOPIC) is not None:
            return True
        if decides(broker):
            await create_traces_topic(broker)
        elif (controller := broker.cluster.controller_id) not in (None, broker.others.node_id):
            await broker.others.ask(controller, CreateTraces())
        return broker.metadata.find(TRACES_TOPIC) is not None

    async def _create_here(self, _: NodeId, __: CreateTraces) -> bool:
        if decides(self._broker):
            await create_traces_topic(self._broker)
        return True

    async def _write(self, block: bytes) -> None:
        others = self._broker.others
        if others is None:
            await self._append(0, block)
            return
        topic = self._broker.metadata.topic(TRACES_TOPIC)
        for index in range(topic.partitions):
            bundle = self._broker.partitions.bundle(topic, index)
            if bundle.is_led_here:
                await self._append(index, block)
                return
        index = others.node_id % topic.partitions
        await others.ask(others.leader(topic, index), AppendTraces(index, block))

    async def _append(self, index: int, block: bytes) -> None:
        partition, now = await self._partition(index), self._clock.now()
        data = batches.encode([Record(0, now, None, block)])
        self._broker.partitions.room.take(len(data))
        partition.append(data, [batches.header_at(data, 0)], now)

    async def _append_here(self, _: NodeId, verb: AppendTraces) -> bool:
        await self._append(verb.partition, verb.block)
        return True

    # --- reading ----------------------------------------------------------------------------------

    async def find(self, lookup: Lookup) -> FoundEvents:
        """In the partitions that this node leads."""
        found, is_whole = list[TraceEvent](), True
        for index in await self._list_led():
            is_whole &= await self._scan(await self._partition(index), lookup, found)
        return FoundEvents(found[-EVENTS_MAX:], is_whole and len(found) <= EVENTS_MAX)

    async def _list_led(self) -> list[int]:
        partitions = self._broker.partitions
        if self._broker.others is None:
            return [0] if await partitions.has_log(TRACES_TOPIC) else []
        topic = self._broker.metadata.find(TRACES_TOPIC)
        every = range(0 if topic is None else topic.partitions)
        return [n for n in every if topic and partitions.bundle(topic, n).is_led_here]

    async def _partition(self, index: int) -> Partition:
        if self._broker.others is not None:
            return await self._broker.partition(TRACES_TOPIC, index)
        settings = topic_settings(settings_of(self._config))
        return await self._broker.partitions.internal(TRACES_TOPIC, settings)

    async def _scan(self, partition: Partition, lookup: Lookup, found: list[TraceEvent]) -> bool:
        """False when there was too much to read: the oldest is left out."""
        end = partition.log.high_watermark
        offset = await self._start(partition, lookup.start_us // 1000 - CLOCK_SLACK_MS)
        is_whole, left = True, SCAN_BYTES_MAX
        if partition.log.size > SCAN_BYTES_MAX and not lookup.start_us:
            is_whole = False
        while offset < end and left > 0:
            chunk = await partition.read(offset, READ_BYTES, end)
            some = await self._disk.in_background(lambda data=chunk.data: _pick(data, lookup))  # type: ignore[misc]
            found += some
            if len(found) > 2 * EVENTS_MAX:
                del found[:-EVENTS_MAX]
                is_whole = False
            left -= len(chunk.data)
            offset = chunk.next_offset
        return is_whole and offset >= end

    async def _start(self, partition: Partition, time_ms: int) -> Offset:
        log = partition.log
        if time_ms <= 0:
            return log.start_offset
        at = await partition.offset_for_time(Timestamp(time_ms), log.high_watermark)
        return log.high_watermark if at is None else max(at.offset, log.start_offset)


def _pick(data: Buffer, lookup: Lookup) -> list[TraceEvent]:
    """The events that are wanted, of whole batches of blocks."""
    found = list[TraceEvent]()
    for header in batches.headers(data):
        for record in batches.decode(data, header):
            try:
                block = record.value or b""
                if lookup.may_match(read_head(block)):
                    found += lookup.pick(decode_block(block))
            except CorruptData as error:
                _log.error("a block of events cannot be read", offset=record.offset, problem=error)
    return found
