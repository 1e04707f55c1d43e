"""A pipeline as a project of Spark Declarative Pipelines, as far as they have what it says.

    DIR/spark-pipeline.yml               name, storage, settings
    DIR/transformations/pipeline.py      a view for each source and step, a flow for each sink

Those pipelines append: a sink that updates has no place there, nor have archives and consoles.
What is left out is told.  The code needs nothing of ours but the format `goqueue`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.spark.pipelines.dependencies import where_read
from goqueue.spark.pipelines.expectations import expectations_of
from goqueue.spark.pipelines.frames import option_texts, spark_interval, topic_options
from goqueue.spark.pipelines.model import (
    ArchiveSink,
    BadTopic,
    ConsoleSink,
    FileSink,
    FileSource,
    Pipeline,
    Sink,
    Source,
    Step,
    TableSink,
    TopicSink,
    TopicSource,
    Watermark,
)
from goqueue.spark.pipelines.places import Places
from goqueue.spark.sql.tables import CORRUPT, OWN, TEXT

HEAD: Final = '''\
"""{name}, as `goqueue pipeline export` has made it."""

from pyspark import pipelines as dp
from pyspark.sql import functions as F
'''
BAD: Final = {
    "fail": f'F.expr("case when {CORRUPT} is null then true'
    " else raise_error('a value does not fit the schema') end\")",
    "drop": f'F.col("{CORRUPT}").isNull()',
}


class Exported(msgspec.Struct, frozen=True):
    files: dict[str, str]
    """Text by path."""
    left_out: dict[str, str]
    """Why, by sink."""


def export(pipeline: Pipeline, places: Places, folder: Path) -> Exported:
    """The project's files, for a folder."""
    reasons = {name: _reason(each) for name, each in pipeline.sinks.items()}
    left_out = {name: reason for name, reason in reasons.items() if reason is not None}
    streams = _streams(pipeline)
    pieces = [
        HEAD.format(name=pipeline.name),
        *(_source(name, each, places) for name, each in pipeline.sources.items()),
        *(_step(name, each, streams) for name, each in pipeline.steps.items()),
        *(
            _sink(name, each, pipeline, places)
            for name, each in pipeline.sinks.items()
            if name not in left_out
        ),
    ]
    return Exported(
        {
            "spark-pipeline.yml": _project(pipeline, folder),
            "transformations/pipeline.py": "\n\n".join(pieces),
        },
        left_out,
    )


def _reason(sink: Sink) -> str | None:
    match sink:
        case TopicSink(mode="append") | FileSink():
            return None
        case TopicSink(mode=mode):
            return f"mode {mode}: declarative pipelines append to topics"
        case ArchiveSink():
            return "archives: `goqueue pipeline archive` keeps them"
        case TableSink():
            return "tables by key: declarative pipelines cannot merge into these"
        case ConsoleSink():
            return "the console: nobody looks at it there"


def _project(pipeline: Pipeline, folder: Path) -> str:
    project: dict[str, Any] = {
        "name": pipeline.name,
        "storage": f"file://{folder.resolve()}/storage",
        "libraries": [{"glob": {"include": "transformations/**"}}],
        "configuration": {
            "spark.sql.session.timeZone": "UTC",
            **option_texts(pipeline.settings),
        },
    }
    return msgspec.yaml.encode(project).decode()


# --- sources --------------------------------------------------------------------------------------


def _source(name: str, source: Source, places: Places) -> str:
    if isinstance(source, FileSource):
        return _view(name, _files(source, places))
    return _view(name, _topic(name, source, places))


def _files(source: FileSource, places: Places) -> list[str]:
    lines = [f"spark.read.format({_text(source.format)})", *_options(option_texts(source.options))]
    if source.schema is not None:
        lines.append(f".schema({_text(source.schema)})")
    return [*lines, f".load({_text(places.path(source.files))})"]


def _topic(name: str, source: TopicSource, places: Places) -> list[str]:
    options = {**places.broker_options(), **topic_options(source)}
    how = "readStream" if source.read == "stream" else "read"
    lines = [f'spark.{how}.format("goqueue")', *_options(options), ".load()"]
    if source.format == "registry":
        corrupt = [f'F.col("{CORRUPT}")'] if source.bad == "keep" else []
        lines += _select(['F.col("value.*")', *_own("string"), *corrupt])
    elif source.schema is None:
        kind = "binary" if source.format == "binary" else "string"
        lines += _select([f'F.col("value").cast("{kind}").alias("value")', *_own(kind)])
    else:
        lines += _json(source, source.schema)
    return [*lines, *_watermark(source.watermark), *_expectations(name, source)]


def _json(source: TopicSource, schema: str) -> list[str]:
    text = 'F.col("value").cast("string")'
    columns = _text(f"{schema}, {CORRUPT} string")
    parsed = f'F.from_json({text}, {columns}, {{"columnNameOfCorruptRecord": "{CORRUPT}"}})'
    return [
        *_select([f'{parsed}.alias("parsed")', *_own("string"), f'{text}.alias("{TEXT}")']),
        '.select("parsed.*", "*")',
        '.drop("parsed")',
        *_good(source),
    ]


def _own(key_type: str) -> list[str]:
    others = [f'F.col("{each}").alias("_{each}")' for each in OWN if each != "headers"]
    return [f'F.col("key").cast("{key_type}").alias("_key")', *others]


