"""Which messages a question is about: the newest, or those that match.

Events stand for ranges.  Messages are counted out of them from the newest on, and each is looked at
until enough are found; an index finds the events of a message without a walk over all.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from goqueue.trace.events import CONTEXT, Place, Step, TraceEvent
from goqueue.trace.ids import TraceParent
from goqueue.trace.journeys import Journey, Status, assemble, refusal

NARROW_MAX: Final = 64  # offsets of an event that are listed one by one
EXAMINED_MAX: Final = 20_000  # messages, for one question
TIME_MAX: Final = 2**62


class TraceQuery(msgspec.Struct, frozen=True):
    """Empty: any."""

    topic: str = ""
    partition: int | None = None
    group: str = ""
    consumer: str = ""
    start_us: int = 0
    end_us: int = TIME_MAX
    status: Status | None = None
    min_duration_us: int = 0
    limit: int = 100

    def wants(self, event: TraceEvent) -> bool:
        """Whether messages of this event may match."""
        return (
            self.start_us <= event.time_us <= self.end_us
            and (not self.topic or event.topic == self.topic)
            and (self.partition is None or event.partition == self.partition)
        )

    def matches(self, journey: Journey) -> bool:
        if self.status is not None and journey.status != self.status:
            return False
        if journey.duration_us < self.min_duration_us:
            return False
        if self.group and not any(step.group == self.group for step in journey.steps):
            return False
        return not self.consumer or any(
            self.consumer in (step.member, step.client) for step in journey.steps
        )


class Selection(msgspec.Struct, frozen=True):
    journeys: list[Journey]
    examined: int
    is_whole: bool  # False: there may be more that match


class EventIndex:
    """The events of many messages, by place."""

    def __init__(self, events: Iterable[TraceEvent]) -> None:
        self._narrow: dict[Place, list[TraceEvent]] = {}
        self._wide: dict[tuple[bytes, int, int], list[TraceEvent]] = {}
        self.parents: dict[Place, TraceParent] = {}
        for event in events:
            if event.first < 0 or event.step in CONTEXT:
                continue
            if event.step == Step.TRACE_LINKED:
                self._note_parent(event)
            elif event.last - event.first < NARROW_MAX:
                for offset in range(event.first, event.last + 1):
                    place = Place(event.topic_id, event.partition, offset, event.space)
                    self._narrow.setdefault(place, []).append(event)
            else:
                key = event.topic_id, event.partition, event.space
                self._wide.setdefault(key, []).append(event)

    def _note_parent(self, event: TraceEvent) -> None:
        trace_id, _, span = event.detail.partition("-")
        place = Place(event.topic_id, event.partition, event.first, event.space)
        self.parents[place] = TraceParent(trace_id, span, True)

    def of(self, place: Place) -> list[TraceEvent]:
        wide = self._wide.get((place.topic_id, place.partition, place.space), ())
        found = [each for each in wide if each.first <= place.offset <= each.last]
        return [*found, *self._narrow.get(place, ())]


def select(events: Sequence[TraceEvent], query: TraceQuery) -> Selection:
    """The newest messages first; `events` are in the order of time."""
    found, examined = list[Journey](), 0
    for journey in _newest(events, query):
        if len(found) >= query.limit or examined >= EXAMINED_MAX:
            return Selection(found, examined, False)
        examined += 1
        if query.matches(journey):
            found.append(journey)
    return Selection(found, examined, True)


def _newest(events: Sequence[TraceEvent], query: TraceQuery) -> Iterator[Journey]:
    index, seen = EventIndex(events), set[Place]()
    for event in reversed(events):
        if event.step in CONTEXT or not query.wants(event):
            continue
        if event.step == Step.PUBLISH_REJECTED:
            yield refusal(event)
            continue
        for offset in range(event.last, event.first - 1, -1):
            place = Place(event.topic_id, event.partition, offset, event.space)
            if place not in seen:
                seen.add(place)
                parent = index.parents.get(place)
                yield assemble(place, event.topic, index.of(place), parent=parent)
