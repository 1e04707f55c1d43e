"""What a sink makes of a step's rows."""

from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.model import TopicSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The types that the writer takes; a key or value of another type becomes text.
MESSAGE_TYPES: Final = {"partition": "int", "timestamp": "timestamp"}
BYTES: Final = ("string", "binary")


def messages_from(rows: "DataFrame", sink: TopicSink) -> "DataFrame":
    """Rows as messages: `value`, and `key`, `partition`, `timestamp`, `headers` where given."""
    is_typed = sink.format == "registry"
    value = typed_column(rows, sink.value) if is_typed else value_column(rows, sink.value)
    columns = [value.alias("value")]
    if sink.key is not None:
        columns.append(bytes_column(rows, sink.key).alias("key"))
    for name, given in (("partition", sink.partition), ("timestamp", sink.timestamp)):
        if given is not None:
            columns.append(_expression(given).cast(MESSAGE_TYPES[name]).alias(name))
    if sink.headers:
        columns.append(_headers(rows, sink.headers).alias("headers"))
    return rows.select(*columns)


def value_column(rows: "DataFrame", given: str | None) -> "Column":
    """As asked for; or all columns as a JSON object, the messages' own left out."""
    from pyspark.sql import functions

    if given is not None:
        return bytes_column(rows, given)
    return functions.to_json(typed_column(rows, None), {"ignoreNullFields": "false"})


def typed_column(rows: "DataFrame", given: str | None) -> "Column":
    """As asked for; or all columns as a struct, the messages' own left out."""
    from pyspark.sql import functions

    if given is not None:
        return _expression(given)
    named = [each for each in rows.columns if not each.startswith("_")]
    return functions.struct(*(rows[f"`{each}`"] for each in named))


def bytes_column(rows: "DataFrame", expression: str) -> "Column":
    """Text and bytes as they are, structures as JSON, anything else as text."""
    from pyspark.sql import functions

    column = _expression(expression)
    kind = rows.select(column).schema[0].dataType.typeName()
    if kind in BYTES:
        return column
    if kind in ("struct", "array", "map"):
        return functions.to_json(column)
    return column.cast("string")


def _headers(rows: "DataFrame", headers: dict[str, str]) -> "Column":
    from pyspark.sql import functions

    return functions.array(
        *(
            functions.struct(
                functions.lit(name).alias("key"),
                bytes_column(rows, each).cast("binary").alias("value"),
            )
            for name, each in headers.items()
        )
    )


def _expression(text: str) -> "Column":
    from pyspark.sql import functions

    return functions.expr(text)


def bad_messages(table: "DataFrame") -> "DataFrame":
    """What did not fit, as it came, with where it came from."""
    from pyspark.sql import functions

    origin = {"gq-source-topic": "_topic", "gq-source-partition": "_partition"}
    headers = functions.array(
        *(
            functions.struct(
                functions.lit(name).alias("key"),
                functions.col(column).cast("string").cast("binary").alias("value"),
            )
            for name, column in {**origin, "gq-source-offset": "_offset"}.items()
        )
    )
    return table.select(
        functions.col("_key").alias("key"),
        functions.col("_corrupt").alias("value"),
        headers.alias("headers"),
    )
