"""What makes no sense in a pipeline, as far as that can be said without Spark and a broker."""

import re
from typing import Final

from goqueue.model.durations import parse_duration_ms
from goqueue.model.errors import InvalidName
from goqueue.model.names import topic_name
from goqueue.model.times import parse_time
from goqueue.spark.lake.roots import StoreError, is_remote, normalize
from goqueue.spark.pipelines.expectations import expectations_of, topics_of
from goqueue.spark.pipelines.model import (
    Alerts,
    ArchiveSink,
    BadTopic,
    ConsoleSink,
    FileSink,
    FileSource,
    Pipeline,
    Sink,
    Step,
    TableSink,
    TopicSink,
    TopicSource,
    Watermark,
)
from goqueue.spark.pipelines.suggestions import suggestion
from goqueue.spark.pipelines.tree import Path, Tree

AVAILABLE_NOW: Final = "available-now"
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")  # goes into SQL without quotes
PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # and into paths
ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/]+):\d{1,5}")
WEBHOOK: Final = re.compile(r"https?://[^\s/]+\S*")
CONSOLE_ROWS_MAX: Final = 10_000
PARTITIONS_MAX: Final = 10_000


def check(pipeline: Pipeline, tree: Tree) -> None:
    """Adds what it finds to the tree's problems."""
    _check_head(pipeline, tree)
    _check_names(tree)
    for name, source in pipeline.sources.items():
        if isinstance(source, TopicSource):
            _check_topic_source(source, ("sources", name), tree)
    for name, step in pipeline.steps.items():
        _check_watermark(step.watermark, ("steps", name), tree)
        _check_expectations(step, ("steps", name), tree)
        if not step.sql.strip():
            tree.problem(("steps", name), "has no SQL")
    for name, sink in pipeline.sinks.items():
        _check_sink(sink, pipeline, ("sinks", name), tree)
    _check_targets(pipeline, tree)


def _check_head(pipeline: Pipeline, tree: Tree) -> None:
    if not pipeline.name:
        tree.problem(("name",), "is missing")
    elif not PIPELINE_NAME.fullmatch(pipeline.name):
        tree.problem(("name",), "must be letters, digits, `.`, `_` and `-`")
    for each in (pipeline.bootstrap or "").split(",") if pipeline.bootstrap is not None else ():
        if not ADDRESS.fullmatch(each.strip()):
            tree.problem(("bootstrap",), f"{each!r} is not HOST:PORT")
    _check_trigger(pipeline.trigger, (), tree)
    _check_alerts(pipeline.alerts, tree)
    for name in pipeline.settings:
        if not name.startswith("spark."):
            tree.problem(("settings", name), "Spark's settings begin with `spark.`")


def _check_alerts(alerts: Alerts | None, tree: Tree) -> None:
    if alerts is None:
        return
    _check_duration(alerts.fresh, ("alerts", "fresh"), tree)
    volume = alerts.volume
    if volume is not None:
        _check_duration(volume.per, ("alerts", "volume", "per"), tree)
        if volume.rows_min is None and volume.rows_max is None:
            tree.problem(("alerts", "volume"), "give `rows_min`, `rows_max`, or both")
        elif (volume.rows_min or 0) > (volume.rows_max or volume.rows_min or 0):
            tree.problem(("alerts", "volume", "rows_max"), "is less than `rows_min`")
    if alerts.fresh is None and volume is None:
        tree.problem(("alerts",), "give `fresh`, `volume`, or both")
    if alerts.webhook is not None and not WEBHOOK.fullmatch(alerts.webhook):
        tree.problem(("alerts", "webhook"), "must be a URL that begins with http:// or https://")


def _check_names(tree: Tree) -> None:
    """SQL does not tell `orders` from `Orders`."""
    seen: dict[str, str] = {}
    for section in ("sources", "steps"):
        for name in tree.names(section):
            path = (section, name)
            if not NAME.fullmatch(name):
                tree.problem(path, "a name in SQL must match [A-Za-z][A-Za-z0-9_]*")
            if name.lower() in seen:
                tree.problem(path, f"{seen[name.lower()]} has this name already")
            seen.setdefault(name.lower(), f"{section}.{name}")
    for name in tree.names("sinks"):
        if not PIPELINE_NAME.fullmatch(name):
            tree.problem(("sinks", name), "must be letters, digits, `.`, `_` and `-`")


