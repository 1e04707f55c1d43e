"""Messages as tables: the columns of their values first, then the message's own.

The message's own columns begin with an underscore, because `key`, `value` and `timestamp` are
names that values like to use themselves:

    _key _topic _partition _offset _timestamp [_headers] [_value] [_corrupt]

A JSON value has the columns of its schema, and its text in `_value`; one that is read by a schema
of the registry has the fields of that.  A text or binary value is the column `value`.
"""

from typing import TYPE_CHECKING, Final

from goqueue.client.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

CORRUPT: Final = "_corrupt"
TEXT: Final = "_value"
OWN: Final = ("topic", "partition", "offset", "timestamp", "headers")  # and the key
RESERVED: Final = {"_key", *(f"_{each}" for each in OWN), TEXT, CORRUPT}
VALUE_SHOWN_MAX: Final = 200


class BadSchema(ClientError):
    """The columns that were given for a topic's values cannot be used."""


def schema_of(columns: str) -> "StructType":
    """Columns as `create table` has them; raises `BadSchema`."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    from goqueue.spark.runtime.causes import cause_of

    try:
        schema = StructType.fromDDL(columns)
    except PySparkException as error:
        raise BadSchema(cause_of(error)) from error
    if not isinstance(schema, StructType):
        raise BadSchema(f"{columns!r} is one type: write names and types, as `id bigint`")
    names = [each.lower() for each in schema.fieldNames()]
    taken = sorted(RESERVED.intersection(names))
    if taken:
        raise BadSchema(f"{', '.join(taken)}: these names are the message's own")
    return schema


def text_table(messages: "DataFrame") -> "DataFrame":
    """Values as text; bytes that are no UTF-8 come out as they are."""
    return messages.select(messages.value.cast("string").alias("value"), *_own(messages, "string"))


def binary_table(messages: "DataFrame") -> "DataFrame":
    return messages.select("value", *_own(messages, "binary"))


def json_table(messages: "DataFrame", schema: "StructType") -> "DataFrame":
    """Values by their schema; where one does not fit, its text is in `_corrupt`."""
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    text = messages.value.cast("string")
    whole = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    parsed = functions.from_json(text, whole, {"columnNameOfCorruptRecord": CORRUPT})
    read = messages.select(parsed.alias("parsed"), *_own(messages, "string"), text.alias(TEXT))
    columns = (read.parsed[each].alias(each) for each in whole.fieldNames())
    *payload, corrupt = columns
    return read.select(*payload, *read.columns[1:], corrupt)


def registry_table(messages: "DataFrame") -> "DataFrame":
    """Values that the source has read by their schemas: the fields of a record, or `value`."""
    from pyspark.sql.types import StructType

    kind = messages.schema["value"].dataType
    fields = kind.fieldNames() if isinstance(kind, StructType) else []
    taken = sorted(RESERVED.intersection(each.lower() for each in fields))
    if taken:
        raise BadSchema(f"{', '.join(taken)}: these names are the message's own")
    columns = [messages.value[each].alias(each) for each in fields] or [messages.value]
    corrupt = [messages[CORRUPT]] if CORRUPT in messages.columns else []
    return messages.select(*columns, *_own(messages, "string"), *corrupt)


def _own(messages: "DataFrame", key_type: str) -> "list[Column]":
    key = messages.key.cast(key_type).alias("_key")
    others = [each for each in OWN if each in messages.columns]
    return [key, *(messages[each].alias(f"_{each}") for each in others)]


# --- values that do not fit -----------------------------------------------------------------------


def only_good(table: "DataFrame") -> "DataFrame":
    return table.where(f"{CORRUPT} is null").drop(CORRUPT)


def only_bad(table: "DataFrame") -> "DataFrame":
    return table.where(f"{CORRUPT} is not null")


def failing_on_bad(table: "DataFrame") -> "DataFrame":
    """A filter, since Spark leaves out columns that nobody asks for, and their errors."""
    complaint = (
        "concat(_topic, '-', _partition, ' offset ', _offset, ': the value does not fit the"
        f" schema: ', left({CORRUPT}, {VALUE_SHOWN_MAX}), '; bad: drop, keep or a topic would"
        " go on')"
    )
    return table.where(
        f"case when {CORRUPT} is null then true else raise_error({complaint}) end"
    ).drop(CORRUPT)