def _good(source: TopicSource) -> list[str]:
    if source.bad == "keep":
        return []
    chosen = "drop" if isinstance(source.bad, BadTopic) else source.bad
    return [f".where({BAD[chosen]})", f'.drop("{CORRUPT}")']


def _watermark(watermark: Watermark | None) -> list[str]:
    if watermark is None:
        return []
    delay = spark_interval(watermark.delay)
    return [f".withWatermark({_text(watermark.column)}, {_text(delay)})"]


def _expectations(view: str, of: TopicSource | Step) -> list[str]:
    """As filters: rows that are set aside by a topic are left out, and nothing is counted."""
    lines = []
    for name, each in expectations_of(of).items():
        holds = f"coalesce(cast(({each.sql}) as boolean), false)"
        if each.otherwise == "fail":
            complaint = f"raise_error('{view}.{name}: a row is not as expected')"
            lines.append(f".where({_text(f'case when {holds} then true else {complaint} end')})")
        elif each.otherwise != "keep":
            lines.append(f".where({_text(holds)})")
    return lines


# --- steps ----------------------------------------------------------------------------------------


def _streams(pipeline: Pipeline) -> set[str]:
    """The views that must be read as streams.  A step is one when it reads one."""
    found = {
        name
        for name, each in pipeline.sources.items()
        if isinstance(each, TopicSource) and each.read == "stream"
    }
    for name, step in pipeline.steps.items():
        if any(where_read(each).search(step.sql) for each in found):
            found.add(name)
    return found


def _step(name: str, step: Step, streams: Iterable[str]) -> str:
    sql = step.sql.strip()
    for each in streams:
        sql = where_read(each).sub(rf"\1STREAM({each})", sql)
    lines = [f"    {line!r}" for line in sql.splitlines(keepends=True)]
    checks = [*_watermark(step.watermark), *_expectations(name, step)]
    return _view(name, ["spark.sql(", *lines, ")", *checks])


# --- sinks ----------------------------------------------------------------------------------------


def _sink(name: str, sink: Sink, pipeline: Pipeline, places: Places) -> str:
    rows = f"spark.readStream.table({_text(sink.from_)})"
    target = f"{_name(name)}_sink"  # a view may have the sink's name
    if isinstance(sink, FileSink):
        columns = f", partition_cols={json.dumps(sink.partition_by)}" if sink.partition_by else ""
        head = f"@dp.table(name={_text(target)}, format={_text(sink.format)}{columns})"
        return _function(head, target, [rows])
    assert isinstance(sink, TopicSink), "others are left out"
    options = {**places.broker_options(), "topic": sink.topic}
    options |= option_texts(sink.options)
    made = f'dp.create_sink({_text(target)}, "goqueue", {json.dumps(options)})'
    flow = _function(
        f"@dp.append_flow(target={_text(target)})",
        f"{_name(name)}_flow",
        [rows, *_select(_message(sink, pipeline.sources.get(sink.from_)))],
    )
    return f"{made}\n\n\n{flow}"


def _message(sink: TopicSink, source: Source | None) -> list[str]:
    """A step's columns are all taken for its own; a source's are known."""
    fields = "*" if source is None else f"* except ({', '.join(_not_of_the_value(source))})"
    given = [
        ("value", sink.value or f"to_json(struct({fields}))", "string"),
        ("key", sink.key, "string"),
        ("partition", sink.partition, "int"),
        ("timestamp", sink.timestamp, "timestamp"),
    ]
    columns = [
        f'F.expr({_text(each)}).cast("{kind}").alias("{name}")'
        for name, each, kind in given
        if each is not None
    ]
    if sink.headers:
        entries = [
            f'F.struct(F.lit({_text(name)}).alias("key"),'
            f' F.expr({_text(each)}).cast("string").cast("binary").alias("value"))'
            for name, each in sink.headers.items()
        ]
        columns.append(f'F.array({", ".join(entries)}).alias("headers")')
    return columns


def _not_of_the_value(source: Source) -> list[str]:
    assert isinstance(source, TopicSource), "a sink's source is a stream"
    own = ["_key", *(f"_{each}" for each in OWN if each != "headers")]
    own += [TEXT] if source.schema is not None else []
    return [*own, CORRUPT] if source.bad == "keep" else own


# --- code -----------------------------------------------------------------------------------------


def _options(options: Mapping[str, str]) -> list[str]:
    return [f".option({_text(name)}, {_text(value)})" for name, value in options.items()]


def _select(columns: Iterable[str]) -> list[str]:
    return [".select(", *(f"    {each}," for each in columns), ")"]


def _view(name: str, chain: list[str]) -> str:
    return _function("@dp.temporary_view", name, chain)


def _function(decorator: str, name: str, chain: list[str]) -> str:
    body = "\n        ".join(chain)
    return f"{decorator}\ndef {name}():\n    return (\n        {body}\n    )\n"


def _name(text: str) -> str:
    """As Python and Spark take it without quotes."""
    return re.sub(r"\W", "_", text)


def _text(text: str) -> str:
    """As Python reads it; what JSON escapes, Python escapes in the same way."""
    return json.dumps(text, ensure_ascii=False)
