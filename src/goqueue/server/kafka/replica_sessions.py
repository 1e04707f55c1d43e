"""Followers that fetch from this node: what each of them copies, and who waits for more.

A follower names its partitions once, then only those that have changed: it has more now, or knows
of a higher watermark (KIP-227).  So a fetch costs what is new, not what is followed:

    request ──> entries that it names ──> acknowledged, and due
    append, commit, new role ──> `wake` of the entry ──> due
    due ──> read ──> reply, if there is anything to say; else wait for the next one, or the deadline

There is something to say of an entry when it is new; when there are records behind its offset, also
such as are not synced here yet; when the high watermark or the log's start is higher than the
follower knows; when its log has to be cut; when there are logs beside the partition's data, which
the follower copies by ids of their own; and when it is refused.

The offset that a follower asks for is its word that all before is on its disk.  It counts when the
request arrives, unless the follower's log is another than this one (`find_divergence`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import msgspec
import structlog
from kio.schema.errors import ErrorCode

from goqueue.broker import Partition
from goqueue.broker.messages.follower_reads import check_epoch
from goqueue.broker.replicas import CatchUpQuota
from goqueue.cluster.replication import Diverged, FollowerFetch, Leader, find_divergence
from goqueue.model.batch import Buffer
from goqueue.model.errors import GoQueueError, OffsetOutOfRange
from goqueue.model.ids import Epoch, NodeEpoch, NodeId, Offset
from goqueue.runtime import Clock
from goqueue.server.kafka.errors import kafka_code, leader_of
from goqueue.server.kafka.limits import ENTRIES_AT_ONCE
from goqueue.wire.fetch import (
    DivergingEpoch,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopicResponse,
    encode_fetch_response,
)
from goqueue.wire.replica_fetch import VERSION

SESSIONS_MAX: Final = 4  # of one node: two lanes, and those that it left with a connection
WAIT_MS_MAX: Final = 30_000
_EPOCH_MAX: Final = 2**31 - 1

Key = tuple[UUID, int]
FindLog = Callable[[UUID, int], Awaitable[Partition]]
OnAck = Callable[[Partition], None]
LogsBeside = Callable[[Partition], int]

_log = structlog.get_logger("goqueue.replication")


class _Leader(msgspec.Struct, frozen=True):
    """What all sessions need of this node."""

    clock: Clock
    find_log: FindLog
    on_ack: OnAck
    beside: LogsBeside
    quota: CatchUpQuota


class ReplicaSessions:
    """Of all followers."""

    def __init__(
        self,
        clock: Clock,
        bytes_max: int,
        find_log: FindLog,
        on_ack: OnAck,
        beside: LogsBeside = lambda _partition: 0,
        quota: CatchUpQuota | None = None,
    ) -> None:
        """`on_ack` hears when a node that is not in sync acknowledges, and when one has lost data
        or has no room.

        `quota` is of what this node sends to such nodes.
        """
        self._bytes_max = bytes_max
        quota = quota or CatchUpQuota(clock)
        self._leader = _Leader(clock, find_log, on_ack, beside, quota)
        self._sessions: dict[int, ReplicaSession] = {}  # the oldest first
        self._last_id = 0

    async def fetch(self, request: FetchRequest) -> list[Buffer]:
        """The body of the response, in the version of replicas."""
        interrupted = self._sessions.get(request.interrupted)
        if interrupted is not None and interrupted.node == request.replica_id:
            interrupted.interrupt()
        session = self._resolve(request)
        if isinstance(session, ErrorCode):
            return encode_fetch_response(VERSION, [], error_code=session.value)
        try:
            topics = await session.fetch(request, self._bytes_max)
        finally:
            if request.session_epoch < 0:
                session.close()
        return encode_fetch_response(VERSION, topics, session_id=session.session_id)

    def close(self) -> None:
        while self._sessions:
            self._drop(next(iter(self._sessions)))

    def _resolve(self, request: FetchRequest) -> "ReplicaSession | ErrorCode":
        if request.session_epoch <= 0:
            return self._open(request)
        session = self._sessions.get(request.session_id)
        if session is None or session.node != request.replica_id:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        return session

    def _open(self, request: FetchRequest) -> "ReplicaSession":
        node = NodeId(request.replica_id)
        named = self._sessions.get(request.session_id)
        if named is not None and named.node == node:
            self._drop(request.session_id)
        if request.session_epoch < 0:
            return ReplicaSession(0, node, self._leader)
        of_node = [key for key, session in self._sessions.items() if session.node == node]
        if len(of_node) >= SESSIONS_MAX:
            self._drop(of_node[0])
        self._last_id = self._last_id % _EPOCH_MAX + 1
        session = ReplicaSession(self._last_id, node, self._leader)
        self._sessions[session.session_id] = session
        return session

    def _drop(self, session_id: int) -> None:
        self._sessions.pop(session_id).close()


class ReplicaSession:
    """What one follower copies on one of its connections."""

    def __init__(self, session_id: int, node: NodeId, leader: _Leader) -> None:
        self.session_id = session_id
        self.node = node
        self.epoch = 1  # of the next request
        self._clock = leader.clock
        self._leader = leader
        self._entries: dict[Key, _Entry] = {}
        self._due: dict[_Entry, None] = {}  # may have news; in order: whoever waits longest first
        self._woken: asyncio.Future[None] | None = None
        self._may_throttle = False  # its request does not wait here: the lane that catches up
        self._turn = 0  # whose it is to wait; the one of before waits no longer

    async def fetch(self, request: FetchRequest, bytes_max: int) -> list[FetchTopicResponse]:
        self.interrupt()  # of a session there is one fetch at a time
        turn = self._turn
        self._may_throttle = request.max_wait_ms == 0
        await self._take_in(request)
        budget = max(1, min(request.max_bytes, bytes_max))
        deadline = self._clock.instant() + min(request.max_wait_ms, WAIT_MS_MAX) * 1_000_000
        topics = await self._read_due(budget)
        # A first fetch does not wait: until it is answered, the follower cannot interrupt it.
        while not topics and self._turn == turn and request.session_epoch > 0:
            left = deadline - self._clock.instant()
            if left <= 0 or not await self._wait(left / 1e9) or self._turn != turn:
                break
            topics = await self._read_due(budget)
        return [FetchTopicResponse(topic, results) for topic, results in topics.items()]

    def interrupt(self) -> None:
        """A fetch that waits need not wait any longer."""
        self._turn += 1
        self._wake()

    def close(self) -> None:
        self.interrupt()
        for entry in self._entries.values():
            entry.leave()
        self._entries.clear()
        self._due.clear()

    def note_due(self, entry: "_Entry") -> None:
        self._due[entry] = None
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _wait(self, seconds: float) -> bool:
        """True once an entry is due; False when the time is over, or the wait was interrupted."""
        if not self._due:
            loop = asyncio.get_running_loop()
            woken = self._woken = loop.create_future()
            timer = loop.call_later(seconds, self._wake)
            try:
                await woken
            finally:
                timer.cancel()
                if self._woken is woken:
                    self._woken = None
        return bool(self._due)

    async def _take_in(self, request: FetchRequest) -> None:
        for forgotten in request.forgotten:
            for index in forgotten.partitions:
                self._forget((_id_of(forgotten.topic), index))
        number = 0
        for topic in request.topics:
            for wanted in topic.partitions:
                await self._take((_id_of(topic.topic), wanted.partition), wanted, request)
                number += 1
                if number % ENTRIES_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.leave()
            self._due.pop(entry, None)

    async def _take(self, key: Key, wanted: FetchPartition, request: FetchRequest) -> None:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self, key)
        if entry.partition is None or entry.partition.log.abandoned:
            try:
                entry.join(await self._leader.find_log(*key))
            except GoQueueError as error:
                entry.refusal = error
        entry.wanted = wanted
        if entry.partition is not None:
            self._ack(entry, entry.partition, request)
        self._due[entry] = None

    def _ack(self, entry: "_Entry", partition: Partition, request: FetchRequest) -> None:
        """Count what the follower has, unless its log differs or it is refused."""
        wanted, log = entry.wanted, partition.log
        entry.refusal = entry.diverged = None
        offset = Offset(wanted.fetch_offset)
        try:
            check_epoch(partition, wanted.current_leader_epoch)
            entry.diverged = find_divergence(
                log.epochs,
                log.end_offset,
                fetch_offset=offset,
                last_fetched_epoch=Epoch(wanted.last_fetched_epoch),
            )
            if entry.diverged is not None:
                return
            if offset > log.end_offset:
                raise OffsetOutOfRange(
                    f"offset {offset} of {partition}, it ends at {log.end_offset}"
                )
            fetch = FollowerFetch(
                node=self.node,
                node_epoch=NodeEpoch(request.replica_epoch),
                number=request.fetch_number,
                synced_offset=offset,
                end_offset=offset,
                has_room=wanted.partition_max_bytes > 0,
            )
            lost = partition.ack(fetch)
        except GoQueueError as error:
            entry.refusal = error
            return
        if lost is not None:
            _log.error(
                "a follower lost data that it had acknowledged",
                partition=str(partition),
                node=lost.node,
                acked_offset=lost.acked_offset,
                asked_offset=lost.asked_offset,
            )
        role = partition.role
        is_outside = isinstance(role, Leader) and self.node not in role.isr
        if lost is not None or is_outside or not fetch.has_room:
            self._leader.on_ack(partition)

    async def _read_due(self, budget: int) -> dict[UUID, list[FetchPartitionResponse]]:
        """What there is to say; entries for whose records there is no room stay due."""
        topics: dict[UUID, list[FetchPartitionResponse]] = {}
        looked, self._due = self._due, {}
        total = 0
        for entry in looked:
            if self._entries.get(entry.key) is not entry:
                continue  # forgotten while another one was read
            if total >= budget:
                self._due[entry] = None
                continue
            result = await self._read(entry, budget - total, is_first=total == 0)
            if result is not None:
                topics.setdefault(entry.key[0], []).append(result)
                total += len(result.records or b"")
        return topics

    async def _read(
        self, entry: "_Entry", budget: int, *, is_first: bool
    ) -> FetchPartitionResponse | None:
        partition, wanted = entry.partition, entry.wanted
        try:
            if entry.refusal is not None:
                raise entry.refusal
            assert partition is not None
            check_epoch(partition, wanted.current_leader_epoch)
            return await self._read_log(entry, partition, budget, is_first=is_first)
        except GoQueueError as error:
            return _refuse(wanted, partition, error)

    async def _read_log(
        self, entry: "_Entry", partition: Partition, budget: int, *, is_first: bool
    ) -> FetchPartitionResponse | None:
        wanted, log = entry.wanted, partition.log
        if entry.diverged is not None:
            return _result(partition, wanted, diverged=entry.diverged)
        offset, end = Offset(wanted.fetch_offset), log.end_offset
        records: Buffer = b""
        has_room = wanted.partition_max_bytes > 0
        if offset != end and has_room and self._is_throttled(partition):
            self._due[entry] = None
            if entry.is_told:
                return None
        elif offset != end and has_room:
            bytes_max = self._chunk_bytes(partition, min(wanted.partition_max_bytes, budget))
            chunk = partition.read_cached(offset, bytes_max, end)
            if chunk is None:
                chunk = await partition.read(offset, bytes_max, end)
            if len(chunk.data) <= budget or is_first:
                records = chunk.data
                partition.note_served(self.node)
                self._note_copied(partition, len(records))
            else:
                self._due[entry] = None
        beside = self._leader.beside(partition) & ~entry.knows_beside
        entry.knows_beside |= beside
        is_news = (
            records
            or not entry.is_told
            or wanted.high_watermark < log.high_watermark
            or wanted.log_start_offset < log.start_offset
            or beside
        )
        if not is_news:
            return None
        entry.is_told = True
        return _result(partition, wanted, records, beside=beside)

    def _is_throttled(self, partition: Partition) -> bool:
        """Whether it gets no records now; it asks again soon."""
        if not self._may_throttle or not self._catches_up(partition):
            return False
        return self._leader.quota.delay_seconds(partition, self.node) > 0

    def _chunk_bytes(self, partition: Partition, limit: int) -> int:
        if not self._may_throttle or not self._catches_up(partition):
            return limit
        return self._leader.quota.chunk_bytes(partition, self.node, limit)

    def _note_copied(self, partition: Partition, size: int) -> None:
        if self._catches_up(partition):
            partition.note_copied(self.node, size)
            self._leader.quota.note(partition, self.node, size)

    def _catches_up(self, partition: Partition) -> bool:
        role = partition.role
        return isinstance(role, Leader) and self.node not in role.isr


class _Entry:
    """A partition that a follower copies: what it asked for, and how it was taken."""

    __slots__ = (
        "diverged",
        "is_told",
        "key",
        "knows_beside",
        "partition",
        "refusal",
        "session",
        "wanted",
    )

    def __init__(self, session: ReplicaSession, key: Key) -> None:
        self.session = session
        self.key = key
        self.partition: Partition | None = None  # None: not found here, so far
        self.wanted: FetchPartition
        self.refusal: GoQueueError | None = None
        self.diverged: Diverged | None = None
        self.is_told = False  # its first answer, which comes even if there is nothing to copy
        self.knows_beside = 0  # the logs that it was told of

    def wake(self) -> None:
        self.session.note_due(self)

    def join(self, partition: Partition) -> None:
        self.leave()
        self.partition = partition
        partition.subscribe_follower(self)

    def leave(self) -> None:
        if self.partition is not None:
            self.partition.unsubscribe(self)
            self.partition = None


def _id_of(topic: str | UUID) -> UUID:
    assert isinstance(topic, UUID)
    return topic


def _result(
    partition: Partition,
    wanted: FetchPartition,
    records: Buffer = b"",
    diverged: Diverged | None = None,
    *,
    beside: int = 0,
) -> FetchPartitionResponse:
    log = partition.log
    may_skip = not log.settings.is_compacted and log.may_skip(Offset(wanted.fetch_offset))
    return FetchPartitionResponse(
        partition=wanted.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.high_watermark,
        log_start_offset=log.start_offset,
        records=records,
        diverging_epoch=DivergingEpoch(diverged.epoch, diverged.end_offset) if diverged else None,
        gaps_below=max(log.cleaned_offset, log.gaps_below) if may_skip else 0,
        beside=beside,
    )


def _refuse(
    wanted: FetchPartition, partition: Partition | None, error: GoQueueError
) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        partition=wanted.partition,
        error_code=kafka_code(error).value,
        current_leader=leader_of(error),
        high_watermark=partition.log.high_watermark if partition else -1,
        log_start_offset=partition.log.start_offset if partition else -1,
    )
