"""`goqueue pipeline replay`: an archive, or a range of a topic, written to a topic, exactly once.

    replay(session, ReplayOptions(bootstrap="localhost:9092", archive="lake/orders",
                                  to="orders-again", choice=Choice(where="price > 100")))

Messages keep their keys, headers, partitions, order and times.  The rows of a window of offsets are
one transaction, and version `k` of the application with the replay's name (`txnAppId`,
`txnVersion`): started again after a crash, with the same options, it goes on behind the last one.
"""

import hashlib
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client.kafka import KafkaClient
from goqueue.spark.lake.roots import normalize
from goqueue.spark.replay import target
from goqueue.spark.replay.options import ReplayOptions
from goqueue.spark.replay.plans import VERSION, Plan, PlanFile, ReplayRefused
from goqueue.spark.replay.sources import ArchiveSource, ReplaySource, TopicSource
from goqueue.spark.replay.windows import Span, Window, windows
from goqueue.spark.sink.group import Group, Version
from goqueue.spark.sink.options import application_of
from goqueue.spark.source.options import TIMEOUT_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTHING: Final = {0: Span(0, 1)}

Say = Callable[[str], None]


class Replayed(msgspec.Struct, frozen=True):
    name: str
    windows: int
    """Written in this run."""
    messages: int
    """Of these windows."""
    was_finished: bool = False
    """The same replay was done before: nothing was written."""


def replay(session: "SparkSession", options: ReplayOptions, say: Say = lambda _: None) -> Replayed:
    """Do it, or what is left of it."""
    name = options.name or _name(options)
    source = _source(session, options)
    source.rows(NOTHING)  # Spark looks at the SQL now, before anything is written down
    file = PlanFile(options.state, name)
    plan = file.find_or_make(_describe(options), lambda: _plan(source, options))
    if plan.finished:
        return Replayed(name, 0, 0, was_finished=True)
    with KafkaClient(options.bootstrap) as client:
        _prepare_target(client, plan, source, options)
        done = max(plan.done, _last_version(client, name, options))
    messages = count = 0
    for window in windows(plan.spans, plan.window, after=done):
        messages += _write(source.rows(window.spans), window, name, options)
        count += 1
        plan = file.note(plan, done=window.number, finished=False)
        say(f"{messages} messages of {count} windows")
    file.note(plan, done=plan.done, finished=True)
    return Replayed(name, count, messages)


def _plan(source: ReplaySource, options: ReplayOptions) -> Plan:
    return Plan(VERSION, _describe(options), source.spans(), options.window)


def _write(rows: "DataFrame", window: Window, name: str, options: ReplayOptions) -> int:
    """Write a window; gives how many messages it has."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    seen = Observation(f"{name}-{window.number}-{uuid.uuid4().hex}")
    # A partition is written by one task, in the order of its offsets.
    tasks = min(len(window.spans), rows.sparkSession.sparkContext.defaultParallelism)
    ordered = rows.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")
    counted = ordered.observe(seen, sql.count(sql.lit(1)).alias("messages"))
    writer = counted.select(*_columns(options)).write.format("goqueue").mode("append")
    writer = writer.option("bootstrap.servers", options.bootstrap).option("topic", options.to)
    if options.http is not None:
        writer = writer.option("goqueue.http", options.http)
    writer.option("txnAppId", name).option("txnVersion", window.number).save()
    return int(seen.get["messages"])


def _columns(options: ReplayOptions) -> list[str]:
    columns = ["key", "value", "headers"]
    columns += ["partition"] if options.partitions == "keep" else []
    columns += ["timestamp"] if options.times == "keep" else []
    return columns


def _prepare_target(
    client: KafkaClient, plan: Plan, source: ReplaySource, options: ReplayOptions
) -> None:
    if not plan.spans:
        return
    wanted = max(plan.spans) + 1
    is_new = target.make_if_missing(client, options.to, wanted)
    if options.partitions == "keep":
        target.check_partitions(client, options.to, wanted)
    if options.times == "keep" and not is_new and plan.done < 0:
        oldest = _oldest(source.times(plan.spans))
        if oldest is not None:
            target.check_age(client, options.to, oldest, datetime.now(UTC))


def _oldest(times: "DataFrame") -> datetime | None:
    from pyspark.sql import functions as sql

    found = times.agg(sql.min(sql.unix_micros("timestamp"))).first()
    microseconds = None if found is None else found[0]
    return None if microseconds is None else datetime.fromtimestamp(microseconds / 1e6, UTC)


def _last_version(client: KafkaClient, name: str, options: ReplayOptions) -> int:
    """What the broker knows to be written; whoever else does this replay is stopped."""
    with Group(options.http or client.http_url(), TIMEOUT_MS, client.login) as group:
        version = Version(application_of(name, options.to), 0, uuid.uuid4().hex)
        return group.start_run(version).last_version


def _source(session: "SparkSession", options: ReplayOptions) -> ReplaySource:
    if (options.archive is None) == (options.topic is None):
        raise ReplayRefused("name an archive to replay, or a topic")
    if options.archive is not None:
        from goqueue.spark.archive.tables import open_archive

        archive = open_archive(options.archive, options.catalog)
        return ArchiveSource(session, archive, options.choice)
    assert options.topic is not None, "one of the two"
    bootstrap = options.source_bootstrap or options.bootstrap
    return TopicSource(session, bootstrap, options.topic, options.choice)


def _describe(options: ReplayOptions) -> dict[str, str]:
    """Everything that makes it this replay and no other."""
    archive = None if options.archive is None else normalize(options.archive)
    told = {
        "archive": archive,
        "catalog": options.catalog,
        "topic": options.topic,
        "source_bootstrap": options.source_bootstrap,
        "to": options.to,
        "partitions": options.partitions,
        "times": options.times,
        "window": options.window,
        **msgspec.structs.asdict(options.choice),
    }
    return {name: str(value) for name, value in told.items() if value not in (None, ())}


def _name(options: ReplayOptions) -> str:
    text = msgspec.json.encode(_describe(options), order="sorted")
    return f"replay-{options.to}-{hashlib.sha256(text).hexdigest()[:12]}"
