"""Counts how long messages take, in the background, from the events that the history is told.

Events are taken a slice at a time, so that the event loop turns between them.  A partition's leader
counts: what another node has seen of its messages (a commit at a group's coordinator, a fetch from
a follower) is sent there once a second.  It waits here for a second at least, so that the leader
has counted what came before it: a commit says nothing of messages whose fetch is not known yet.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.cluster import Metadata
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.runtime import Clock
from goqueue.trace.events import Step, TraceEvent
from goqueue.trace.latencies import Latencies

SLICE_EVENTS: Final = 100  # half a millisecond
KEPT_EVENTS_MAX: Final = 50_000
SENT_EVENTS_MAX: Final = 4_096
SEND_SECONDS: Final = 1.0  # above `traces.flush_ms`
FORGET_SECONDS: Final = 60

_ELSEWHERE: Final = frozenset({Step.FETCHED, Step.ACKED})  # that another node may see
_log = structlog.get_logger("goqueue.traces")


class LatencyBroker(Protocol):
    @property
    def others(self) -> OtherNodes | None: ...

    @property
    def metadata(self) -> Metadata: ...


class StepsElsewhere(Verb[bool], frozen=True):
    """What a node has seen of messages that another one leads."""

    name = "steps_elsewhere"
    reply_type = bool

    events: list[TraceEvent]


class LatencyCounter:
    def __init__(self, broker: LatencyBroker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self.latencies = Latencies()
        self._kept: list[TraceEvent] = []
        self._has_some = asyncio.Event()
        self._elsewhere: dict[NodeId, list[TraceEvent]] = {}  # that their leaders count
        self._held: dict[NodeId, list[TraceEvent]] = {}  # the same, of the second before
        self._forget_at = 0
        self.dropped_total = 0  # events that came too fast, or that a leader did not take

    def serve(self, others: OtherNodes) -> None:
        others.serve(StepsElsewhere, self._take_elsewhere)

    def take(self, events: Sequence[TraceEvent]) -> None:
        room = max(0, KEPT_EVENTS_MAX - len(self._kept))
        self._kept += events[:room]
        self.dropped_total += max(0, len(events) - room)
        self._has_some.set()

    async def _take_elsewhere(self, _: NodeId, verb: StepsElsewhere) -> bool:
        self.take(verb.events)
        return True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._has_some.wait()
            await self.count()
            self._forget_deleted()

    async def count(self) -> None:
        """What was taken until now."""
        self._has_some.clear()
        events, self._kept = self._kept, []
        for first in range(0, len(events), SLICE_EVENTS):
            for event in events[first : first + SLICE_EVENTS]:
                leader = self._leader(event)
                if leader is None:
                    self.latencies.note(event)
                elif len(held := self._elsewhere.setdefault(leader, [])) < KEPT_EVENTS_MAX:
                    held.append(event)
                else:
                    self.dropped_total += 1
            await self._clock.sleep(0)

    async def run_sending(self) -> None:
        """Until cancelled."""
        while self._broker.others is not None:
            await self._clock.sleep(SEND_SECONDS)
            ready, self._held, self._elsewhere = self._held, self._elsewhere, {}
            for leader, some in ready.items():
                await self._send(leader, some)

    def _leader(self, event: TraceEvent) -> NodeId | None:
        """Who counts this one; None: this node."""
        others = self._broker.others
        if others is None or event.step not in _ELSEWHERE:
            return None
        topic = self._broker.metadata.find(event.topic)
        if topic is None or topic.topic_id.bytes != event.topic_id:
            return None
        try:
            leader = others.leader(topic, event.partition)
        except GoQueueError:
            return None  # nobody leads it now
        return None if leader == others.node_id or event.node != others.node_id else leader

    async def _send(self, leader: NodeId, events: list[TraceEvent]) -> None:
        others = self._broker.others
        assert others is not None, "only another node leads what is not led here"
        try:
            for first in range(0, len(events), SENT_EVENTS_MAX):
                await others.ask(leader, StepsElsewhere(events[first : first + SENT_EVENTS_MAX]))
        except GoQueueError as error:
            self.dropped_total += len(events)
            _log.debug("steps not sent to their leader", leader=leader, problem=str(error))

    def _forget_deleted(self) -> None:
        now = self._clock.instant()
        if now < self._forget_at:
            return
        self._forget_at = now + FORGET_SECONDS * 1_000_000_000
        metadata = self._broker.metadata
        gone = {topic for topic in self.latencies.topics if metadata.find(topic) is None}
        if gone:
            self.latencies.forget_topics(gone)
