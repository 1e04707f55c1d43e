"""What a pipeline's file may say.  Docstrings of fields are the reference for its writers.

A source is told by the key it has, and so is a sink: `topic:` makes it a topic, `files:` files.
"""

from typing import Literal

import msgspec

RENAMED = {"from_": "from"}
Scalar = str | bool | int | float  # what Spark takes as the text of an option


class Watermark(msgspec.Struct, frozen=True):
    """How long to wait for late rows, by the time in one of their columns."""

    column: str
    delay: str
    """As `10s`, `5m` or `1 hour`: a row this much older than the newest one is too late."""


class BadTopic(msgspec.Struct, frozen=True):
    """Where values go that do not fit their schema."""

    topic: str
    partitions: int | None = None
    """The topic is made with so many if it is not there."""


Bad = Literal["fail", "drop", "keep"]
TopicFormat = Literal["json", "text", "binary", "registry"]
ValueFormat = Literal["json", "registry"]
FileFormat = Literal["parquet", "json", "csv", "orc"]
Mode = Literal["append", "update", "complete"]


class Expectation(msgspec.Struct, frozen=True):
    """What every row must be."""

    sql: str
    """A condition over the columns; where it is null it does not hold."""
    otherwise: Bad | BadTopic = "fail"
    """A row for which it does not hold: stop, leave it out, keep it and count it, or send it to
    `{topic: NAME}`."""


# --- sources --------------------------------------------------------------------------------------


class TopicSource(msgspec.Struct, frozen=True, rename=RENAMED):
    topic: str | None = None
    """One topic; or `topics`, several of one kind; or `pattern`, a regular expression."""
    topics: list[str] = []
    pattern: str | None = None
    format: TopicFormat | None = None
    """`json` when there is a `schema`, else `text`.  `registry`: by the schema that each value
    names or, if it names none, by the latest of the subject."""
    schema: str | None = None
    """Columns of JSON values, as in `create table`: `id bigint, amount decimal(10, 2)`."""
    subject: str | None = None
    """Of `registry`: whose latest schema values are read with; by default `TOPIC-value`."""
    version: int | None = None
    """Of `registry`: this one instead of the latest."""
    from_: str = "earliest"
    """Where the first run begins: `earliest`, `latest`, or a time as 2026-01-31T12:00:00Z."""
    read: Literal["stream", "once"] = "stream"
    """`once`: as a table, read at the start of each batch that joins with it."""
    watermark: Watermark | None = None
    bad: Bad | BadTopic = "fail"
    """Values that do not fit the schema: stop, leave them out, keep them with null columns and
    their text or bytes in `_corrupt`, or send them to `{topic: NAME}`."""
    expect: dict[str, str | Expectation] = {}
    """Conditions that rows must meet, by name; a text alone stops the pipeline when it does not
    hold.  Archives keep the messages all the same."""
    max_messages: int | None = None
    """At most so many in a micro-batch."""
    max_bytes: int | None = None
    options: dict[str, Scalar] = {}
    """Further options of the format `goqueue`."""


class FileSource(msgspec.Struct, frozen=True):
    """A table to join with."""

    files: str
    format: FileFormat = "parquet"
    schema: str | None = None
    options: dict[str, Scalar] = {}


Source = TopicSource | FileSource


# --- steps ----------------------------------------------------------------------------------------


class Step(msgspec.Struct, frozen=True):
    """A view: it sees the sources and the steps above it."""

    sql: str
    watermark: Watermark | None = None
    expect: dict[str, str | Expectation] = {}
    """Conditions that rows must meet, by name."""
    description: str = ""


# --- sinks ----------------------------------------------------------------------------------------


class TopicSink(msgspec.Struct, frozen=True, rename=RENAMED):
    """Rows become messages, exactly once."""

    topic: str
    from_: str
    mode: Mode = "append"
    trigger: str | None = None
    key: str | None = None
    """SQL over the step's columns, as are `value`, `partition`, `timestamp` and the headers."""
    value: str | None = None
    """By default all columns as a JSON object; those that begin with `_` are left out."""
    format: ValueFormat = "json"
    """`registry`: columns are written by the latest schema of the subject, in Confluent's wire
    format; where there is none, an Avro schema is made of them and registered."""
    subject: str | None = None
    """Of `registry`: by default `TOPIC-value`."""
    partition: str | None = None
    timestamp: str | None = None
    headers: dict[str, str] = {}
    partitions: int | None = None
    """The topic is made with so many if it is not there."""
    options: dict[str, Scalar] = {}


