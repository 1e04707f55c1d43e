"""Fetch: the log's own batches from offsets on, now or when there are enough bytes of them.

A fetch that finds too little waits (`broker/long_poll.py`): woken by appends to its partitions, or
by its deadline.  It reads again only once as many bytes were appended as it still lacks.  Callers
that think in records read them (`broker/messages/publish.py`).
"""

import asyncio
from collections.abc import Iterable
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.storage.partition import Partition
from goqueue.log import AbortedRange
from goqueue.model.batch import Buffer
from goqueue.model.errors import FencedLeaderEpoch, GoQueueError, UnknownLeaderEpoch
from goqueue.model.ids import Offset
from goqueue.runtime import Clock

PARTITIONS_AT_ONCE: Final = 100  # of one fetch that are looked at before others have their turn
ANY_EPOCH: Final = -1


class PartitionFetch(msgspec.Struct, frozen=True, gc=False):
    """What is wanted of one partition."""

    topic: str | UUID
    index: int
    offset: Offset
    bytes_max: int
    leader_epoch: int = ANY_EPOCH


class FetchLimits(msgspec.Struct, frozen=True, gc=False):
    """Of all partitions of a fetch together."""

    bytes_min: int
    bytes_max: int
    wait_ms: int
    committed_only: bool


class FetchedPartition(msgspec.Struct, gc=False, kw_only=True):
    wanted: PartitionFetch
    error: GoQueueError | None = None
    high_watermark: int = -1
    stable_offset: int = -1
    start_offset: int = -1
    aborted: list[AbortedRange] | None = None  # whose records to leave out; if `committed_only`
    records: Buffer = b""
    next_offset: Offset = Offset(-1)  # behind the records


Target = tuple[PartitionFetch, Partition | GoQueueError]  # the partition, or why it is not there


async def fetch(
    broker: Broker, wanted: Iterable[PartitionFetch], limits: FetchLimits
) -> list[FetchedPartition]:
    """What there is of each partition, in the order in which they are named."""
    targets: list[Target] = []
    for number, each in enumerate(wanted, 1):
        targets.append((each, await _find(broker, each)))
        if number % PARTITIONS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return await _Fetch(broker.environment.clock, targets, limits).run()


async def _find(broker: Broker, wanted: PartitionFetch) -> Partition | GoQueueError:
    name, index = wanted.topic, wanted.index
    try:
        if isinstance(name, str):
            opened = broker.partitions.find_open(name, index)
            if opened is not None and opened.topic_id is not None:  # else it is the broker's own
                return opened
            return await broker.partitions.get(broker.topic(name), index)
        return await broker.partitions.get(broker.topic_by_id(name), index)
    except GoQueueError as error:
        return error


class _Fetch:
    def __init__(self, clock: Clock, targets: list[Target], limits: FetchLimits) -> None:
        self._clock = clock
        self._targets = targets
        self._limits = limits

    async def run(self) -> list[FetchedPartition]:
        results, size = await self._read()
        if self._limits.wait_ms > 0 and not self._is_enough(results, size):
            results = await self._wait()
        self._count(results)
        return results

    async def _wait(self) -> list[FetchedPartition]:
        partitions = [each for _, each in self._targets if isinstance(each, Partition)]
        with LongPoll(self._clock, self._limits.wait_ms) as poll:
            poll.subscribe(partitions)
            while True:
                results, size = await self._read()
                if self._is_enough(results, size):
                    return results
                lacking = 0 if self._is_behind(partitions) else self._limits.bytes_min - size
                if not await _wait_for_append(partitions, lacking, poll):
                    return (await self._read())[0]

    def _is_enough(self, results: list[FetchedPartition], size: int) -> bool:
        return size >= self._limits.bytes_min or any(each.error is not None for each in results)

    def _is_behind(self, partitions: list[Partition]) -> bool:
        """Whether something is written that cannot be read yet: any wake may be about that."""
        return any(
            each.read_limit(committed_only=self._limits.committed_only) < each.log.end_offset
            for each in partitions
        )

    async def _read(self) -> tuple[list[FetchedPartition], int]:
        """Every partition's bytes, as far as the fetch's own limit goes."""
        results, left = [], self._limits.bytes_max
        for number, (wanted, partition) in enumerate(self._targets, 1):
            try:
                if isinstance(partition, GoQueueError):
                    raise partition
                result = await self._read_one(wanted, partition, left)
            except GoQueueError as error:
                result = FetchedPartition(wanted=wanted, error=error)
                if isinstance(partition, Partition):
                    result.high_watermark = partition.log.high_watermark
                    result.start_offset = partition.log.start_offset
            results.append(result)
            left -= len(result.records)
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return results, self._limits.bytes_max - left

    async def _read_one(
        self, wanted: PartitionFetch, partition: Partition, left: int
    ) -> FetchedPartition:
        check_epoch(partition, wanted.leader_epoch)
        log, offset, committed_only = partition.log, wanted.offset, self._limits.committed_only
        limit = partition.read_limit(committed_only=committed_only)
        if committed_only and offset >= limit and log.producers.has_unsettled:
            await partition.settle()
            limit = partition.read_limit(committed_only=True)
        records: Buffer = b""
        next_offset = offset
        aborted: list[AbortedRange] | None = [] if committed_only else None
        is_first = left == self._limits.bytes_max
        bytes_max = min(wanted.bytes_max, left)
        if bytes_max > 0 or is_first or not log.start_offset <= offset <= log.end_offset:
            chunk = partition.read_cached(offset, bytes_max, limit)
            if chunk is None:
                chunk = await partition.read(offset, bytes_max, limit)
            # The one batch that is larger than all limits is sent alone, or it would never be.
            if len(chunk.data) <= bytes_max or is_first:
                records, next_offset = chunk.data, chunk.next_offset
                if committed_only:
                    aborted = log.aborted.between(offset, next_offset)
        return FetchedPartition(
            wanted=wanted,
            high_watermark=log.high_watermark,
            stable_offset=log.stable_offset,
            start_offset=log.start_offset,
            aborted=aborted,
            records=records,
            next_offset=next_offset,
        )

    def _count(self, results: list[FetchedPartition]) -> None:
        for (wanted, partition), result in zip(self._targets, results, strict=True):
            if result.records and isinstance(partition, Partition):
                partition.bytes_out += len(result.records)
                partition.messages_out += result.next_offset - wanted.offset


async def _wait_for_append(partitions: list[Partition], size: int, poll: LongPoll) -> bool:
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
    if epoch in (ANY_EPOCH, partition.leader_epoch):
        return
    if epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(f"leader epoch {epoch}, it is {partition.leader_epoch} now")
    raise UnknownLeaderEpoch(f"leader epoch {epoch}, it is still {partition.leader_epoch} here")
