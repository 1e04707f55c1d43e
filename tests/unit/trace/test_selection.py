from goqueue.trace.events import Step, TraceEvent
from goqueue.trace.selection import EXAMINED_MAX, TraceQuery, select
from tests.unit.trace.trace_events import event

EVENTS = [
    event(100, Step.PUBLISHED, 0, 99, duration_us=20),
    event(200, Step.FETCHED, 0, 99, group="g", member="w"),
    event(300, Step.ACKED, 0, 97, group="g"),
    event(350, Step.NACKED, 98, group="g"),
    event(400, Step.PUBLISHED, 100, duration_us=20),
    event(500, Step.PUBLISH_REJECTED, -1, error="no"),
]


def offsets(query: TraceQuery, events: list[TraceEvent] = EVENTS) -> list[int]:
    return [journey.offset for journey in select(events, query).journeys]


def test_the_newest_come_first():
    assert offsets(TraceQuery(limit=5)) == [-1, 100, 98, 97, 96]
    found = select(EVENTS, TraceQuery(limit=5))
    assert not found.is_whole


def test_conditions_hold_together():
    assert offsets(TraceQuery(status="retrying")) == [98]
    assert offsets(TraceQuery(status="error")) == [-1]
    assert offsets(TraceQuery(group="g", status="pending")) == [99]
    assert offsets(TraceQuery(consumer="w", limit=2)) == [98, 97]
    assert offsets(TraceQuery(min_duration_us=250)) == [98]
    assert offsets(TraceQuery(topic="other")) == []
    assert offsets(TraceQuery(partition=1)) == []
    assert offsets(TraceQuery(start_us=390, end_us=450)) == [100]


def test_a_search_ends_though_nothing_matches():
    wide = [event(100, Step.PUBLISHED, 0, 10_000_000)]
    found = select(wide, TraceQuery(status="error"))
    assert (found.journeys, found.examined, found.is_whole) == ([], EXAMINED_MAX, False)


def test_own_trace_ids_are_shown():
    linked = event(401, Step.TRACE_LINKED, 100, detail=f"{'4b' * 16}-{'00f0' * 4}")
    found = select([*EVENTS[:5], linked], TraceQuery(limit=1)).journeys[0]
    assert (found.trace_id, found.parent_span_id) == ("4b" * 16, "00f0" * 4)
