"""Topics as tables of a query: `select store, sum(amount) from orders group by store`.

A table's name is a topic's; one with a dot or a dash stands in backticks.  Values with a schema in
the registry have its columns, JSON values those that are found by looking at some of them, unless
they are given, others the column `value`;
`goqueue.spark.sql.tables` tells of the rest.
"""

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.client.errors import ClientError
from goqueue.client.kafka import KafkaClient
from goqueue.spark.runtime.causes import cause_of, errors_of_spark
from goqueue.spark.sql.inference import columns_of
from goqueue.spark.sql.sampling import newest_values
from goqueue.spark.sql.tables import CORRUPT, json_table, registry_table, schema_of, text_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RELATION: Final = re.compile(r"'Unresolved(?:Relation|TableOrView|Table|View) \[([^\]]+)\]")
HEADERS: Final = "_headers"
TOPICS_SHOWN: Final = 20
NO_REGISTRY: Final = "none"  # in place of columns: look at the values, whatever is registered
REGISTRY_TIMEOUT_MS: Final = 30_000
REGISTRY_OPTIONS: Final = {
    "value.format": "registry",
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
}


class BadQuery(ClientError):
    """A query that cannot be run; the text says why."""


class TopicRange(msgspec.Struct, frozen=True):
    """Which of the messages; times are epoch milliseconds."""

    from_time: int | None = None
    to_time: int | None = None
    only_new: bool = False
    """Of a stream: what comes from now on."""

    def options(self, *, is_stream: bool) -> dict[str, str]:
        if self.from_time is not None:
            start = {
                "startingTimestamp": str(self.from_time),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        else:
            new = is_stream and self.only_new
            start = {"startingOffsets": "latest" if new else "earliest"}
        end = {} if self.to_time is None else {"endingTimestamp": str(self.to_time)}
        return start | end


def query(
    spark: "SparkSession",
    client: KafkaClient,
    bootstrap: str,
    text: str,
    *,
    messages: TopicRange | None = None,
    schemas: Mapping[str, str] | None = None,
    is_stream: bool = False,
) -> "DataFrame":
    """The query's frame, over the topics that it names; raises `BadQuery`."""
    topics = client.metadata().keys()
    try:
        named = tables_of(spark, text)
        for topic in sorted(topics & set(named)):
            options = (messages or TopicRange()).options(is_stream=is_stream)
            if HEADERS in text:
                options["includeHeaders"] = "true"
            columns = (schemas or {}).get(topic)
            if columns is None and has_schema(client, topic):
                options |= REGISTRY_OPTIONS
            elif columns is None or columns == NO_REGISTRY:
                columns = columns_of(newest_values(client, topic))
            frame = topic_table(spark, bootstrap, topic, columns, options, is_stream=is_stream)
            frame.createOrReplaceTempView(_quote(topic))
        return spark.sql(text)
    except errors_of_spark() as error:
        raise BadQuery(_explain(cause_of(error), topics)) from error


def topic_table(
    spark: "SparkSession",
    bootstrap: str,
    topic: str,
    columns: str | None,
    options: Mapping[str, str],
    *,
    is_stream: bool = False,
) -> "DataFrame":
    """A topic's messages; with columns those of JSON, by the registry if the options say so, else
    text."""
    reader: Any = spark.readStream if is_stream else spark.read
    given = {"bootstrap.servers": bootstrap, "subscribe": topic, **options}
    messages = reader.format("goqueue").options(**given).load()
    if "value.format" in options:
        return registry_table(messages)
    return text_table(messages) if columns is None else json_table(messages, schema_of(columns))


def has_schema(client: KafkaClient, topic: str) -> bool:
    """Whether the topic's subject has a schema whose values can be columns."""
    from goqueue.spark.values.reading import format_of
    from goqueue.spark.values.registry import Registry

    try:
        with Registry(client.http_url(), REGISTRY_TIMEOUT_MS, client.login) as registry:
            found = registry.find(f"{topic}-value")
            if found is not None:
                format_of(found.parse())
            return found is not None
    except ClientError:  # no HTTP listener, or a schema that contains itself
        return False


def tables_of(spark: Any, text: str) -> list[str]:
    """The names that a query reads from, its own `with` tables included."""
    parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    return list(dict.fromkeys(RELATION.findall(parsed.toString())))


def _quote(topic: str) -> str:
    return f"`{topic}`"  # a topic's name has no backticks


def _explain(cause: str, topics: Collection[str]) -> str:
    """With the topics, where a table was not found."""
    missing = re.search(r"table or view `([^ ]+)` cannot be found", cause)
    if missing is None:
        return cause
    name = missing[1].replace("`", "")
    if name in topics:
        return f"{cause}: a topic's name with a dot or a dash goes in backticks, as `{name}`"
    listed = ", ".join(sorted(each for each in topics if not each.startswith("__"))[:TOPICS_SHOWN])
    return f"there is no topic {name!r}; there are: {listed or 'none'}"
