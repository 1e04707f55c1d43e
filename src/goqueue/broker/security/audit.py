"""The audit log as the broker keeps it: events in, lines in a file and records of a topic out.

    note ──> limit ──> waiting for the file   ──> audit.jsonl, on every node its own
                  └──> waiting for the topic  ──> __audit, at the node that leads it

To note costs microseconds, and never fails or waits.  What waits is bounded; what finds no room is
counted, and the count is written when there is room again.
"""

import asyncio
import contextlib
import itertools
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec
import structlog

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.coordinator_topics import AUDIT_TOPIC
from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.security.audit_file import AuditFile
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import Metadata, MetadataRecord, Topic, controller
from goqueue.log import Appended
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError, TopicExists
from goqueue.model.ids import NodeId, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.model.record import Record
from goqueue.model.times import time_text
from goqueue.queue.dead_letter import encode_batch
from goqueue.runtime import Environment
from goqueue.security import AuditEvent, AuditKind, AuditLimit, shorten

WAITING_MAX: Final = 10_000  # events, for each of file and topic
EVENTS_AT_ONCE: Final = 500
GATHER_SECONDS: Final = 0.05  # after the first event, so that a burst is one write
RETRY_SECONDS: Final = 1.0
APPEND_SECONDS: Final = 10.0
FINISH_SECONDS: Final = 2.0
LEFT_OUT_SECONDS: Final = 10.0  # between two counts of what was left out

Write = Callable[[Sequence[bytes]], Awaitable[None]]

_log = structlog.get_logger("goqueue.audit")


class AppendAudit(Verb[int], frozen=True):
    """Append events to the topic, at its leader; gives their number when they are durable."""

    name = "append_audit"
    reply_type = int

    events: list[bytes]


class AuditBroker(Protocol):
    environment: Environment
    config: Config
    cluster: ClusterNode

    @property
    def node_id(self) -> NodeId: ...
    @property
    def controller(self) -> Controller: ...
    @property
    def metadata(self) -> Metadata: ...
    @property
    def others(self) -> OtherNodes | None: ...
    def topic(self, name: str, /) -> Topic: ...
    async def partition(self, topic: str, index: int, /) -> Partition: ...
    def append(
        self, partition: Partition, data: bytearray | memoryview, *, is_checked: bool = False
    ) -> Appended: ...


