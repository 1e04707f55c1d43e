"""Queues for operators: messages in flight and who holds them, release and extend, statistics."""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response
from litestar.params import JSONBody

from goqueue.api.errors import ErrorBody
from goqueue.api.groups import NAME_LENGTH_MAX
from goqueue.api.queues import (
    HANDLES_MAX,
    ExtendHeld,
    GroupFigures,
    HeldMessage,
    InFlightBody,
    LaneFigures,
    PartitionFigures,
    PartitionLanes,
    PriorityBody,
    ReliabilityBody,
    SettledManyBody,
    TotalsBody,
    WhichHeld,
)
from goqueue.broker.queues.overview import Missing
from goqueue.broker.queues.service import Queues
from goqueue.broker.queues.stats import WhichInFlight
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import GroupId
from goqueue.model.times import time_text
from goqueue.queue import GroupStats, InFlight, LaneStats, PartitionStats
from goqueue.queue.receipts import read_receipts
from goqueue.security import ResourceType
from goqueue.server.http.asgi.dependencies import TheBroker, TheQueues
from goqueue.server.http.routes.bodies import body_of
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.group_bodies import GroupPath, group_name
from goqueue.server.http.routes.queue_bodies import (
    MEANINGS,
    missing_partitions,
    visibility_ms,
)
from goqueue.server.http.routes.queues import many_answer
from goqueue.server.http.security.visibility import visible

IN_FLIGHT_DEFAULT: Final = 1_000
OptionalGroup = Annotated[str | None, query("Only this group.", max_length=NAME_LENGTH_MAX)]
OptionalTopic = Annotated[str | None, query("Only this topic.", max_length=NAME_LENGTH_MAX)]


routes = Routes("queues", MEANINGS)


# --- in flight ----------------------------------------------------------------------------------


@routes.get("/groups/{group:str}/in-flight", "Who holds what", 404)
async def in_flight(
    request: Request[Any, Any, Any],
    broker: TheBroker,
    queues: TheQueues,
    group: GroupPath,
    topic: OptionalTopic = None,
    consumer: Annotated[str | None, query("Only this one's.", max_length=NAME_LENGTH_MAX)] = None,
    limit: Annotated[
        int, query("Most messages to give.", ge=1, le=HANDLES_MAX)
    ] = IN_FLIGHT_DEFAULT,
) -> InFlightBody:
    """Messages in flight: delivered and not yet settled; of topics that the caller may see."""
    which, missing = WhichInFlight(topic=topic, consumer=consumer), Missing()
    found = await queues.list_held(group_name(group), which, limit, missing)
    may_see = visible(request.scope, broker.permissions, ResourceType.TOPIC)
    shown = [_describe_held(each) for each in found if may_see(each.topic)]
    return InFlightBody(group, shown, missing_partitions(missing))


def _describe_held(held: InFlight) -> HeldMessage:
    return body_of(
        HeldMessage,
        held,
        delivered_at=time_text(held.delivered_at),
        visible_until=None if held.deadline is None else time_text(held.deadline),
        receipt_handle=held.receipt,
    )


@routes.post(
    "/groups/{group:str}/in-flight/release",
    "Take messages back from their consumers",
    404,
    409,
    507,
)
async def release_held(
    queues: TheQueues, group: GroupPath, data: JSONBody[WhichHeld]
) -> Response[SettledManyBody] | Response[ErrorBody]:
    """Return up to 10000 messages to the queue, without counting a failed attempt."""
    receipts, missing = await _receipts(queues, group_name(group), data)
    return many_answer(await queues.release(receipts), missing)


@routes.post(
    "/groups/{group:str}/in-flight/extend",
    "Leave messages with their consumers for longer",
    404,
    409,
    507,
)
async def extend_held(
    queues: TheQueues, group: GroupPath, data: JSONBody[ExtendHeld]
) -> Response[SettledManyBody] | Response[ErrorBody]:
    """Up to 10000 messages stay where they are for so long from now."""
    more_ms = visibility_ms(data.timeout, "timeout")
    receipts, missing = await _receipts(queues, group_name(group), data)
    return many_answer(await queues.extend(receipts, visibility_ms=more_ms), missing)


