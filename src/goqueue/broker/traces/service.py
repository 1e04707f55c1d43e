"""Where did my message go?  The verbs that all listeners share, at any node.

Traces
  recorder     what happens here: a ring of the newest events, and what is pending
  history      `__traces`: written in the background, read for questions
  gathering    the same question, put to all nodes
  sources      what the logs themselves say of a message
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.traces.history import FoundEvents
from goqueue.broker.traces.sources import MessageSource, MessageSources
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.trace.errors import TraceNotFound
from goqueue.trace.events import Place, Space, Step, TraceEvent, in_order
from goqueue.trace.ids import TraceParent, parse_derived, parse_refused
from goqueue.trace.journeys import Journey, assemble, refusal
from goqueue.trace.lookup import Lookup
from goqueue.trace.selection import Selection, TraceQuery, select

PLACES_MAX: Final = 16  # of one message: dead letters may be redriven again and again


class EventsHere(Verb[FoundEvents], frozen=True):
    """Of the node's ring, and of the history that it leads."""

    name = "trace_events"
    reply_type = FoundEvents

    lookup: Lookup
    ring_only: bool = False


class TraceFigures(msgspec.Struct, frozen=True):
    node: int
    enabled: bool
    events_in_buffer: int
    buffer_capacity: int
    recorded_total: int
    dropped_total: int
    pending: int
    history: bool
    written_total: int
    written_bytes: int
    sample_rate: float
    exporters: list[str] = []


class FiguresHere(Verb[TraceFigures], frozen=True):
    name = "trace_figures"
    reply_type = TraceFigures


class Found(msgspec.Struct, frozen=True):
    """Journeys, and what is missing of them."""

    selection: Selection
    missing: list[NodeId]


class FoundJourney(msgspec.Struct, frozen=True):
    journey: Journey
    missing: list[NodeId]


