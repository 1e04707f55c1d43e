"""Figures of queues, for people and dashboards.  They take their time: nobody busy asks."""

import itertools
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.subscriptions import Sources
from goqueue.model.ids import Offset, Timestamp
from goqueue.queue import GroupStats, InFlight, LaneStats, PartitionStats
from goqueue.queue.group import QueueGroup
from goqueue.queue.lanes import LANES, NAMES, NORMAL
from goqueue.queue.lease import Lease
from goqueue.queue.partition_state import Ledger
from goqueue.queue.receipts import receipt


class WhichInFlight(msgspec.Struct, frozen=True, kw_only=True):
    """What is None does not matter."""

    topic: str | None = None
    partition: int | None = None
    consumer: str | None = None
    first: int = 0
    last: int = 2**63 - 1


def in_flight(group: QueueGroup, which: WhichInFlight, limit: int) -> list[InFlight]:
    found: list[InFlight] = []
    for ledger in group.ledgers.values():
        if which.topic not in (None, ledger.where.topic):
            continue
        if which.partition not in (None, ledger.where.partition):
            continue
        for lease in ledger.leases:
            if which.consumer in (None, lease.consumer):
                found += _in_lease(ledger, lease, which, limit - len(found))
    return found


def _in_lease(ledger: Ledger, lease: Lease, which: WhichInFlight, limit: int) -> list[InFlight]:
    where = ledger.where
    topic, partition = where.topic, where.partition
    found = []
    wanted = (each for each in ledger.in_lease(lease) if which.first <= each <= which.last)
    for offset in itertools.islice(wanted, max(0, limit)):
        attempt = ledger.attempt(offset)
        found.append(
            InFlight(
                topic,
                partition,
                Offset(offset),
                attempt,
                lease.consumer,
                lease.handed_at,
                None if lease.owner else lease.deadline,
                receipt(topic, partition, offset, attempt, lease.lease_id, where.group_id),
                lease.owner or None,
                ledger.failures(offset),
                ledger.timeouts(offset),
            )
        )
    return found


async def group_stats(
    group: QueueGroup, sources: Sources, now: Timestamp, dead_problem: Callable[[Ledger], str]
) -> GroupStats:
    partitions = []
    for ledger in list(group.ledgers.values()):
        reader = await sources.reader_of(ledger)
        if reader is not None:
            rates = sources.handed(ledger).a_second
            stats = await _partition_stats(ledger, reader, now, rates)
            partitions.append(replace(stats, dead_problem=dead_problem(ledger)))
    book = group.book
    return GroupStats(
        group.group_id,
        book.in_flight,
        dict(book.consumers),
        group.totals,
        tuple(partitions),
        dict(group.topic_totals),
    )


async def _partition_stats(
    ledger: Ledger, reader: PartitionReader, now: Timestamp, handed: list[float]
) -> PartitionStats:
    reader.begin_at(ledger.floor)
    await reader.scan_all()
    back, waiting = ledger.ready_by_lane(now), ledger.waiting_by_lane(now)
    lanes = tuple(
        [
            await _lane_stats(ledger, reader, lane, back[lane], waiting[lane], now, handed[lane])
            for lane in range(LANES)
        ]
    )
    return PartitionStats(
        topic=ledger.where.topic,
        partition=ledger.where.partition,
        floor=ledger.floor,
        end=reader.limit,
        ready=sum(lane.ready for lane in lanes),
        in_flight=sum(ledger.in_flight),
        waiting=sum(waiting),
        dead=len(ledger.dead),
        lanes=lanes,
    )


async def _lane_stats(
    ledger: Ledger,
    reader: PartitionReader,
    lane: int,
    back: int,
    waiting: int,
    now: Timestamp,
    handed_a_second: float,
) -> LaneStats:
    fresh = reader.index.count(lane, max(ledger.cursors[lane], reader.start), reader.limit)
    return LaneStats(
        priority=NAMES[lane],
        ready=back + fresh,
        in_flight=ledger.in_flight[lane],
        waiting=waiting,
        handed=ledger.handed[lane],
        published_a_second=reader.published.a_second[lane],
        handed_a_second=handed_a_second,
        oldest=await _oldest(ledger, reader, lane, now) if back + fresh else None,
    )


async def _oldest(
    ledger: Ledger, reader: PartitionReader, lane: int, now: Timestamp
) -> Timestamp | None:
    offset = ledger.first_ready(lane, now)
    if offset is None and lane == NORMAL:
        for block in await reader.read_blocks(ledger.cursors[lane]):
            if block.records:
                return Timestamp(block.records[0].timestamp)
        return None
    if offset is None:
        offset = reader.index.next(lane, ledger.cursors[lane])
    if offset is None:
        return None
    found = await reader.find([offset])
    return Timestamp(found[offset].timestamp) if offset in found else None
