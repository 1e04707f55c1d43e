"""Journeys of messages: one, the newest, those that match."""

from typing import Annotated, Final

from litestar.params import PathParameter

from goqueue.api.parsing import NAME_PATTERN, TIME_PATTERN, WAIT_PATTERN, parse_time, parse_wait
from goqueue.api.traces import (
    LISTED_MAX,
    TraceBody,
    TraceEventPage,
    TracePage,
    TraceStats,
    TraceStatus,
)
from goqueue.broker.traces.service import Found
from goqueue.model.errors import InvalidRequest
from goqueue.model.names import topic_name
from goqueue.server.http.asgi.dependencies import TheTraces
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.messages import PartitionPath
from goqueue.server.http.routes.topics import TopicPath
from goqueue.server.http.routes.trace_bodies import event_body, stats_body, summary_body, trace_body
from goqueue.trace.ids import is_trace_id
from goqueue.trace.selection import TIME_MAX, TraceQuery

LIMIT_DEFAULT: Final = 100
MEANINGS: Final = {404: "No such topic or partition, or nothing is known of the message."}

OffsetPath = Annotated[
    int, PathParameter(description="The message's offset.", schema_extra={"minimum": 0})
]
TraceIdPath = Annotated[
    str,
    PathParameter(
        description="Of the message's `traceparent`, or as a list of traces shows it.",
        schema_extra={"pattern": "^[0-9a-fA-F]{32}$"},
    ),
]
Limit = Annotated[int, query("Most journeys to give.", ge=1, le=LISTED_MAX)]

routes = Routes("traces", MEANINGS)


@routes.get("/traces", "List the newest journeys")
async def list_traces(traces: TheTraces, limit: Limit = LIMIT_DEFAULT) -> TracePage:
    """Of all topics that are traced, over all nodes."""
    return _page(await traces.recent(TraceQuery(limit=limit)), {"limit": limit})


@routes.get("/traces/search", "Search journeys", 404)
async def search_traces(
    traces: TheTraces,
    topic: Annotated[str, query("Only of this topic.", NAME_PATTERN)] = "",
    partition: Annotated[int, query("Only of this partition; -1: of all.", ge=-1)] = -1,
    consumer_group: Annotated[str, query("Only what this group has seen.", max_length=255)] = "",
    consumer: Annotated[
        str, query("Only what this worker, member or client id has seen.", max_length=255)
    ] = "",
    key: Annotated[
        str | None, query("Only messages with this key; `topic` is needed, too.", max_length=1024)
    ] = None,
    start: Annotated[str | None, query("Events from this time on.", TIME_PATTERN)] = None,
    end: Annotated[str | None, query("Events up to this time.", TIME_PATTERN)] = None,
    status: Annotated[TraceStatus | None, query("Only with this status.")] = None,
    min_duration: Annotated[
        str | None, query("Only those that took so long or longer.", WAIT_PATTERN)
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
) -> TracePage:
    """The newest first; all conditions hold.

    A key is looked for in the topic, from `start` on (a day ago, without one), in the partition
    that Kafka's clients choose for it unless `partition` says another.
    """
    wanted = TraceQuery(
        topic_name(topic) if topic else "",
        None if partition < 0 else partition,
        consumer_group,
        consumer,
        0 if start is None else parse_time(start, "start") * 1000,
        TIME_MAX if end is None else parse_time(end, "end") * 1000 + 999,
        status,
        0 if min_duration is None else parse_wait(min_duration, "min_duration") * 1000,
        limit,
    )
    echo: dict[str, str | int | None] = {
        "topic": topic or None,
        "partition": partition,
        "consumer_group": consumer_group or None,
        "consumer": consumer or None,
        "key": key,
        "start": start,
        "end": end,
        "status": status,
        "min_duration": min_duration,
        "limit": limit,
    }
    if key is None:
        return _page(await traces.search(wanted), echo)
    if not topic:
        raise InvalidRequest("key: say the topic as well (topic=…)")
    return _page(await traces.search_key(wanted, key.encode()), echo)


@routes.get("/traces/events", "List events of journeys")
async def list_trace_events(
    traces: TheTraces,
    start: Annotated[str, query("Events from this time on.", TIME_PATTERN)],
    end: Annotated[str, query("Events up to this time.", TIME_PATTERN)],
    topic: Annotated[str, query("Only of this topic.", NAME_PATTERN)] = "",
) -> TraceEventPage:
    """As they were recorded, over all nodes: for jobs that look at many messages.

    An event holds for a range of offsets.  At most 20,000 of each node are given, the newest.
    """
    wanted = TraceQuery(
        topic_name(topic) if topic else "",
        start_us=parse_time(start, "start") * 1000,
        end_us=parse_time(end, "end") * 1000 + 999,
    )
    found, missing, is_whole = await traces.events(wanted)
    return TraceEventPage([event_body(each) for each in found], is_whole, list(missing))


@routes.get("/traces/stats", "Count events of journeys")
async def trace_stats(traces: TheTraces) -> TraceStats:
    """What each node has recorded since it started."""
    return stats_body(*await traces.figures())


@routes.get("/traces/{trace_id:str}", "Show a journey by its trace id", 404)
async def get_trace(traces: TheTraces, trace_id: TraceIdPath) -> TraceBody:
    """Every step of the message, also at its other places: dead letters, redrives, delays."""
    wanted = trace_id.lower()
    if not is_trace_id(wanted):
        raise InvalidRequest("a trace id has 32 hexadecimal digits, and they are not all 0")
    found = await traces.find(wanted)
    return trace_body(found.journey, found.missing)


@routes.get(
    "/messages/{topic:str}/{partition:int}/{offset:int}/journey", "Show a message's journey", 404
)
async def get_journey(
    traces: TheTraces, topic: TopicPath, partition: PartitionPath, offset: OffsetPath
) -> TraceBody:
    """Every step of the message, also at its other places: dead letters, redrives, delays."""
    found = await traces.journey(topic_name(topic), partition, offset)
    return trace_body(found.journey, found.missing)


def _page(found: Found, echo: dict[str, str | int | None]) -> TracePage:
    summaries = [summary_body(each) for each in found.selection.journeys]
    return TracePage(summaries, len(summaries), found.selection.is_whole, echo, list(found.missing))
