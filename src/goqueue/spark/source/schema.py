"""The columns of a topic as Spark knows them, and which of them a reader is asked for."""

from collections.abc import Iterable, Mapping
from typing import Final

from goqueue.client.errors import ClientError
from goqueue.spark.source.options import SourceOptions, Unit
from goqueue.spark.topic_columns import BATCH_COLUMNS, RANGE_COLUMNS, RECORD_COLUMNS

COLUMNS: Final[Mapping[Unit, Mapping[str, str]]] = {
    "record": RECORD_COLUMNS,
    "batch": BATCH_COLUMNS,
    "range": RANGE_COLUMNS,
}


class WrongColumns(ClientError):
    """A schema asks for columns that a topic does not have, or as another type."""


def default_schema(options: SourceOptions) -> str:
    """Kafka's columns, or those of whole batches or of ranges."""
    columns = dict(COLUMNS[options.unit])
    if options.unit == "record" and not options.include_headers:
        columns.pop("headers")
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def wanted_columns(fields: Iterable[tuple[str, str]], unit: Unit) -> tuple[str, ...]:
    """The names of `fields`, given as name and type; raises `WrongColumns`."""
    known = COLUMNS[unit]
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
