"""Events as spans, for those who collect traces elsewhere.

A message that brought a `traceparent` has a span for each of its steps, which are children of the
producer's.  All others of an event share one span, in the trace of the first of them: a batch of
ten thousand messages is one span, not ten thousand.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from goqueue.trace.events import NAMES, UNKNOWN, Place, Step, TraceEvent
from goqueue.trace.ids import TraceParent, derived_id, refused_id, span_id

PARENTS_MAX: Final = 100_000  # messages with traces of their own that are remembered


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    trace_id: str
    span_id: str
    name: str
    start_us: int
    end_us: int
    parent_span_id: str = ""
    error: str = ""
    attributes: dict[str, str | int] = {}


class SpanMaker:
    """Remembers which messages have a trace of their own."""

    def __init__(self) -> None:
        self._parents: OrderedDict[Place, TraceParent] = OrderedDict()

    def make(self, events: Iterable[TraceEvent]) -> list[Span]:
        found = list[Span]()
        for event in events:
            if event.step == Step.TRACE_LINKED:
                self._remember(event)
            elif event.first < 0:
                if event.step == Step.PUBLISH_REJECTED:
                    found.append(_span(event, UNKNOWN, 1, refused_id(*event.key), ""))
            elif event.step not in (Step.LEADER_CHANGED, Step.GROUP_REBALANCED):
                found += self._spans(event)
        return found

    def _remember(self, event: TraceEvent) -> None:
        trace_id, _, span = event.detail.partition("-")
        place = Place(event.topic_id, event.partition, event.first, event.space)
        self._parents[place] = TraceParent(trace_id, span, True)
        while len(self._parents) > PARENTS_MAX:
            self._parents.popitem(last=False)

    def _spans(self, event: TraceEvent) -> Iterator[Span]:
        own = 0
        if self._parents:
            for offset in range(event.first, event.last + 1):
                place = Place(event.topic_id, event.partition, offset, event.space)
                parent = self._parents.get(place)
                if parent is None:
                    continue
                own += 1
                yield _span(event, offset, 1, parent.trace_id, parent.span_id)
                self._follow(event, place, parent)
        if own < event.count:
            place = Place(event.topic_id, event.partition, event.first, event.space)
            yield _span(event, event.first, event.count - own, derived_id(place), "")

    def _follow(self, event: TraceEvent, place: Place, parent: TraceParent) -> None:
        """A message that goes on elsewhere keeps its trace."""
        link = event.link_of(place.offset)
        if link is not None:
            self._parents[link] = parent


def _span(event: TraceEvent, offset: int, count: int, trace_id: str, parent: str) -> Span:
    name = NAMES[Step(event.step)].partition(".")[0] if event.step == Step.PUBLISHED else ""
    attributes: dict[str, str | int] = {
        "messaging.system": "goqueue",
        "messaging.destination.name": event.topic,
        "messaging.destination.partition.id": str(event.partition),
        "goqueue.node": event.node,
    }
    more: dict[str, str | int] = {
        "messaging.kafka.offset": offset if offset >= 0 else "",
        "messaging.batch.message_count": count if count > 1 else "",
        "messaging.consumer.group.name": event.group,
        "messaging.client.id": event.client,
        "goqueue.member": event.member,
        "client.address": event.address,
        "goqueue.attempt": event.attempt or "",
        "goqueue.detail": event.detail,
    }
    if event.link_first >= 0 and offset >= 0:
        there = event.link_first + offset - event.first
        more["goqueue.link"] = f"{event.link_topic}/{event.link_partition}/{there}"
    attributes |= {key: value for key, value in more.items() if value != ""}
    return Span(
        trace_id,
        span_id(*event.key, offset),
        name or NAMES[Step(event.step)],
        event.time_us,
        event.time_us + max(0, event.duration_us if event.step == Step.PUBLISHED else 0),
        parent,
        event.error,
        attributes,
    )
