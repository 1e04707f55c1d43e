"""What a report measures, each a function of DataFrames.

`messages` has Kafka's columns: key, value, partition, offset, timestamp, headers.
"""

from typing import TYPE_CHECKING, Final

from goqueue.spark.dlq.table import with_failure_history

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTILES: Final = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
ACCURACY: Final = 1_000  # of the percentiles: within a thousandth of the rank
KEY_LENGTH_MAX: Final = 80


def with_latency(messages: "DataFrame", origin: str | None) -> "DataFrame":
    """`latency_ms`: from the origin that each message tells to its timestamp; null without one.

    `origin` is `header:NAME` or `json:PATH`, milliseconds since 1970 or RFC 3339.
    """
    from pyspark.sql import functions as sql

    if origin is None:
        return messages.withColumn("latency_ms", sql.lit(None).cast("double"))
    told = _header_text(origin)
    at_ms = sql.coalesce(
        told.try_cast("bigint"),
        sql.unix_millis(sql.try_to_timestamp(told)),
    )
    return messages.withColumn("latency_ms", (sql.unix_millis("timestamp") - at_ms).cast("double"))


def _header_text(origin: str) -> "Column":
    from pyspark.sql import functions as sql

    kind, _, name = origin.partition(":")
    if kind == "json":
        return sql.get_json_object(sql.col("value").cast("string"), name)
    header = sql.filter("headers", lambda each: each["key"] == name)
    return sql.get(header, sql.lit(0))["value"].cast("string")


def timeline(messages: "DataFrame", bucket_seconds: int, sla_ms: float | None) -> "DataFrame":
    """For each stretch of time: messages, bytes, latency percentiles, how many kept the promise."""
    from pyspark.sql import functions as sql

    start = sql.window("timestamp", f"{bucket_seconds} seconds")["start"]
    late = sql.lit(None) if sla_ms is None else sql.col("latency_ms") > sla_ms
    percentiles = [
        sql.percentile_approx("latency_ms", share, ACCURACY).alias(f"latency_{name}_ms")
        for name, share in PERCENTILES.items()
    ]
    return (
        messages.groupBy(start.alias("bucket"))
        .agg(
            sql.count("*").alias("messages"),
            sql.sum(_size()).alias("bytes"),
            *percentiles,
            sql.max("latency_ms").alias("latency_max_ms"),
            sql.count("latency_ms").alias("timed"),
            sql.count_if(late).alias("late"),
        )
        .orderBy("bucket")
    )


def totals(messages: "DataFrame", sla_ms: float | None) -> "DataFrame":
    """The same over all time, in one row."""
    from pyspark.sql import functions as sql

    late = sql.lit(None) if sla_ms is None else sql.col("latency_ms") > sla_ms
    percentiles = [
        sql.percentile_approx("latency_ms", share, ACCURACY).alias(f"latency_{name}_ms")
        for name, share in PERCENTILES.items()
    ]
    return messages.agg(
        sql.count("*").alias("messages"),
        sql.coalesce(sql.sum(_size()), sql.lit(0)).alias("bytes"),
        sql.min("timestamp").alias("first"),
        sql.max("timestamp").alias("last"),
        *percentiles,
        sql.max("latency_ms").alias("latency_max_ms"),
        sql.count("latency_ms").alias("timed"),
        sql.count_if(late).alias("late"),
    )


def partitions(messages: "DataFrame") -> "DataFrame":
    """How evenly messages lie."""
    from pyspark.sql import functions as sql

    return (
        messages.groupBy("partition")
        .agg(sql.count("*").alias("messages"), sql.sum(_size()).alias("bytes"))
        .orderBy("partition")
    )


def hot_keys(messages: "DataFrame", count: int) -> "DataFrame":
    """The keys with most messages; `share` is of the messages that have a key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    by_key = (
        messages.where("key is not null")
        .groupBy("key")
        .agg(
            sql.count("*").alias("messages"),
            sql.sum(_size()).alias("bytes"),
            sql.min("partition").alias("partition"),
        )
    )
    everything = Window.partitionBy()
    return (
        by_key.withColumn("share", sql.col("messages") / sql.sum("messages").over(everything))
        .orderBy(sql.desc("messages"), "key")
        .limit(count)
        .withColumn("key", sql.substring(_text("key"), 1, KEY_LENGTH_MAX))
    )


def dead_letters(messages: "DataFrame") -> "DataFrame":
    """Dead letters by reason, group and error; `messages` are those of `{topic}.dlq`."""
    from pyspark.sql import functions as sql

    return (
        with_failure_history(messages)
        .groupBy("reason", "group", "error")
        .agg(
            sql.count("*").alias("messages"),
            sql.max("attempts").alias("attempts_max"),
            sql.min("died_at").alias("first"),
            sql.max("died_at").alias("last"),
        )
        .orderBy(sql.desc("messages"), "reason", "group", "error")
    )


def _size() -> "Column":
    from pyspark.sql import functions as sql

    zero = sql.lit(0)
    key, value = sql.octet_length("key"), sql.octet_length("value")
    return sql.coalesce(key, zero) + sql.coalesce(value, zero)


def _text(column: str) -> "Column":
    """As text where it is text, in hexadecimal where it is not."""
    from pyspark.sql import functions as sql

    return sql.coalesce(sql.try_validate_utf8(sql.col(column).cast("string")), sql.hex(column))
