"""Fetch: bytes of the log from an offset on, now or when there are enough of them.

A fetch that finds too little waits: woken by appends to its partitions, or by its deadline.  It
reads again only once as many bytes were appended as it still lacks.
"""

import asyncio
from uuid import UUID

import msgspec
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker, Partition
from goqueue.broker.long_poll import LongPoll
from goqueue.model.batch import Buffer
from goqueue.model.errors import FencedLeaderEpoch, GoQueueError, UnknownLeaderEpoch
from goqueue.model.ids import Offset
from goqueue.runtime import Clock
from goqueue.server.kafka.errors import kafka_code, leader_of
from goqueue.server.kafka.fetch_sessions import FetchSession, FetchSessions, Key, requested
from goqueue.server.kafka.limits import ENTRIES_AT_ONCE
from goqueue.wire.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopicResponse,
    decode_fetch,
    encode_fetch_response,
)
from goqueue.wire.frames import RequestHeader

READ_COMMITTED = 1
WAIT_MS_MAX = 300_000


class Target(msgspec.Struct, frozen=True):
    """One partition of the fetch: what is wanted of it, and what it is or why it is not."""

    key: Key
    wanted: FetchPartition
    partition: Partition | GoQueueError


async def handle_fetch(
    broker: Broker, sessions: FetchSessions, bytes_max: int, header: RequestHeader
) -> list[Buffer]:
    version = header.api_version
    request = decode_fetch(version, header.body)
    session, error = sessions.resolve(request)
    if error is not ErrorCode.none:
        return encode_fetch_response(version, [], error_code=error.value)
    targets = []
    for number, (key, wanted) in enumerate(requested(request, session), 1):
        targets.append(Target(key, wanted, await _partition(broker, key)))
        if number % ENTRIES_AT_ONCE == 0:
            await asyncio.sleep(0)
    results = await _Fetch(broker.environment.clock, request, targets, bytes_max).run()
    return encode_fetch_response(
        version,
        _by_topic(targets, results, session, only_news=request.session_epoch > 0),
        session_id=session.session_id if session else 0,
    )


async def _partition(broker: Broker, key: Key) -> Partition | GoQueueError:
    name, index = key
    try:
        if isinstance(name, UUID):
            topic = broker.topic_by_id(name)
        else:
            opened = broker.partitions.opened(name, index)
            if opened is not None and opened.topic_id is not None:  # else it is the broker's own
                return opened
            topic = broker.topic(name)
        return await broker.partitions.get(topic, index)
    except GoQueueError as error:
        return error


def _by_topic(
    targets: list[Target],
    results: list[FetchPartitionResponse],
    session: FetchSession | None,
    *,
    only_news: bool,
) -> list[FetchTopicResponse]:
    topics: dict[str | UUID, list[FetchPartitionResponse]] = {}
    for target, result in zip(targets, results, strict=True):
        is_news = session.is_news(target.key, result) if session else True
        if is_news or not only_news:
            topics.setdefault(target.key[0], []).append(result)
    return [FetchTopicResponse(name, found) for name, found in topics.items()]


