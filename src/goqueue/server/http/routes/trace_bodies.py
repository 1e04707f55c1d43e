"""Journeys as the API shows them."""

from collections.abc import Sequence
from typing import Final

from goqueue.api.traces import (
    LinkBody,
    Space,
    SpanBody,
    TraceBody,
    TraceEventBody,
    TraceNodeStats,
    TraceStats,
    TraceSummary,
)
from goqueue.broker.traces.service import TraceFigures
from goqueue.model.times import time_text, time_text_us
from goqueue.trace.events import NAMES, UNKNOWN, Step, TraceEvent
from goqueue.trace.events import Space as SpaceNumber
from goqueue.trace.journeys import Journey, JourneyStep

SPACES: Final[dict[int, Space]] = {SpaceNumber.DATA: "data", SpaceNumber.DELAYS: "delays"}


def trace_body(journey: Journey, missing: Sequence[int]) -> TraceBody:
    return TraceBody(
        journey.trace_id,
        journey.parent_span_id or None,
        journey.topic,
        journey.partition,
        journey.offset,
        SPACES[journey.space],
        journey.status,
        time_text_us(journey.start_us),
        time_text_us(journey.end_us),
        journey.duration_us / 1000,
        dict(journey.groups),
        _spans(journey),
        list(missing),
    )


def _spans(journey: Journey) -> list[SpanBody]:
    """The first one's parent is the producer's span; the first one is the parent of the others."""
    found = list[SpanBody]()
    for step in journey.steps:
        parent = found[0].span_id if found else journey.parent_span_id
        found.append(_span(step, parent))
    return found


def _span(step: JourneyStep, parent: str) -> SpanBody:
    link = None
    if step.link_offset >= 0:
        space = SPACES[step.link_space]
        link = LinkBody(step.link_topic, step.link_partition, step.link_offset, space)
    return SpanBody(
        step.event,
        time_text_us(step.time_us),
        step.span_id,
        step.topic,
        step.partition,
        step.offset,
        parent,
        SPACES[step.space],
        None if step.node == UNKNOWN else step.node,
        step.group,
        step.member,
        step.client,
        step.address,
        None if step.duration_us < 0 else step.duration_us,
        step.attempt,
        None if step.until_ms < 0 else time_text(step.until_ms),
        step.error,
        step.detail,
        link,
        step.is_derived,
    )


def summary_body(journey: Journey) -> TraceSummary:
    return TraceSummary(
        journey.trace_id,
        journey.topic,
        journey.partition,
        journey.offset,
        SPACES[journey.space],
        time_text_us(journey.start_us),
        time_text_us(journey.end_us),
        journey.duration_us / 1000,
        journey.status,
        len(journey.steps),
        journey.steps[-1].event if journey.steps else "",
    )


def event_body(event: TraceEvent) -> TraceEventBody:
    return TraceEventBody(
        event.time_us,
        NAMES[Step(event.step)],
        event.topic,
        event.partition,
        event.first,
        event.last,
        SPACES[event.space],
        event.node,
        event.group,
        event.member,
        event.client,
        event.address,
        event.duration_us,
        event.attempt,
        event.error,
        event.detail,
    )


def stats_body(figures: Sequence[TraceFigures], missing: Sequence[int]) -> TraceStats:
    nodes = [
        TraceNodeStats(
            each.node,
            each.enabled,
            each.events_in_buffer,
            each.buffer_capacity,
            each.recorded_total,
            each.dropped_total,
            each.pending,
            each.history,
            each.written_total,
            each.written_bytes,
            each.sample_rate,
            each.exporters,
        )
        for each in sorted(figures, key=lambda each: each.node)
    ]
    return TraceStats(
        any(each.enabled for each in nodes),
        sum(each.spans_in_buffer for each in nodes),
        sum(each.buffer_capacity for each in nodes),
        sum(each.recorded_total for each in nodes),
        sum(each.dropped_total for each in nodes),
        max((each.sampling_rate for each in nodes), default=0.0),
        sorted({name for each in nodes for name in each.exporters_enabled}),
        nodes,
        list(missing),
    )
