"""What a report found out, as plain values: the page and the files are made of these."""

import datetime

import msgspec

Row = dict[str, object]


class GroupFigures(msgspec.Struct, frozen=True):
    """How far behind a group is in one topic."""

    group: str
    state: str
    lag: int  # messages
    waiting_ms: float | None  # since the oldest message that it has not read was published
    partitions: tuple[tuple[int, int], ...]  # partition and lag


class TopicFigures(msgspec.Struct, frozen=True):
    topic: str
    totals: Row
    bucket_seconds: int  # of the timeline
    timeline: list[Row]
    partitions: list[Row]
    hot_keys: list[Row]
    dead_letters: list[Row]
    groups: list[GroupFigures]


class ReportFigures(msgspec.Struct, frozen=True):
    server: str
    made_at: datetime.datetime
    period: str
    sla_ms: float | None
    origin: str | None
    topics: list[TopicFigures]
