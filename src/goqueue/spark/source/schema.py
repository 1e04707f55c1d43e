"""The columns of a topic as Spark knows them, and which of them a reader is asked for."""

from collections.abc import Iterable, Mapping
from typing import Final

from goqueue.client.errors import ClientError
from goqueue.spark.source.options import SourceOptions, Unit

RECORD_COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
BATCH_COLUMNS: Final = {
    "topic": "string",
    "partition": "int",
    "baseOffset": "bigint",
    "lastOffset": "bigint",
    "maxTimestamp": "timestamp",
    "records": "int",
    "batch": "binary",
}
# Where records are, for tasks that fetch them themselves: offsets up to, not with, the end.
RANGE_COLUMNS: Final = {
    "topic": "string",
    "partition": "int",
    "startOffset": "bigint",
    "endOffset": "bigint",
}
COLUMNS: Final[Mapping[Unit, Mapping[str, str]]] = {
    "record": RECORD_COLUMNS,
    "batch": BATCH_COLUMNS,
    "range": RANGE_COLUMNS,
}


class WrongColumns(ClientError):
    """A schema asks for columns that a topic does not have, or as another type."""


def default_schema(options: SourceOptions) -> str:
    """Kafka's columns, or those of whole batches or of ranges."""
    columns = dict(columns_of(options.unit))
    if options.unit == "record" and not options.include_headers:
        columns.pop("headers")
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def wanted_columns(fields: Iterable[tuple[str, str]], unit: Unit) -> tuple[str, ...]:
    """The names of `fields`, given as name and type; raises `WrongColumns`."""
    known = columns_of(unit)
    problems = []
    names = []
    for name, kind in fields:
        names.append(name)
        if name not in known:
            problems.append(f"no column {name!r}: there are {', '.join(known)}")
        elif known[name] != kind:
            problems.append(
                f"{name} is {known[name]}, not {kind}: read it as it is and cast it in the query"
            )
    if problems:
        raise WrongColumns("; ".join(problems))
    return tuple(names)


def columns_of(unit: Unit) -> Mapping[str, str]:
    return COLUMNS[unit]