async def _receipts(
    queues: Queues, group_id: GroupId, which: WhichHeld
) -> tuple[list[str], Missing]:
    """What is asked for, and of which partitions that is not known."""
    if which.receipt_handles is not None:
        claims, _ = read_receipts(which.receipt_handles)
        if any(where.group_id != group_id for where, _ in claims):
            raise InvalidRequest(f"receipt_handles: not all are of group {group_id!r}")
        return which.receipt_handles, {}
    wanted = WhichInFlight(
        topic=which.topic,
        partition=which.partition,
        consumer=which.consumer,
        first=which.first,
        last=which.last,
    )
    missing = Missing()
    held = await queues.list_held(group_id, wanted, HANDLES_MAX, missing)
    return [each.receipt for each in held], missing


# --- figures ------------------------------------------------------------------------------------


@routes.get("/reliability/stats", "Figures of queues", 404)
async def reliability_stats(queues: TheQueues, group: OptionalGroup = None) -> ReliabilityBody:
    """How many messages are ready, held and waiting, and what became of those before."""
    missing = Missing()
    groups = [_group_figures(each) for each in await queues.stats(group, missing)]
    return ReliabilityBody(
        sum(each.ready for each in groups),
        sum(each.in_flight for each in groups),
        sum(each.waiting for each in groups),
        _sum_of_totals(each.totals for each in groups),
        groups,
        missing_partitions(missing),
    )


def _group_figures(stats: GroupStats) -> GroupFigures:
    return GroupFigures(
        stats.group_id,
        sum(each.ready for each in stats.partitions),
        stats.in_flight,
        sum(each.waiting for each in stats.partitions),
        stats.consumers,
        body_of(TotalsBody, stats.totals, dead_lettered=dict(stats.totals.dead)),
        [_partition_figures(each) for each in stats.partitions],
    )


def _sum_of_totals(found: Iterable[TotalsBody]) -> TotalsBody:
    counts = Counter(dict.fromkeys(TotalsBody.__struct_fields__, 0))
    dead: Counter[str] = Counter()
    for each in found:
        told = msgspec.structs.asdict(each)
        dead.update(told.pop("dead_lettered"))
        counts.update(told)
    counts.pop("dead_lettered")
    return TotalsBody(**counts, dead_lettered=dict(dead))


def _partition_figures(stats: PartitionStats) -> PartitionFigures:
    return body_of(
        PartitionFigures,
        stats,
        committed_offset=stats.floor,
        next_offset=stats.end,
        dying=stats.dead,
        dying_problem=stats.dead_problem or None,
    )


@routes.get("/priority/stats", "Figures of priority lanes", 404)
async def priority_stats(
    queues: TheQueues, group: OptionalGroup = None, topic: OptionalTopic = None
) -> PriorityBody:
    """How many messages of each priority are ready, held and waiting, by partition."""
    missing = Missing()
    partitions = [
        PartitionLanes(stats.group_id, each.topic, each.partition, _lanes(each.lanes))
        for stats in await queues.stats(group, missing)
        for each in stats.partitions
        if topic in (None, each.topic)
    ]
    lanes = _sum_of_lanes([each.lanes for each in partitions])
    return PriorityBody(lanes, partitions, missing_partitions(missing))


def _lanes(lanes: Iterable[LaneStats]) -> dict[str, LaneFigures]:
    return {
        lane.priority: body_of(
            LaneFigures,
            lane,
            enqueue_rate=round(lane.published_a_second, 3),
            dequeue_rate=round(lane.delivered_a_second, 3),
            oldest=None if lane.oldest is None else time_text(lane.oldest),
        )
        for lane in lanes
    }


def _sum_of_lanes(found: list[dict[str, LaneFigures]]) -> dict[str, LaneFigures]:
    sums: dict[str, LaneFigures] = {}
    for lanes in found:
        for name, lane in lanes.items():
            before = sums.get(name)
            sums[name] = lane if before is None else _add(before, lane)
    return sums


def _add(one: LaneFigures, other: LaneFigures) -> LaneFigures:
    times = [each for each in (one.oldest, other.oldest) if each is not None]
    return LaneFigures(
        one.ready + other.ready,
        one.in_flight + other.in_flight,
        one.waiting + other.waiting,
        one.delivered + other.delivered,
        round(one.enqueue_rate + other.enqueue_rate, 3),
        round(one.dequeue_rate + other.dequeue_rate, 3),
        min(times, key=str) if times else None,
    )