# --- sources --------------------------------------------------------------------------------------


def _check_topic_source(source: TopicSource, path: Path, tree: Tree) -> None:
    for each in source.topics if source.topic is None else [source.topic]:
        _check_topic(each, (*path, "topic" if source.topic else "topics"), tree)
    if source.topic is None and source.pattern is None and not source.topics:
        tree.problem((*path, "topics"), "names none")
    _check_pattern(source.pattern, (*path, "pattern"), tree)
    _check_format(source, path, tree)
    _check_start(source.from_, (*path, "from"), tree)
    _check_watermark(source.watermark, path, tree)
    _check_expectations(source, path, tree)
    if source.read == "once":
        _check_table(source, path, tree)
    for name, limit in (("max_messages", source.max_messages), ("max_bytes", source.max_bytes)):
        if limit is not None and limit < 1:
            tree.problem((*path, name), "must be at least 1")
    if source.max_messages is not None and source.max_bytes is not None:
        tree.problem((*path, "max_bytes"), "give this or `max_messages`")


def _check_pattern(pattern: str | None, path: Path, tree: Tree) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        tree.problem(path, f"not a regular expression: {error}")


def _check_format(source: TopicSource, path: Path, tree: Tree) -> None:
    if source.format == "json" and source.schema is None:
        tree.problem(
            (*path, "schema"),
            "JSON needs the columns, as `id bigint, at timestamp`;"
            ' `goqueue pipeline sql "describe TOPIC"` proposes some',
        )
    is_typed = source.format == "registry"
    if source.schema is not None and source.format in ("text", "binary", "registry"):
        tree.problem((*path, "schema"), f"belongs to JSON; the format is {source.format}")
    if source.schema is None and not is_typed and source.bad != "fail":
        tree.problem((*path, "bad"), "only values with a schema can be bad")
    for name, given in (("subject", source.subject), ("version", source.version)):
        if given is not None and not is_typed:
            tree.problem((*path, name), "belongs to `format: registry`")
    if is_typed and source.subject is None and (source.pattern or len(source.topics) > 1):
        tree.problem((*path, "subject"), "is missing: several topics are read by one schema")
    if isinstance(source.bad, BadTopic):
        _check_topic(source.bad.topic, (*path, "bad", "topic"), tree)
        _check_partitions(source.bad.partitions, (*path, "bad"), tree)


def _check_expectations(view: TopicSource | Step, path: Path, tree: Tree) -> None:
    for name, each in expectations_of(view).items():
        here = (*path, "expect", name)
        if not NAME.fullmatch(name):
            tree.problem(here, "a name must match [A-Za-z][A-Za-z0-9_]*")
        if not each.sql.strip():
            tree.problem(here, "has no SQL")
    for name, target in topics_of(view):
        here = (*path, "expect", name, "otherwise")
        _check_topic(target.topic, (*here, "topic"), tree)
        _check_partitions(target.partitions, here, tree)


def _check_start(start: str, path: Path, tree: Tree) -> None:
    if start in ("earliest", "latest"):
        return
    try:
        parse_time(start)
    except ValueError as error:
        tree.problem(path, f"{error}, or earliest or latest")


def _check_table(source: TopicSource, path: Path, tree: Tree) -> None:
    """What is read whole has no micro-batches."""
    for name, given in (
        ("watermark", source.watermark is not None),
        ("max_messages", source.max_messages is not None),
        ("max_bytes", source.max_bytes is not None),
        ("bad", isinstance(source.bad, BadTopic)),
        ("expect", bool(dict(topics_of(source)))),
    ):
        if given:
            tree.problem((*path, name), "belongs to a stream, and this is read once")


# --- sinks ----------------------------------------------------------------------------------------


