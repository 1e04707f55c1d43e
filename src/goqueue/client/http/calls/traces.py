"""Every request about journeys of messages."""

from goqueue.api.traces import TraceBody, TraceEventPage, TracePage, TraceStats, TraceStatus
from goqueue.client.http.calls.call import Call, get, path_of


def recent_traces(*, limit: int = 100) -> Call[TracePage]:
    """The newest journeys first."""
    return get("/traces", TracePage, {"limit": str(limit)})


def search_traces(
    *,
    topic: str | None = None,
    partition: int | None = None,
    consumer_group: str | None = None,
    consumer: str | None = None,
    key: str | None = None,
    start: int | str | None = None,
    end: int | str | None = None,
    status: TraceStatus | None = None,
    min_duration: int | str | None = None,
    limit: int = 100,
) -> Call[TracePage]:
    """The newest journeys that match all that is given; durations as `1s`, or milliseconds."""
    given = {
        "topic": topic,
        "partition": partition,
        "consumer_group": consumer_group,
        "consumer": consumer,
        "key": key,
        "start": start,
        "end": end,
        "status": status,
        "min_duration": min_duration,
        "limit": limit,
    }
    query = {name: str(value) for name, value in given.items() if value is not None}
    return get("/traces/search", TracePage, query)


def trace(trace_id: str) -> Call[TraceBody]:
    """By the trace id of its `traceparent`, or as a list of traces shows it."""
    return get(path_of("traces", trace_id), TraceBody)


def journey(topic: str, partition: int, offset: int) -> Call[TraceBody]:
    """Every step that a message took."""
    return get(path_of("messages", topic, str(partition), str(offset), "journey"), TraceBody)


def trace_events(
    *, start: int | str, end: int | str, topic: str | None = None
) -> Call[TraceEventPage]:
    """What was recorded between two times, for ranges of offsets."""
    return get("/traces/events", TraceEventPage, {"start": start, "end": end, "topic": topic})


def trace_stats() -> Call[TraceStats]:
    """What each node has recorded."""
    return get("/traces/stats", TraceStats)