class Audit:
    def __init__(self, broker: AuditBroker) -> None:
        config = broker.config
        self.is_enabled = config.auth.enabled and config.audit.enabled
        self.has_topic = self.is_enabled and config.audit.topic
        self.counts: Counter[tuple[AuditKind, bool]] = Counter()  # by kind, and whether allowed
        self.left_out: Counter[AuditKind] = Counter()
        self.failures: Counter[str] = Counter()  # writes, by `file` and `topic`
        self._broker = broker
        self._clock = broker.environment.clock
        self._limit = AuditLimit(
            config.audit.events_per_second, config.audit.events_per_second_per_address
        )
        path = config.audit.file or f"{config.data_dir}/audit/audit.jsonl"
        self._file = AuditFile(
            broker.environment.disk,
            path,
            bytes_max=config.audit.file_bytes_max,
            files_max=config.audit.files_max,
        )
        self._has_file = self.is_enabled and config.audit.file_bytes_max > 0
        self._for_file = _Waiting()
        self._for_topic = _Waiting()
        if broker.others is not None:
            broker.others.serve(AppendAudit, self._append_for)

    # --- what is put on record ------------------------------------------------------------------

    def note(
        self,
        kind: AuditKind,
        *,
        allowed: bool,
        principal: str = "",
        host: str = "",
        listener: str = "",
        request: str = "",
        operation: str = "",
        resource: str = "",
        reason: str = "",
        result: str = "",
        details: str = "",
    ) -> None:
        if not self.is_enabled:
            return
        self.counts[kind, allowed] += 1
        if not self._limit.allows(kind, host, self._clock.instant()):
            self.left_out[kind] += 1
            return
        event = AuditEvent(
            time=self._time(),
            node=self._broker.node_id,
            kind=kind,
            allowed=allowed,
            principal=shorten(principal),
            host=shorten(host),
            listener=listener,
            request=shorten(request),
            operation=shorten(operation),
            resource=shorten(resource),
            reason=shorten(reason),
            result=result,
            details=shorten(details),
        )
        self._put(event)

    def _time(self) -> str:
        return str(time_text(self._clock.now()))

    def _put(self, event: AuditEvent) -> None:
        line = msgspec.json.encode(event)
        if self._has_file and not self._for_file.put(line):
            self.left_out[event.kind] += 1
        if self.has_topic and not self._for_topic.put(line):
            self.left_out[event.kind] += 1

    def _tell_left_out(self) -> None:
        for kind, count in self._limit.take_left_out().items():
            text = "they came faster than audit.events_per_second, or its share of one address"
            node = self._broker.node_id
            event = AuditEvent(
                self._time(), node, "left_out", False, operation=kind, reason=text, count=count
            )
            self._put(event)

    # --- writing --------------------------------------------------------------------------------

    def upkeep(self) -> list[Coroutine[Any, Any, None]]:
        """What runs as long as the broker does."""
        works = [self._run_counts()] if self.is_enabled else []
        if self._has_file:
            works.append(self._run("file", self._for_file, self._write_file))
        if self.has_topic:
            works.append(self._run("topic", self._for_topic, self._write_topic))
        return works

    async def _run_counts(self) -> None:
        while True:
            await self._clock.sleep(LEFT_OUT_SECONDS)
            self._tell_left_out()

    async def _run(self, name: str, waiting: "_Waiting", write: Write) -> None:
        is_failing = False
        while True:
            await waiting.wait()
            await self._clock.sleep(GATHER_SECONDS)
            try:
                await waiting.write_some(write)
            except GoQueueError as error:
                self.failures[name] += 1
                if not is_failing:
                    _log.warning("audit events not written yet", to=name, problem=str(error))
                is_failing = True
                await self._clock.sleep(RETRY_SECONDS)
            else:
                is_failing = False

    async def finish(self) -> None:
        """Write what waits, as far as it can be done in a moment; before the broker stops."""
        if not self.is_enabled:
            return
        self._tell_left_out()
        with contextlib.suppress(GoQueueError, TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                while await self._for_file.write_some(self._write_file):
                    pass
                while await self._for_topic.write_some(self._write_topic):
                    pass

    async def _write_file(self, lines: Sequence[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        await self._broker.environment.disk.in_background(lambda: self._file.append(data))

    async def _write_topic(self, events: Sequence[bytes]) -> None:
        topic = self._broker.metadata.find(AUDIT_TOPIC)
        if topic is None:
            topic = await self._create_topic()
        others = self._broker.others
        if others is not None:
            leader = others.leader(topic, 0)
            if leader != others.node_id:
                await others.ask(leader, AppendAudit(list(events)), APPEND_SECONDS)
                return
        await self._append_here(events)

    async def _append_for(self, _: NodeId, verb: AppendAudit) -> int:
        await self._append_here(verb.events)
        return len(verb.events)

    async def _append_here(self, events: Sequence[bytes]) -> None:
        partition = await self._broker.partition(AUDIT_TOPIC, 0)
        now = self._clock.now()
        records = [Record(0, now, None, each) for each in events]
        appended = self._broker.append(partition, encode_batch(records, now), is_checked=True)
        await partition.wait_committed(appended.last_offset, APPEND_SECONDS)

    async def _create_topic(self) -> Topic:
        """The node that decides does; the others find it a moment later."""
        if self._broker.cluster.elsewhere is not None:
            return self._broker.topic(AUDIT_TOPIC)  # which says that there is none
        config, random = self._broker.config.audit, self._broker.environment.random
        topic_id = TopicId(UUID(bytes=random.bytes(16), version=4))

        def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
            return controller.create_topic(
                metadata,
                TopicName(AUDIT_TOPIC),
                topic_id=topic_id,
                partitions=1,
                settings={
                    "retention.ms": str(config.topic_retention_ms),
                    "retention.bytes": str(config.topic_bytes_max),
                },
                now=self._clock.now(),
                may_look_alike=True,
            )

        with contextlib.suppress(TopicExists):
            await self._broker.controller.change(decide)
        return self._broker.topic(AUDIT_TOPIC)


class _Waiting:
    """Events that are not written yet; bounded."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._is_there = asyncio.Event()
        self._turn = asyncio.Lock()  # to write: whoever runs, or whoever finishes

    def put(self, line: bytes) -> bool:
        if len(self._lines) >= WAITING_MAX:
            return False
        self._lines.append(line)
        self._is_there.set()
        return True

    async def wait(self) -> None:
        while not self._lines:
            self._is_there.clear()
            await self._is_there.wait()

    async def write_some(self, write: Write) -> int:
        """Those that have waited longest; gives how many are left.  They stay if it fails."""
        async with self._turn:
            some = list(itertools.islice(self._lines, EVENTS_AT_ONCE))
            if some:
                await write(some)
            for _ in some:
                self._lines.popleft()
        return len(self._lines)
