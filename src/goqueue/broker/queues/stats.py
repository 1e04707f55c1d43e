"""Statistics of queues, for people and dashboards.  They may take some time."""

import itertools
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.subscriptions import Subscriptions
from goqueue.model.ids import Offset, Timestamp
from goqueue.queue import (
    GroupStats,
    InFlight,
    LaneStats,
    Lease,
    PartitionState,
    PartitionStats,
    QueueGroup,
    read_owner,
)
from goqueue.queue.lanes import LANES, NAMES, NORMAL
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
    for state in group.states.values():
        if which.topic not in (None, state.where.topic):
            continue
        if which.partition not in (None, state.where.partition):
            continue
        for lease in state.leases:
            if which.consumer in (None, lease.consumer):
                found += _in_lease(state, lease, which, limit - len(found))
    return found


def _in_lease(
    state: PartitionState, lease: Lease, which: WhichInFlight, limit: int
) -> list[InFlight]:
    where = state.where
    topic, partition = where.topic, where.partition
    found = []
    wanted = (each for each in state.in_lease(lease) if which.first <= each <= which.last)
    for offset in itertools.islice(wanted, max(0, limit)):
        attempt = state.attempt(offset)
        found.append(
            InFlight(
                topic,
                partition,
                Offset(offset),
                attempt,
                lease.consumer,
                lease.delivered_at,
                None if lease.transactional_id else lease.deadline,
                receipt(topic, partition, offset, attempt, lease.lease_id, where.group_id),
                read_owner(lease.transactional_id).transactional_id or None,
                state.failures(offset),
                state.timeouts(offset),
            )
        )
    return found


async def group_stats(
    group: QueueGroup,
    sources: Subscriptions,
    now: Timestamp,
    dead_problem: Callable[[PartitionState], str],
) -> GroupStats:
    partitions = []
    for state in list(group.states.values()):
        reader = await sources.reader_of(state)
        if reader is not None:
            rates = sources.delivery_rates(state).a_second
            stats = await _partition_stats(state, reader, now, rates)
            partitions.append(replace(stats, dead_problem=dead_problem(state)))
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
    state: PartitionState, reader: PartitionReader, now: Timestamp, delivered: list[float]
) -> PartitionStats:
    reader.begin_at(state.ack_floor)
    await reader.scan_all()
    back, waiting = state.ready_by_lane(now), state.waiting_by_lane(now)
    lanes = tuple(
        [
            await _lane_stats(state, reader, lane, back[lane], waiting[lane], now, delivered[lane])
            for lane in range(LANES)
        ]
    )
    return PartitionStats(
        topic=state.where.topic,
        partition=state.where.partition,
        floor=state.ack_floor,
        end=reader.limit,
        ready=sum(lane.ready for lane in lanes),
        in_flight=sum(state.in_flight),
        waiting=sum(waiting),
        dead=len(state.dead),
        lanes=lanes,
    )


async def _lane_stats(
    state: PartitionState,
    reader: PartitionReader,
    lane: int,
    back: int,
    waiting: int,
    now: Timestamp,
    delivered_a_second: float,
) -> LaneStats:
    fresh = reader.index.count(lane, max(state.cursors[lane], reader.start), reader.limit)
    return LaneStats(
        priority=NAMES[lane],
        ready=back + fresh,
        in_flight=state.in_flight[lane],
        waiting=waiting,
        delivered=state.delivered[lane],
        published_a_second=reader.published.a_second[lane],
        delivered_a_second=delivered_a_second,
        oldest=await _oldest(state, reader, lane, now) if back + fresh else None,
    )


async def _oldest(
    state: PartitionState, reader: PartitionReader, lane: int, now: Timestamp
) -> Timestamp | None:
    offset = state.first_ready(lane, now)
    if offset is None and lane == NORMAL:
        for block in await reader.read_blocks(state.cursors[lane]):
            if block.records:
                return Timestamp(block.records[0].timestamp)
        return None
    if offset is None:
        offset = reader.index.next(lane, state.cursors[lane])
    if offset is None:
        return None
    found = await reader.find([offset])
    return Timestamp(found[offset].timestamp) if offset in found else None
