"""The recent events of the cluster, as this node has seen them since it started."""

from collections import Counter, deque
from typing import Final

import msgspec

from goqueue.cluster import Metadata, MetadataRecord
from goqueue.cluster.events import ClusterEvent, EventKind, events_of
from goqueue.model.ids import Timestamp
from goqueue.runtime import Clock

EVENTS_MAX: Final = 1_000


class NotedEvent(msgspec.Struct, frozen=True):
    number: int  # rises by one
    at: Timestamp
    event: ClusterEvent


class ClusterEvents:
    """Bounded: the oldest go.  Counts are of all since the start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[NotedEvent] = deque(maxlen=EVENTS_MAX)
        self._number = 0
        self._is_live = False
        self.counts: Counter[EventKind] = Counter()

    def begin(self) -> None:
        """What comes from now on is new: before that, the log of earlier times is read again."""
        self._is_live = True

    def note(self, metadata: Metadata, record: MetadataRecord) -> None:
        """The record is about to be applied."""
        if not self._is_live:
            return
        for event in events_of(metadata, record):
            self._number += 1
            self.counts[event.kind] += 1
            self._events.append(NotedEvent(self._number, self._clock.now(), event))

    def after(self, number: int = 0) -> list[NotedEvent]:
        """Those behind that one, as far as they are kept; the oldest first."""
        return [each for each in self._events if each.number > number]
