"""The columns of an archive.

    rows as they are     key value topic partition offset timestamp timestampType headers
    values decoded       record_key [record_value] record_topic …, then the fields of the values
    rejected rows        the columns of a record, and the reason why it was rejected

Values may have a field of any name, so in a decoded table the record's own columns have a prefix
that is refused to fields.
"""

from typing import Any, Final

import pyarrow as pa

from goqueue.spark.columns import COLUMN_TYPES

PREFIX: Final = "record_"
DATE: Final = "date"
REASON: Final = "reason"
DLQ_SUFFIX: Final = "_dlq"

RECORD_SCHEMA: Final = pa.schema(list(COLUMN_TYPES.items()))
DLQ_SCHEMA: Final = RECORD_SCHEMA.append(pa.field(REASON, pa.string()))


def decoded_schema(fields: Any, *, keep_value: bool) -> Any:
    """The table's schema for values that have these fields."""
    own = [
        pa.field(PREFIX + each.name, each.type)
        for each in RECORD_SCHEMA
        if keep_value or each.name != "value"
    ]
    return pa.schema([*own, *fields])


def value_fields(schema: Any) -> Any:
    """The fields of the values in a decoded table's schema."""
    return pa.schema([each for each in schema if not each.name.startswith(PREFIX)])


def is_decoded(schema: Any) -> bool:
    return f"{PREFIX}offset" in schema.names


def date_and_time(*, decoded: bool) -> tuple[str, str]:
    """The column that tells the day, and the time it is taken from."""
    return (PREFIX + DATE, PREFIX + "timestamp") if decoded else (DATE, "timestamp")