class _Fetch:
    def __init__(
        self, clock: Clock, request: FetchRequest, targets: list[Target], bytes_max: int
    ) -> None:
        self._clock = clock
        self._request = request
        self._targets = targets
        self._bytes_max = max(1, min(request.max_bytes, bytes_max))
        self._next_offsets: dict[Key, Offset] = {}
        self._committed_only = request.isolation_level == READ_COMMITTED

    async def run(self) -> list[FetchPartitionResponse]:
        results, size = await self._read()
        wait_ms = min(self._request.max_wait_ms, WAIT_MS_MAX)
        if wait_ms <= 0 or self._is_enough(results, size):
            return self._counted(results)
        partitions = [t.partition for t in self._targets if isinstance(t.partition, Partition)]
        with LongPoll(self._clock, wait_ms) as poll:
            poll.subscribe(partitions)
            while True:
                results, size = await self._read()
                if self._is_enough(results, size):
                    break
                lacking = 0 if self._is_behind(partitions) else self._request.min_bytes - size
                if not await _appended(partitions, lacking, poll):
                    results, size = await self._read()
                    break
        return self._counted(results)

    def _is_enough(self, results: list[FetchPartitionResponse], size: int) -> bool:
        return size >= self._request.min_bytes or any(result.error_code for result in results)

    def _is_behind(self, partitions: list[Partition]) -> bool:
        """Whether something is written that cannot be read yet: any wake may be about that."""
        return any(
            each.read_limit(committed_only=self._committed_only) < each.log.end_offset
            for each in partitions
        )

    async def _read(self) -> tuple[list[FetchPartitionResponse], int]:
        """Every partition's bytes, as far as the fetch's own limit goes."""
        results, total = [], 0
        for number, target in enumerate(self._targets, 1):
            try:
                result = await self._read_one(target, self._bytes_max - total, total == 0)
            except GoQueueError as error:
                result = _failed(target, error)
            results.append(result)
            if result.records:
                total += len(result.records)
            if number % ENTRIES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return results, total

    async def _read_one(
        self, target: Target, budget: int, is_first: bool
    ) -> FetchPartitionResponse:
        partition, wanted = target.partition, target.wanted
        if isinstance(partition, GoQueueError):
            raise partition
        check_epoch(partition, wanted.current_leader_epoch)
        log = partition.log
        offset = Offset(wanted.fetch_offset)
        limit = partition.read_limit(committed_only=self._committed_only)
        if self._committed_only and offset >= limit and log.producers.has_unsettled:
            await partition.settle()
            limit = partition.read_limit(committed_only=True)
        records: Buffer = b""
        bytes_max = min(wanted.partition_max_bytes, budget)
        if bytes_max > 0 or is_first or not log.start_offset <= offset <= log.end_offset:
            chunk = partition.read_cached(offset, bytes_max, limit)
            if chunk is None:
                chunk = await partition.read(offset, bytes_max, limit)
            # The one batch that is larger than all limits is sent alone, or it would never be.
            if len(chunk.data) <= bytes_max or is_first:
                records = chunk.data
                self._next_offsets[target.key] = chunk.next_offset
        return FetchPartitionResponse(
            partition=wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=self._aborted(target) if self._committed_only else None,
            records=records,
        )

    def _aborted(self, target: Target) -> list[AbortedTransaction]:
        """The transactions whose records in this reply the client must leave out."""
        end = self._next_offsets.get(target.key)
        if end is None or isinstance(target.partition, GoQueueError):
            return []
        first = Offset(target.wanted.fetch_offset)
        return [
            AbortedTransaction(aborted.producer_id, aborted.first_offset)
            for aborted in target.partition.log.aborted.between(first, end)
        ]

    def _counted(self, results: list[FetchPartitionResponse]) -> list[FetchPartitionResponse]:
        for target, result in zip(self._targets, results, strict=True):
            if result.records and isinstance(target.partition, Partition):
                target.partition.bytes_out += len(result.records)
                next_offset = self._next_offsets[target.key]
                target.partition.messages_out += next_offset - target.wanted.fetch_offset
        return results


async def _appended(partitions: list[Partition], size: int, poll: LongPoll) -> bool:
    """True once `size` bytes were appended in all, False when the time is over."""
    start = sum(partition.bytes_in for partition in partitions)
    roles = [partition.role for partition in partitions]
    while await poll.wait():
        gone = any(partition.log.abandoned for partition in partitions)
        changed = [partition.role for partition in partitions] != roles
        if gone or changed or sum(partition.bytes_in for partition in partitions) - start >= size:
            return True
    return False


def check_epoch(partition: Partition, epoch: int) -> None:
    """Refuse a client that takes this node for a leader that it is not, or not yet."""
    partition.check_leader()
    if epoch in (-1, partition.leader_epoch):
        return
    if epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(f"leader epoch {epoch}, it is {partition.leader_epoch} now")
    raise UnknownLeaderEpoch(f"leader epoch {epoch}, it is still {partition.leader_epoch} here")


def _failed(target: Target, error: GoQueueError) -> FetchPartitionResponse:
    log = target.partition.log if isinstance(target.partition, Partition) else None
    return FetchPartitionResponse(
        partition=target.wanted.partition,
        error_code=kafka_code(error).value,
        current_leader=leader_of(error),
        high_watermark=log.high_watermark if log else -1,
        log_start_offset=log.start_offset if log else -1,
    )
