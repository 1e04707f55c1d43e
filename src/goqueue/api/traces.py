"""Journeys of messages as JSON."""

from typing import Final, Literal

import msgspec

LISTED_MAX: Final = 1_000
TraceStatus = Literal["completed", "pending", "error", "retrying", "delayed", "expired"]
Space = Literal["data", "delays"]


class LinkBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the message goes on."""

    topic: str
    partition: int
    offset: int
    space: Space = "data"


class SpanBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a message."""

    event_type: str
    """`publish.received`, `.validated`, `.persisted`, `.rejected`; `consume.fetched`, `.acked`,
    `.nacked`, `.rejected`, `.released`; `visibility.timeout`, `.extended`; `retry.scheduled`;
    `delay.scheduled`, `.ready`, `.cancelled`, `.expired`; `dlq.routed`, `.redriven`;
    `txn.committed`, `.aborted`; `leader.changed` and `group.rebalanced` for context."""
    timestamp: str | int | None
    span_id: str
    topic: str
    partition: int
    offset: int
    parent_span_id: str = ""
    space: Space = "data"
    """`delays`: the offset is one of the partition's delay log."""
    node: int | None = None
    """That saw it; null when only the log tells of it."""
    consumer_group: str = ""
    consumer_id: str = ""
    """Member or worker."""
    client_id: str = ""
    address: str = ""
    duration_us: int | None = None
    """Since the message was received."""
    attempt: int = 0
    """Which delivery it is; of a rebalance or a new leader, the epoch."""
    until: str | int | None = None
    """When a delivery's time is over, or a message is visible or due again."""
    error: str = ""
    detail: str = ""
    link: LinkBody | None = None
    derived: bool = False
    """No event tells of it any more: it is read from the log."""


class TraceSummary(msgspec.Struct, frozen=True):
    trace_id: str
    topic: str
    partition: int
    offset: int
    """-1: the message was refused."""
    space: Space
    start_time: str | int | None
    end_time: str | int | None
    duration_ms: float
    status: TraceStatus
    span_count: int
    last_event: str


class TraceBody(msgspec.Struct, frozen=True):
    """The journey of one message."""

    trace_id: str
    parent_span_id: str | None
    """Of the producer's `traceparent`."""
    topic: str
    partition: int
    offset: int
    space: Space
    status: TraceStatus
    start_time: str | int | None
    end_time: str | int | None
    duration_ms: float
    groups: dict[str, TraceStatus]
    """What became of it in each group, as far as its steps tell."""
    spans: list[SpanBody]
    missing_nodes: list[int] = []
    """Nodes that did not answer: what only they saw is not here."""


class TracePage(msgspec.Struct, frozen=True):
    traces: list[TraceSummary]
    """The newest first."""
    total: int
    whole: bool
    """False: there may be more that match."""
    query: dict[str, str | int | None] = {}
    missing_nodes: list[int] = []


class TraceEventBody(msgspec.Struct, frozen=True):
    """What happened to the messages from `first` to `last`."""

    time_us: int
    event: str
    topic: str
    partition: int
    first: int
    """-1: the messages were refused, and have no offset."""
    last: int
    space: Space
    node: int
    group: str = ""
    member: str = ""
    client: str = ""
    address: str = ""
    duration_us: int = -1
    """Of a publish: until it was durable; -1: not known, or another event tells."""
    attempt: int = 0
    error: str = ""
    detail: str = ""


class TraceEventPage(msgspec.Struct, frozen=True):
    events: list[TraceEventBody]
    """In the order of time."""
    whole: bool
    """False: there were more, and the oldest are missing: ask for less time."""
    missing_nodes: list[int] = []


class TraceNodeStats(msgspec.Struct, frozen=True):
    node: int
    enabled: bool
    spans_in_buffer: int
    """Events: one stands for a whole batch, fetch or run of acks."""
    buffer_capacity: int
    recorded_total: int
    dropped_total: int
    """Events that were not written to the history, since it did not keep up."""
    pending: int
    history: bool
    written_total: int
    written_bytes: int
    sampling_rate: float
    exporters_enabled: list[str]


class TraceStats(msgspec.Struct, frozen=True):
    enabled: bool
    spans_in_buffer: int
    buffer_capacity: int
    recorded_total: int
    dropped_total: int
    sampling_rate: float
    exporters_enabled: list[str]
    nodes: list[TraceNodeStats]
    missing_nodes: list[int] = []
