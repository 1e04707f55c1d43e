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
    if options.values is not None:
        from goqueue.spark.source.value_plan import ddl_type, find_plan

        columns["value"] = ddl_type(find_plan(options, options.values))
        if options.values.mode == "permissive":
            columns[options.values.corrupt] = "binary"
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def wanted_columns(
    fields: Iterable[tuple[str, str]], unit: Unit, others: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The names of `fields`, given as name and type; raises `WrongColumns`.

    `others` are columns that are not as they mostly are.
    """
    known = {**COLUMNS[unit], **(others or {})}
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
