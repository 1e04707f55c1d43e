"""Sources as frames: what a step sees as a table."""

from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.model.durations import parse_duration_ms
from goqueue.model.times import parse_time
from goqueue.spark.pipelines.model import (
    BadTopic,
    FileSource,
    Scalar,
    Source,
    TopicSource,
    Watermark,
)
from goqueue.spark.sql.tables import (
    CORRUPT,
    binary_table,
    failing_on_bad,
    json_table,
    only_good,
    registry_table,
    schema_of,
    text_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from goqueue.spark.pipelines.places import Places


def source_frame(spark: "SparkSession", source: Source, places: "Places") -> "DataFrame":
    if isinstance(source, FileSource):
        return _files(spark, source, places)
    if source.format == "registry":  # the source itself knows what to do with the bad ones
        table = registry_table(messages_of(spark, source, places))
        return add_watermark(table, source.watermark)
    return add_watermark(_good(source, topic_frame(spark, source, places)), source.watermark)


def topic_frame(spark: "SparkSession", source: TopicSource, places: "Places") -> "DataFrame":
    """With what does not fit its schema still in it."""
    if source.format == "registry":
        keeping = msgspec.structs.replace(source, bad="keep")
        return registry_table(messages_of(spark, keeping, places))
    messages = messages_of(spark, source, places)
    if source.schema is not None:
        return json_table(messages, schema_of(source.schema))
    return binary_table(messages) if source.format == "binary" else text_table(messages)


def messages_of(spark: "SparkSession", source: TopicSource, places: "Places") -> "DataFrame":
    """The messages as the format `goqueue` gives them."""
    reader: Any = spark.readStream if source.read == "stream" else spark.read
    options = {**places.broker_options(), **topic_options(source)}
    messages: DataFrame = reader.format("goqueue").options(**options).load()
    return messages


def topic_options(source: TopicSource) -> dict[str, str]:
    """What the file says, as the format's options."""
    found: dict[str, str] = {}
    if source.pattern is not None:
        found["subscribePattern"] = source.pattern
    else:
        found["subscribe"] = source.topic or ",".join(source.topics)
    if source.from_ in ("earliest", "latest"):
        found["startingOffsets"] = source.from_
    else:
        found["startingTimestamp"] = str(parse_time(source.from_))
        found["startingOffsetsByTimestampStrategy"] = "latest"
    if source.max_messages is not None:
        found["maxOffsetsPerTrigger"] = str(source.max_messages)
    if source.max_bytes is not None:
        found["maxBytesPerTrigger"] = str(source.max_bytes)
    if source.format == "registry":
        found |= _registry_options(source)
    return found | option_texts(source.options)


def _registry_options(source: TopicSource) -> dict[str, str]:
    modes = {"fail": "FAILFAST", "keep": "PERMISSIVE"}
    found = {"value.format": "registry", "mode": modes.get(str(source.bad), "DROPMALFORMED")}
    if source.bad == "keep":
        found["columnNameOfCorruptRecord"] = CORRUPT
    if source.subject is not None:
        found["value.subject"] = source.subject
    if source.version is not None:
        found["value.schema.version"] = str(source.version)
    return found


def option_texts(options: dict[str, Scalar]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def spark_interval(text: str) -> str:
    """A duration of the file, as Spark takes it."""
    return f"{parse_duration_ms(text, plain=None)} milliseconds"


def add_watermark(frame: "DataFrame", watermark: Watermark | None) -> "DataFrame":
    if watermark is None:
        return frame
    return frame.withWatermark(watermark.column, spark_interval(watermark.delay))


def _good(source: TopicSource, table: "DataFrame") -> "DataFrame":
    if source.schema is None:
        return table
    match source.bad:
        case "keep":
            return table
        case "drop" | BadTopic():
            return only_good(table)
        case _:
            return failing_on_bad(table)


def _files(spark: "SparkSession", source: FileSource, places: "Places") -> "DataFrame":
    reader = spark.read.format(source.format).options(**option_texts(source.options))
    if source.schema is not None:
        reader = reader.schema(schema_of(source.schema))
    return reader.load(places.path(source.files))
