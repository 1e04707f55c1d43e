"""A view of two pipelines over the same messages: what a change of its SQL would change.

Both are read as tables, from the beginning or a time to the messages that are the newest now, and
nothing is written.  A window or an aggregate shows what it comes to in the end; what a stream drops
because it is late is counted here.
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.client.kafka import LATEST, KafkaClient
from goqueue.spark.pipelines.model import Pipeline, TopicSource
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.planning import Planner
from goqueue.spark.pipelines.tree import PipelineProblems, Problem
from goqueue.spark.sql.rows import plain_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN: Final = "_headers"  # has a type that sets of rows cannot have


class Side(msgspec.Struct, frozen=True):
    rows: int
    alone: int
    """Rows that the other side does not have."""
    examples: list[dict[str, Any]]
    columns: list[str]
    """Columns that the other side does not have; rows are compared without them."""


class Comparison(msgspec.Struct, frozen=True):
    view: str
    old: Side
    new: Side

    @property
    def is_equal(self) -> bool:
        return not any((self.old.alone, self.new.alone, self.old.columns, self.new.columns))


def compare(
    spark: "SparkSession",
    old: tuple[Pipeline, Places],
    new: tuple[Pipeline, Places],
    view: str,
    *,
    since_ms: int | None = None,
    examples: int = 5,
) -> Comparison:
    """Raises `PipelineProblems` where one of them cannot be read."""
    ends: dict[str, str] = {}
    before, after = (
        _frame(spark, pipeline, places, view, since_ms, ends) for pipeline, places in (old, new)
    )
    shared = [each for each in before.columns if each in after.columns and each != OWN]
    return Comparison(
        view,
        _side(before, after, shared, examples),
        _side(after, before, shared, examples),
    )


def _side(one: "DataFrame", other: "DataFrame", shared: list[str], examples: int) -> Side:
    quoted = [f"`{each}`" for each in shared]
    alone = one.select(*quoted).exceptAll(other.select(*quoted)).persist()
    try:
        return Side(
            one.count(),
            alone.count(),
            plain_rows(alone.limit(examples).collect()),
            [each for each in one.columns if each not in other.columns],
        )
    finally:
        alone.unpersist()


def _frame(
    spark: "SparkSession",
    pipeline: Pipeline,
    places: Places,
    view: str,
    since_ms: int | None,
    ends: dict[str, str],
) -> "DataFrame":
    sources = {
        name: _as_table(each, places, since_ms, ends) if isinstance(each, TopicSource) else each
        for name, each in pipeline.sources.items()
    }
    planner = Planner(spark, msgspec.structs.replace(pipeline, sources=sources), places)
    try:
        planner.see_sources()
        planner.see_steps()
    finally:
        planner.forget()
    if planner.problems:
        raise PipelineProblems(planner.problems)
    if view not in planner.views:
        known = ", ".join(planner.views)
        raise PipelineProblems([Problem("", f"there is no source or step {view!r}: {known}")])
    return planner.views[view]


def _as_table(
    source: TopicSource, places: Places, since_ms: int | None, ends: dict[str, str]
) -> TopicSource:
    limits = {"endingOffsets": _ends(source, places, ends)}
    options = {name: each for name, each in source.options.items() if name not in limits}
    if since_ms is not None:
        limits |= {
            "startingTimestamp": str(since_ms),
            "startingOffsetsByTimestampStrategy": "latest",  # a partition may have none since
        }
    return msgspec.structs.replace(
        source,
        read="once",
        watermark=None,
        from_="earliest",
        max_messages=None,
        max_bytes=None,
        options={**options, **limits},
    )


def _ends(source: TopicSource, places: Places, known: dict[str, str]) -> str:
    """The same for both sides, though messages come meanwhile."""
    if source.pattern is not None:
        return "latest"
    topics = source.topics or [source.topic or ""]
    name = ",".join(topics)
    if name not in known:
        with KafkaClient(places.bootstrap) as client:
            layouts = client.metadata(topics)
            parts = [each for layout in layouts.values() for each in layout.partitions]
            latest = client.list_offsets(dict.fromkeys(parts, LATEST))
        ends: dict[str, dict[str, int]] = {}
        for where, found in latest.items():
            ends.setdefault(where.topic, {})[str(where.partition)] = found.offset
        known[name] = msgspec.json.encode(ends).decode()
    return known[name]
