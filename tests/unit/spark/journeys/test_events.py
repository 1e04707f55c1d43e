import itertools
from typing import Any, cast

from goqueue.api.traces import TraceEventBody, TraceEventPage
from goqueue.client import Client
from goqueue.spark.journeys.events import SLICES_MAX, ask, make_slices


def test_time_is_divided_into_slices_without_gaps():
    slices = make_slices(1_000, 86_401_000)
    assert len(slices) <= SLICES_MAX
    assert (slices[0][0], slices[-1][1]) == (1_000, 86_401_000)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(slices))
    assert make_slices(0, 500) == [(0, 500)]
    assert make_slices(7, 7) == []


class FullBroker:
    """Gives at most two events at a time: the newest."""

    def trace_events(self, *, start: int, end: int, topic: str | None) -> TraceEventPage:
        assert topic is None
        found = [at for at in range(0, 100, 10) if start <= at <= end]
        events = [
            TraceEventBody(at * 1000, "consume.acked", "t", 0, 0, 0, "data", 1) for at in found
        ]
        return TraceEventPage(events[-2:], len(found) <= 2)


def test_a_slice_with_too_many_events_is_asked_for_in_halves():
    client = cast(Client, cast(Any, FullBroker()))
    found = [event.time_us for some in ask(client, 0, 100, "") for event in some]
    assert found == [at * 1000 for at in range(0, 100, 10)]
