"""Dead letters as a table: the messages of `{topic}.dlq`, with their failure history in columns."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from goqueue.client import Client
from goqueue.client.http.calls import queues

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Range = tuple[int, int, int]

# Position of a message in `{topic}.dlq`; people use these columns in SQL.
DLQ_COLUMNS: Final = ("letter_partition", "letter_offset")  # rule-ok: read by scripts
PREFIX: Final = "gq-dlq-"
TEXTS: Final = ("topic", "group", "consumer", "reason", "error")
NUMBERS: Final = {
    "partition": "int",
    "offset": "bigint",
    "attempts": "int",
    "failures": "int",
    "timeouts": "int",
}
TIMES: Final = {"first-delivery": "first_delivery", "last-delivery": "last_delivery"}


def read_dead_letters(
    session: "SparkSession", client: Client, topic: str, servers: str
) -> "DataFrame | None":
    """What waits in `{topic}.dlq`, with Kafka's columns; None when nothing ever died."""
    taken = client.send(queues.list_taken_ranges(topic))
    if not taken.partitions:
        return None
    messages = (
        session.read.format("goqueue")
        .option("bootstrap.servers", servers)
        .option("subscribe", taken.dlq_topic)
        .option("includeHeaders", True)
        .load()
    )
    gone = [
        (each.partition, first, last)
        for each in taken.partitions
        for first, last in ((0, each.floor - 1), *each.ranges)
        if first <= last
    ]
    return drop_taken(messages, gone) if gone else messages


def with_failure_history(messages: "DataFrame") -> "DataFrame":
    """One row for each dead letter, for filters in SQL.

    `DLQ_COLUMNS`                       its position in `{topic}.dlq`
    topic, partition, offset            its original position
    key, value                          as text, null where they are none; key_bytes, value_bytes
    published_at, died_at, first_delivery, last_delivery
    reason, error, group, consumer, attempts, failures, timeouts
    headers                             its own, as a map from name to text
    """
    from pyspark.sql import functions as sql

    messages = messages.withColumn("_all_headers", _header_map("headers"))
    columns = [
        sql.col("partition").alias(DLQ_COLUMNS[0]),
        sql.col("offset").alias(DLQ_COLUMNS[1]),
        *(sql.coalesce(_history_field(name), sql.lit("")).alias(name) for name in TEXTS),
        *(_history_field(name).try_cast(kind).alias(name) for name, kind in NUMBERS.items()),
        *(_time(name).alias(alias) for name, alias in TIMES.items()),
        _time("time").alias("died_at"),
        sql.col("timestamp").alias("published_at"),
        sql.try_validate_utf8(sql.col("key").cast("string")).alias("key"),
        sql.try_validate_utf8(sql.col("value").cast("string")).alias("value"),
        sql.col("key").alias("key_bytes"),
        sql.col("value").alias("value_bytes"),
        sql.map_filter("_all_headers", lambda name, _: ~name.startswith(PREFIX)).alias("headers"),
    ]
    return messages.select(*columns)


def drop_taken(messages: "DataFrame", taken: "Iterable[Range]") -> "DataFrame":
    """Only what still waits: neither driven back nor purged.

    `taken` are ranges of offsets that are not there any more: partition, first, last.
    """
    from pyspark.sql import functions as sql

    session = messages.sparkSession
    gone = session.createDataFrame(
        [tuple(each) for each in taken], "gone_partition int, gone_first bigint, gone_last bigint"
    )
    lies_in = (
        (messages["partition"] == gone["gone_partition"])
        & (messages["offset"] >= gone["gone_first"])
        & (messages["offset"] <= gone["gone_last"])
    )
    return messages.join(sql.broadcast(gone), lies_in, "left_anti")


def _header_map(column: str) -> "Column":
    """The last value of each header, as text.  Spark refuses a map with a key twice."""
    from pyspark.sql import functions as sql

    headers = sql.coalesce(sql.col(column), sql.array())
    names = sql.array_distinct(sql.transform(headers, lambda each: each["key"]))
    values = sql.transform(
        names,
        lambda name: sql.try_validate_utf8(
            sql.element_at(sql.filter(headers, lambda each: each["key"] == name), -1)["value"].cast(
                "string"
            )
        ),
    )
    return sql.map_from_arrays(names, values)


def _history_field(name: str) -> "Column":
    from pyspark.sql import functions as sql

    return sql.col("_all_headers")[PREFIX + name]


def _time(name: str) -> "Column":
    from pyspark.sql import functions as sql

    return sql.timestamp_millis(_history_field(name).try_cast("bigint"))