def _check_sink(sink: Sink, pipeline: Pipeline, path: Path, tree: Tree) -> None:
    _check_trigger(sink.trigger, path, tree)
    _check_origin(sink, pipeline, path, tree)
    match sink:
        case TopicSink():
            _check_topic(sink.topic, (*path, "topic"), tree)
            _check_partitions(sink.partitions, path, tree)
            if sink.subject is not None and sink.format != "registry":
                tree.problem((*path, "subject"), "belongs to `format: registry`")
        case ConsoleSink():
            if not 1 <= sink.console <= CONSOLE_ROWS_MAX:
                tree.problem((*path, "console"), f"how many rows: 1 to {CONSOLE_ROWS_MAX}")
        case ArchiveSink():
            _check_lake(sink, sink.archive, (*path, "archive"), tree)
        case TableSink():
            _check_lake(sink, sink.table, (*path, "table"), tree)
            _check_changes(sink, path, tree)
        case FileSink():
            pass


def _check_lake(sink: ArchiveSink | TableSink, place: str, path: Path, tree: Tree) -> None:
    catalog = (*path[:-1], "catalog")
    if sink.catalog is not None and sink.format != "iceberg":
        tree.problem(catalog, f"belongs to Iceberg; the format is {sink.format}")
    try:
        is_url = is_remote(normalize(place))
    except StoreError as error:
        tree.problem(path, str(error))
        return
    if is_url and sink.format == "iceberg" and sink.catalog is None:
        tree.problem(catalog, "is missing: Iceberg at a URL needs one")


def _check_changes(sink: TableSink, path: Path, tree: Tree) -> None:
    if not sink.keys:
        tree.problem((*path, "keys"), "names none: which columns tell one row from another?")
    if sink.cdc is not None and sink.delete is not None:
        tree.problem((*path, "delete"), "envelopes say themselves what was deleted")


def _check_origin(sink: Sink, pipeline: Pipeline, path: Path, tree: Tree) -> None:
    known = tree.names("sources", "steps")  # also what could not be read for another mistake
    here = (*path, "from")
    if sink.from_ not in known:
        tree.problem(
            here, f"there is no source or step {sink.from_!r}{suggestion(sink.from_, known)}"
        )
        return
    source = pipeline.sources.get(sink.from_)
    if isinstance(source, FileSource) or (source is not None and source.read == "once"):
        tree.problem(here, f"{sink.from_!r} is a table, and a sink needs a stream")
    elif isinstance(sink, ArchiveSink) and isinstance(source, TopicSource):
        if source.from_ not in ("earliest", "latest"):
            tree.problem(here, "an archive begins at earliest or latest, and this source at a time")
    elif isinstance(sink, ArchiveSink) and sink.from_ in pipeline.steps:
        tree.problem(
            here,
            "an archive keeps the messages of a source, and this is a step:"
            " write rows with `files`, or to a topic",
        )


def _check_targets(pipeline: Pipeline, tree: Tree) -> None:
    """Two sinks into one folder would take each other's files for their own."""
    seen: dict[str, str] = {}
    for name, sink in pipeline.sinks.items():
        match sink:
            case ArchiveSink(archive=place) | FileSink(files=place) | TableSink(table=place):
                if place.rstrip("/") in seen:
                    other = seen[place.rstrip("/")]
                    tree.problem(("sinks", name), f"writes to {place}, and so does sinks.{other}")
                seen.setdefault(place.rstrip("/"), name)
            case _:
                pass


# --- shared ---------------------------------------------------------------------------------------


def _check_topic(name: str, path: Path, tree: Tree) -> None:
    try:
        topic_name(name)
    except InvalidName as error:
        tree.problem(path, str(error))


def _check_partitions(partitions: int | None, path: Path, tree: Tree) -> None:
    if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
        tree.problem((*path, "partitions"), f"must be 1 to {PARTITIONS_MAX}")


def _check_watermark(watermark: Watermark | None, path: Path, tree: Tree) -> None:
    if watermark is not None:
        _check_duration(watermark.delay, (*path, "watermark", "delay"), tree)


def _check_duration(text: str | None, path: Path, tree: Tree) -> None:
    try:
        if text is not None:
            parse_duration_ms(text, plain=None)
    except ValueError as error:
        tree.problem(path, str(error))


def _check_trigger(trigger: str | None, path: Path, tree: Tree) -> None:
    if trigger is None or trigger == AVAILABLE_NOW:
        return
    try:
        parse_duration_ms(trigger, plain=None)
    except ValueError as error:
        tree.problem((*path, "trigger"), f"{error}, or {AVAILABLE_NOW}")
