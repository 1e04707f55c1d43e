"""Rows of a stream as changes: the table's columns, then version, offset, and whether it is gone.

A Debezium envelope has the row before and after the change, what was done (`op`), and when; it may
be wrapped as `payload`.  Other rows are the new state of their key, unless a condition says that
the key is gone.
"""

from typing import TYPE_CHECKING, Final

from goqueue.client.errors import ClientError
from goqueue.spark.upserts.deciding import GONE, IS_CURRENT, OFFSET, VALID_FROM, VALID_TO, VERSION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ENVELOPE: Final = ("before", "after", "op")
OPERATIONS: Final = ("c", "u", "r", "d")  # create, update, read by a snapshot, delete
DELETE: Final = "d"
OWN: Final = (VERSION, OFFSET, GONE, VALID_FROM, VALID_TO, IS_CURRENT)
WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
TIMES: Final = ("timestamp", "date")


class NoChanges(ClientError):
    """Rows that cannot be taken for changes; the text says why."""


def changes_of(
    rows: "DataFrame",
    *,
    keys: list[str],
    version: str | None,
    delete: str | None,
    is_debezium: bool,
) -> "tuple[DataFrame, bool]":
    """The changes, and whether versions are times; raises `NoChanges`."""
    from pyspark.sql import functions

    if is_debezium:
        rows, fields, version = _unwrap(rows, version)
        gone = functions.col("op") == DELETE
    else:
        fields = [rows[f"`{each}`"] for each in rows.columns if not each.startswith("_")]
        gone = functions.expr(delete or "false")
    number, is_time = _version(rows, version)
    offset = rows[OFFSET] if OFFSET in rows.columns else functions.lit(0)
    made = rows.select(
        *fields,
        number.alias(VERSION),
        offset.cast("bigint").alias(OFFSET),
        functions.coalesce(gone, functions.lit(False)).alias(GONE),
    )
    _check(made.columns, keys)
    return made, is_time


def _unwrap(rows: "DataFrame", version: str | None) -> "tuple[DataFrame, list[Column], str | None]":
    """The changes of envelopes; tombstones, which follow deletes, and other messages are left."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    if "payload" in rows.columns:
        others = [each for each in rows.columns if each.startswith("_")]
        rows = rows.select("payload.*", *others)
    missing = [each for each in ENVELOPE if each not in rows.columns]
    if missing:
        raise NoChanges(
            f"there is no column {', '.join(missing)}: an envelope has {', '.join(ENVELOPE)}"
        )
    kind = rows.schema["after"].dataType
    if not isinstance(kind, StructType):
        raise NoChanges("`after` is no struct: give the source a schema with the table's columns")
    rows = rows.where(functions.col("op").isin(*OPERATIONS))
    state = functions.when(functions.col("op") == DELETE, functions.col("before")).otherwise(
        functions.col("after")
    )
    fields = [state[each].alias(each) for each in kind.fieldNames()]
    if version is None and "ts_ms" in rows.columns:
        version = "timestamp_millis(ts_ms)"
    return rows, fields, version


def _version(rows: "DataFrame", version: str | None) -> "tuple[Column, bool]":
    from pyspark.sql import functions

    if version is None and OFFSET not in rows.columns:
        raise NoChanges(
            "which change is newer? `version` names a column that grows, as `updated_at`; rows of a"
            " source have `_offset`, and it was left out"
        )
    column = functions.expr(version or OFFSET)
    kind = rows.select(column).schema[0].dataType.simpleString()
    if kind in WHOLE:
        return column.cast("bigint"), False
    if kind in TIMES:
        return functions.unix_micros(column.cast("timestamp")), True
    raise NoChanges(f"`version` is {kind}: it must be a whole number or a time")


def _check(columns: list[str], keys: list[str]) -> None:
    fields = columns[: -len(OWN[:3])]
    taken = sorted(set(fields) & set(OWN))
    if taken:
        raise NoChanges(f"{', '.join(taken)}: these columns are the table's own")
    missing = [each for each in keys if each not in fields]
    if missing:
        raise NoChanges(f"there is no column {', '.join(missing)}, which `keys` names")