class Traces:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.recorder = broker.recorder
        self.history = broker.trace_history
        self._sources = MessageSources(broker)
        if broker.others is not None:
            self.history.serve(broker.others)
            broker.others.serve(EventsHere, self._events_here)
            broker.others.serve(FiguresHere, self._figures_here)

    # --- one message ------------------------------------------------------------------------------

    async def journey(self, topic: str, partition: int, offset: int) -> FoundJourney:
        """Of the message at this place; raises `TraceNotFound`."""
        found = self._broker.topic(topic)
        found.check_partition(partition)
        place = Place(found.topic_id.bytes, partition, offset)
        return await self._follow(place, found.name)

    async def find(self, trace_id: str) -> FoundJourney:
        """By a trace id of the message, or one that names its place; raises `TraceNotFound`."""
        refused = parse_refused(trace_id)
        if refused is not None:
            events, missing, _ = await self._gather(Lookup(refused=refused))
            if events:
                return FoundJourney(refusal(events[0]), missing)
        derived = parse_derived(trace_id)
        for topic in () if derived is None else self._broker.topics():
            if derived is not None and topic.topic_id.bytes[:4] == derived.topic_prefix:
                place = Place(
                    topic.topic_id.bytes, derived.partition, derived.offset, derived.space
                )
                return await self._follow(place, topic.name)
        events, missing, _ = await self._gather(Lookup(trace_id=trace_id))
        if not events:
            raise TraceNotFound(
                f"no message with trace id {trace_id} is known: it may be older than the history"
                " (setting traces.retention_ms), or its topic is not traced"
            )
        first = events[0]
        place = Place(first.topic_id, first.partition, first.first, first.space)
        return await self._follow(place, first.topic)

    async def _follow(self, place: Place, topic: str) -> FoundJourney:
        """Gather the events of all places that the message was at."""
        known, fresh = dict[Place, None](), [place]
        events, missing = dict[tuple[int, int, int], TraceEvent](), set[NodeId]()
        sources = list[MessageSource]()
        while fresh and len(known) < PLACES_MAX:
            known.update(dict.fromkeys(fresh))
            some, absent, _ = await self._gather(Lookup(places=fresh))
            events.update((event.key, event) for event in some)
            missing.update(absent)
            found = [await self._sources.find(each) for each in fresh]
            sources += [each for each in found if each is not None]
            linked = _find_links(events.values(), fresh) + [
                each.origin for each in sources if each.origin is not None
            ]
            fresh = [each for each in dict.fromkeys(linked) if each not in known]
        if not events and not sources:
            raise TraceNotFound(_nothing_known(place, topic))
        every = list(events.values())
        journey = self._assemble(place, topic, every, list(known), sources)
        if journey.groups:
            around = Lookup(
                groups=list(journey.groups), start_us=journey.start_us, end_us=journey.end_us
            )
            some, absent, _ = await self._gather(around)
            missing.update(absent)
            if some:
                journey = self._assemble(place, topic, every + some, list(known), sources)
        return FoundJourney(journey, sorted(missing))

    def _assemble(
        self,
        place: Place,
        topic: str,
        events: Sequence[TraceEvent],
        places: Sequence[Place],
        sources: Sequence[MessageSource],
    ) -> Journey:
        parent: TraceParent | None = next((each.parent for each in sources if each.parent), None)
        derived = [step for source in sources for step in source.missing_steps(events)]
        return assemble(place, topic, events, places, parent, derived)

    # --- many -------------------------------------------------------------------------------------

    async def recent(self, query: TraceQuery) -> Found:
        """The newest: those that the rings of all nodes know, and of the history if that is few."""
        lookup = Lookup(query=query, start_us=query.start_us, end_us=query.end_us)
        events, missing, is_whole = await self._gather(lookup, ring_only=True)
        found = await self._select(events, query)
        if len(found.journeys) < query.limit and found.is_whole:
            return await self.search(query)
        return Found(msgspec.structs.replace(found, is_whole=found.is_whole and is_whole), missing)

    async def search(self, query: TraceQuery) -> Found:
        lookup = Lookup(query=query, start_us=query.start_us, end_us=query.end_us)
        events, missing, is_whole = await self._gather(lookup)
        found = await self._select(events, query)
        return Found(msgspec.structs.replace(found, is_whole=found.is_whole and is_whole), missing)

    async def _select(self, events: list[TraceEvent], query: TraceQuery) -> Selection:
        disk = self._broker.environment.disk
        return await disk.in_background(lambda: select(events, query))

    async def events(self, query: TraceQuery) -> tuple[list[TraceEvent], list[NodeId], bool]:
        """In the order of time, without those that only serve look-ups; False: not all."""
        lookup = Lookup(query=query, start_us=query.start_us, end_us=query.end_us)
        found, missing, is_whole = await self._gather(lookup)
        return [each for each in found if each.step != Step.TRACE_LINKED], missing, is_whole

    async def search_key(self, query: TraceQuery, key: bytes) -> Found:
        """Messages with this key, of the query's topic; the newest first."""
        topic = self._broker.topic(query.topic)
        offsets, is_whole = await self._sources.with_key(topic, key, query)
        journeys, missing = list[Journey](), set[NodeId]()
        for partition, offset in offsets:
            place = Place(topic.topic_id.bytes, partition, offset)
            found = await self._follow(place, topic.name)
            missing.update(found.missing)
            if query.matches(found.journey):
                journeys.append(found.journey)
            if len(journeys) >= query.limit:
                break
        return Found(Selection(journeys, len(offsets), is_whole), sorted(missing))

    # --- all nodes --------------------------------------------------------------------------------

    async def figures(self) -> tuple[list[TraceFigures], list[NodeId]]:
        others = self._broker.others
        if others is None:
            return [self.figures_here()], []
        answers = await others.ask_each(dict.fromkeys(self._nodes(others), FiguresHere()))
        found = [each for each in answers.values() if not isinstance(each, GoQueueError)]
        return found, [node for node, each in answers.items() if isinstance(each, GoQueueError)]

    async def _gather(
        self, lookup: Lookup, *, ring_only: bool = False
    ) -> tuple[list[TraceEvent], list[NodeId], bool]:
        """In the order of time, each once; and the nodes that did not answer."""
        others, verb = self._broker.others, EventsHere(lookup, ring_only)
        missing, found, is_whole = list[NodeId](), dict[tuple[int, int, int], TraceEvent](), True
        if others is None:
            answers: dict[NodeId, FoundEvents | GoQueueError] = {
                NodeId(0): await self._events_here(NodeId(0), verb)
            }
        else:
            answers = await others.ask_each(dict.fromkeys(self._nodes(others), verb))
        for node, answer in answers.items():
            if isinstance(answer, GoQueueError):
                missing.append(node)
                continue
            is_whole &= answer.is_whole
            for event in answer.events:
                known = found.get(event.key)
                if known is None or event.duration_us > known.duration_us:  # of a publish
                    found[event.key] = event
        return in_order(list(found.values())), missing, is_whole

    def _nodes(self, others: OtherNodes) -> tuple[NodeId, ...]:
        return (others.node_id, *others.live)

    async def _events_here(self, _: NodeId, verb: EventsHere) -> FoundEvents:
        recorder = self.recorder
        mine = verb.lookup.pick(itertools.chain(recorder.links, recorder.ring))
        if verb.ring_only:
            return FoundEvents(mine)
        kept = await self.history.find(verb.lookup)
        return FoundEvents([*kept.events, *mine], kept.is_whole)

    async def _figures_here(self, _: NodeId, __: FiguresHere) -> TraceFigures:
        return self.figures_here()

    def figures_here(self) -> TraceFigures:
        recorder, config = self.recorder, self.recorder.config
        return TraceFigures(
            recorder.node_id,
            recorder.is_enabled,
            len(recorder.ring),
            config.buffer_events,
            recorder.recorded_total,
            recorder.dropped_total,
            len(recorder.pending),
            config.history,
            self.history.written_total,
            self.history.written_bytes,
            config.sample_rate,
            self.history.exporters,
        )


def _find_links(events: Iterable[TraceEvent], places: Sequence[Place]) -> list[Place]:
    """Where messages at these places go on, and where they were before."""
    found = list[Place]()
    for event in events:
        for place in places:
            if event.holds(place):
                link = event.link_of(place.offset)
                if link is not None and link.topic_id:
                    found.append(link)
            elif event.leads_to(place):
                found.append(event.source_of(place))
    return found


def _nothing_known(place: Place, topic: str) -> str:
    what = "delayed message" if place.space == Space.DELAYS else "message"
    return (
        f"nothing is known of {what} {place.offset} in {topic}-{place.partition}: it was never"
        " there, or it and its events are deleted (retention.ms, traces.retention_ms)"
    )
