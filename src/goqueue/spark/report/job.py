"""Makes a report: reads topics with Spark, asks the server for groups, writes page and tables."""

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client import Client
from goqueue.spark.dlq.table import read_dead_letters
from goqueue.spark.report import measures
from goqueue.spark.report.figures import GroupFigures, ReportFigures, Row, TopicFigures
from goqueue.spark.report.options import ReportOptions
from goqueue.spark.report.page import page

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS_MAX: Final = 120
BUCKET_SECONDS: Final = (1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400, 604_800)
GROUPS_MAX: Final = 1_000  # that are asked how far behind they are
HEADERS: Final = ", headers array<struct<key: string, value: binary>>"
SCHEMA: Final = "key binary, value binary, partition int, timestamp timestamp"

Say = Callable[[str], None]


def make_report(
    session: "SparkSession",
    client: Client,
    options: ReportOptions,
    *,
    now: datetime.datetime,
    say: Say = lambda _: None,
) -> ReportFigures:
    """What the topics are like; `say` hears what is being done."""
    lags = _lags(client, options.topics, now)
    topics: list[TopicFigures] = []
    for topic in options.topics:
        say(f"reading {topic}")
        messages = measures.with_latency(_messages(session, topic, options), options.origin)
        totals = _rows(measures.totals(messages, options.sla_ms))[0]
        bucket_seconds = options.bucket_seconds or bucket_for(totals)
        timeline = measures.timeline(messages, bucket_seconds, options.sla_ms)
        topics.append(
            TopicFigures(
                topic=topic,
                totals=totals,
                bucket_seconds=bucket_seconds,
                timeline=_rows(timeline),
                partitions=_rows(measures.partitions(messages)),
                hot_keys=_rows(measures.hot_keys(messages, options.keys)),
                dead_letters=_dead_letters(session, client, topic, options),
                groups=lags[topic],
            )
        )
    return ReportFigures(
        server=client.base_url,
        made_at=now,
        period=_period(options),
        sla_ms=options.sla_ms,
        origin=options.origin,
        topics=topics,
    )


def write_report(figures: ReportFigures, directory: Path) -> Path:
    """`index.html` and the tables in Parquet; gives the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("totals", "timeline", "partitions", "hot_keys", "dead_letters"):
        _write_table(directory / f"{name}.parquet", _table_rows(figures, name))
    lag = [
        {"topic": topic.topic, **msgspec.structs.asdict(group), "partitions": len(group.partitions)}
        for topic in figures.topics
        for group in topic.groups
    ]
    _write_table(directory / "lag.parquet", lag)
    target = directory / "index.html"
    target.write_text(page(figures), encoding="utf-8")
    return target


def bucket_for(totals: Row) -> int:
    """The shortest step of time of which there are not too many."""
    first, last = totals.get("first"), totals.get("last")
    if not isinstance(first, datetime.datetime) or not isinstance(last, datetime.datetime):
        return BUCKET_SECONDS[0]
    seconds = (last - first).total_seconds()
    fitting = (each for each in BUCKET_SECONDS if seconds / each <= BUCKETS_MAX)
    return next(fitting, BUCKET_SECONDS[-1])


def _messages(session: "SparkSession", topic: str, options: ReportOptions) -> "DataFrame":
    with_headers = options.origin is not None and options.origin.startswith("header:")
    reader = (
        session.read.format("goqueue")
        .option("bootstrap.servers", options.servers)
        .option("subscribe", topic)
        .option("includeHeaders", with_headers)
        .schema(SCHEMA + HEADERS if with_headers else SCHEMA)
    )
    if options.from_ms is not None:
        reader = reader.option("startingTimestamp", options.from_ms)
        # A partition may have none since.
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    if options.to_ms is not None:
        reader = reader.option("endingTimestamp", options.to_ms)
    return reader.load()


def _dead_letters(
    session: "SparkSession", client: Client, topic: str, options: ReportOptions
) -> list[Row]:
    messages = read_dead_letters(session, client, topic, options.servers)
    return [] if messages is None else _rows(measures.dead_letters(messages))


def _rows(frame: "DataFrame") -> list[Row]:
    return [row.asDict() for row in frame.collect()]


def _period(options: ReportOptions) -> str:
    start = "the beginning" if options.from_ms is None else _moment(options.from_ms)
    end = "now" if options.to_ms is None else _moment(options.to_ms)
    return f"from {start} to {end}"


def _moment(at_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S")


# --- groups --------------------------------------------------------------------------------------


def _lags(
    client: Client, topics: Iterable[str], now: datetime.datetime
) -> dict[str, list[GroupFigures]]:
    found: dict[str, list[GroupFigures]] = {topic: [] for topic in topics}
    for summary in client.groups()[:GROUPS_MAX]:
        lag = client.group_lag(summary.id)
        for topic, figures in found.items():
            partitions = [each for each in lag.partitions if each.topic == topic]
            if partitions:
                behind = [each for each in partitions if each.lag > 0]
                oldest = [
                    _find_publish_time(
                        client, topic, each.partition, each.committed or each.earliest
                    )
                    for each in behind
                ]
                waits = [now.timestamp() * 1000 - at for at in oldest if at is not None]
                figures.append(
                    GroupFigures(
                        group=summary.id,
                        state=lag.state,
                        lag=sum(each.lag for each in partitions),
                        waiting_ms=max(waits, default=None),
                        partitions=tuple((each.partition, each.lag) for each in partitions),
                    )
                )
    for figures in found.values():
        figures.sort(key=lambda each: (-each.lag, each.group))
    return found


def _find_publish_time(client: Client, topic: str, partition: int, offset: int) -> int | None:
    messages = client.fetch(topic, partition, offset=offset, limit=1).messages
    return messages[0].timestamp if messages else None


# --- files ---------------------------------------------------------------------------------------


def _table_rows(figures: ReportFigures, name: str) -> list[Row]:
    rows: list[Row] = []
    for topic in figures.topics:
        found: Row | list[Row] = getattr(topic, name)
        several = found if isinstance(found, list) else [found]
        rows += [{"topic": topic.topic, **row} for row in several]
    return rows


def _write_table(path: Path, rows: list[Row]) -> None:
    """An empty table has no columns to write: then there is no file."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if rows:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.unlink(missing_ok=True)
