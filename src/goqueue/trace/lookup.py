"""What one node is asked for: events of places, of groups, or with a trace id; or the newest.

The same question is put to the ring and to blocks of the history: a block's head tells whether it
need be unfolded.
"""

from collections.abc import Iterable

import msgspec

from goqueue.trace.blocks import TRACE_PREFIX, BlockHead
from goqueue.trace.events import Place, Step, TraceEvent
from goqueue.trace.selection import TIME_MAX, TraceQuery


class Lookup(msgspec.Struct, frozen=True):
    """`query` is for the newest events; the others name what they want."""

    places: list[Place] = []
    groups: list[str] = []
    trace_id: str = ""
    refused: tuple[int, int, int] | None = None  # the key of the event
    query: TraceQuery | None = None
    start_us: int = 0
    end_us: int = TIME_MAX

    def may_match(self, head: BlockHead) -> bool:
        if head.last_us < self.start_us or head.first_us > self.end_us:
            return False
        if self.query is not None or self.refused is not None:
            return True
        if self.trace_id and self.trace_id[:TRACE_PREFIX] in head.trace_ids:
            return True
        if any(group in head.groups for group in self.groups):
            return True
        return any(map(head.may_hold, self.places))

    def matches(self, event: TraceEvent) -> bool:
        if not self.start_us <= event.time_us <= self.end_us:
            return False
        if self.query is not None:
            return self.query.wants(event)
        if self.refused is not None:
            return event.key == self.refused
        if event.step == Step.GROUP_REBALANCED:
            return event.group in self.groups
        if self.trace_id:
            return event.step == Step.TRACE_LINKED and event.detail.startswith(self.trace_id)
        return any(event.holds(place) or event.leads_to(place) for place in self.places)

    def pick(self, events: Iterable[TraceEvent]) -> list[TraceEvent]:
        return [event for event in events if self.matches(event)]
