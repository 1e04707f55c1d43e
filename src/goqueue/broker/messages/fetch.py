"""Fetch: the log's own batches from offsets on, now or when there are enough bytes of them.

A fetch that finds too little waits (`broker/long_poll.py`): woken by appends to its partitions, or
by its deadline.  It reads again only once as many bytes were appended as it still lacks.  Callers
that think in records read them (`broker/messages/publish.py`).  A consumer may be sent to a
follower, and a follower may serve it: `broker/messages/follower_reads.py`.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.messages.follower_reads import ANY_EPOCH, FollowerReads, check_epoch
from goqueue.broker.storage.partition import Partition
from goqueue.cluster.replication import Diverged, find_divergence
from goqueue.log import AbortedRange
from goqueue.model.batch import Buffer
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Epoch, NodeId, Offset
from goqueue.runtime import Clock

PARTITIONS_AT_ONCE: Final = 100  # of one fetch that are looked at before others have their turn
NO_EPOCH: Final = -1


class PartitionFetch(msgspec.Struct, frozen=True, gc=False):
    """What is wanted of one partition."""

    topic: str | UUID
    index: int
    offset: Offset
    bytes_max: int
    leader_epoch: int = ANY_EPOCH
    last_fetched_epoch: int = NO_EPOCH  # of the record before; some other log may have followed it


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
    read_replica: NodeId | None = None  # to ask instead of this node, which has read nothing
    diverged: Diverged | None = None  # where the caller's records stop being this log's

    @property
    def is_urgent(self) -> bool:
        """Whether the caller has to do something, so there is nothing to wait for."""
        return any(each is not None for each in (self.error, self.read_replica, self.diverged))


Target = tuple[PartitionFetch, Partition | GoQueueError]  # the partition, or why it is not there


async def fetch(
    broker: Broker,
    wanted: Iterable[PartitionFetch],
    limits: FetchLimits,
    reads: FollowerReads | None = None,
    check: Callable[[str], None] | None = None,
) -> list[FetchedPartition]:
    """What there is of each partition, in the order in which they are named.

    Without `reads` leaders serve, and nobody else.  `check` raises for a topic, by its name, that
    the caller may not read.
    """
    targets: list[Target] = []
    for number, each in enumerate(wanted, 1):
        targets.append((each, await _find(broker, each, check)))
        if number % PARTITIONS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return await _Fetch(broker.environment.clock, targets, limits, reads).run()


async def _find(
    broker: Broker, wanted: PartitionFetch, check: Callable[[str], None] | None
) -> Partition | GoQueueError:
    name, index = wanted.topic, wanted.index
    try:
        if check is not None:
            check(name if isinstance(name, str) else broker.topic_by_id(name).name)
        if isinstance(name, str):
            opened = broker.partitions.find_open(name, index)
            if opened is not None and opened.topic_id is not None:  # else it is the broker's own
                return opened
            return await broker.partitions.get(broker.topic(name), index)
        return await broker.partitions.get(broker.topic_by_id(name), index)
    except GoQueueError as error:
        return error


class _Fetch:
    def __init__(
        self,
        clock: Clock,
        targets: list[Target],
        limits: FetchLimits,
        reads: FollowerReads | None,
    ) -> None:
        self._clock = clock
        self._targets = targets
        self._limits = limits
        self._reads = reads

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
        return size >= self._limits.bytes_min or any(each.is_urgent for each in results)

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
        redirected = self._check(wanted, partition)
        if redirected is not None:
            return redirected
        log, offset, committed_only = partition.log, wanted.offset, self._limits.committed_only
        limit = partition.read_limit(committed_only=committed_only)
        if committed_only and offset >= limit and partition.leads and log.producers.has_unsettled:
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
        found = _describe(wanted, partition)
        found.aborted, found.records, found.next_offset = aborted, records, next_offset
        return found

    def _check(self, wanted: PartitionFetch, partition: Partition) -> FetchedPartition | None:
        """What to say instead of records; None: they are read.  Raises why they cannot be."""
        if self._reads is None:
            check_epoch(partition, wanted.leader_epoch)
        else:
            self._reads.check(partition, wanted.leader_epoch, wanted.offset)
            replica = self._reads.choose_replica(partition, wanted.offset)
            if replica is not None:
                found = _describe(wanted, partition)
                found.read_replica = replica
                return found
        if wanted.last_fetched_epoch == NO_EPOCH:
            return None
        log = partition.log
        diverged = find_divergence(
            log.epochs,
            log.end_offset,
            fetch_offset=wanted.offset,
            last_fetched_epoch=Epoch(wanted.last_fetched_epoch),
        )
        if diverged is None:
            return None
        found = _describe(wanted, partition)
        found.diverged = diverged
        return found

    def _count(self, results: list[FetchedPartition]) -> None:
        for (wanted, partition), result in zip(self._targets, results, strict=True):
            if result.records and isinstance(partition, Partition):
                partition.bytes_out += len(result.records)
                partition.messages_out += result.next_offset - wanted.offset
                if partition.tracer is not None:
                    partition.tracer.note_fetched(wanted.offset, result.next_offset - 1)


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


def _describe(wanted: PartitionFetch, partition: Partition) -> FetchedPartition:
    log = partition.log
    return FetchedPartition(
        wanted=wanted,
        high_watermark=log.high_watermark,
        stable_offset=log.stable_offset,
        start_offset=log.start_offset,
    )