class ArchiveSink(msgspec.Struct, frozen=True, rename=RENAMED):
    """The messages of a topic source, kept as tables that `replay` reads, exactly once."""

    archive: str
    """Folder or URL of the tables: one a topic, and one for what does not fit."""
    from_: str
    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    catalog: str | None = None
    """Of Iceberg: a catalog by its name in PyIceberg's configuration, or NAME.NAMESPACE."""
    decode: bool = False
    """Fields of values become columns: of JSON, or by the registry if the source's format is."""
    trigger: str | None = None


class TableSink(msgspec.Struct, frozen=True, rename=RENAMED):
    """Rows are changes, merged into a table by key: the table is their newest state."""

    table: str
    """Folder or URL; keys that were deleted are kept in `TABLE_deleted`."""
    from_: str
    keys: list[str]
    format: Literal["delta", "iceberg"] = "delta"
    catalog: str | None = None
    """Of Iceberg: a catalog by its name in PyIceberg's configuration, or NAME.NAMESPACE."""
    version: str | None = None
    """SQL for a whole number or a time that is larger in a newer change of a key; by default the
    message's offset, of Debezium `ts_ms`."""
    delete: str | None = None
    """SQL condition: the key of this row is gone."""
    cdc: Literal["debezium"] | None = None
    """Rows are envelopes with `before`, `after` and `op`."""
    history: bool = False
    """Keep every change, with `valid_from`, `valid_to` and `is_current` (SCD type 2)."""
    mode: Literal["append", "update"] = "append"
    trigger: str | None = None


class FileSink(msgspec.Struct, frozen=True, rename=RENAMED):
    """Rows become files; Spark's own list of them, `_spark_metadata`, says which count."""

    files: str
    from_: str
    format: FileFormat = "parquet"
    trigger: str | None = None
    partition_by: list[str] = []
    options: dict[str, Scalar] = {}


class ConsoleSink(msgspec.Struct, frozen=True, rename=RENAMED):
    """Rows are shown, as they come."""

    console: int
    """At most so many rows of a micro-batch."""
    from_: str
    mode: Mode = "append"
    trigger: str | None = None


Sink = TopicSink | ArchiveSink | TableSink | FileSink | ConsoleSink


# --- alerts ---------------------------------------------------------------------------------------


class Volume(msgspec.Struct, frozen=True):
    """How many rows are usual."""

    per: str
    """As `1h`: rows are counted for so long, then from zero."""
    rows_min: int | None = None
    rows_max: int | None = None


class Alerts(msgspec.Struct, frozen=True):
    """Of pipelines that are served: what each of its sinks must bring."""

    fresh: str | None = None
    """As `10m`: a sink that gets no new rows for longer is stale."""
    volume: Volume | None = None
    webhook: str | None = None
    """URL to which an alert, and its end, is posted as JSON."""


# --- the whole ------------------------------------------------------------------------------------


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""  # checked behind: a file without a name has other problems to show as well
    """Needed: its checkpoints and its consumer group are named after it."""
    sources: dict[str, Source]
    sinks: dict[str, Sink]
    steps: dict[str, Step] = {}
    description: str = ""
    bootstrap: str | None = None
    """The broker's Kafka listener, as HOST:PORT."""
    login: str = ""
    """File of Kafka's settings to log in with (`security.protocol`, `sasl.…`, `ssl.…`), beside this
    one: secrets do not belong here."""
    checkpoints: str = "checkpoints"
    """Folder, or URL of one that all of Spark's machines see.  How far each sink is lies there:
    without it a pipeline starts over, and writes everything again."""
    trigger: str | None = None
    """`available-now`: process what is there, and end.  `10s`: a micro-batch every ten seconds.
    Without it: the next micro-batch begins when the last one ends."""
    alerts: Alerts | None = None
    """When a pipeline that is served brings too little, too much, or nothing."""
    settings: dict[str, Scalar] = {}
    """Spark's own, as `spark.sql.shuffle.partitions: 4`."""
