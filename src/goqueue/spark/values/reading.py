"""A column of values, each by the schema that it names, as one column of the reader's type."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from goqueue.schemas import Schema, SchemaType
from goqueue.spark.values.framing import (
    NO_NUMBER,
    NO_VALUE,
    NOT_NAMED,
    Framed,
    frames_of,
    needs_headers,
    read_headers,
)
from goqueue.spark.values.payloads import Bad, Payloads, Read

Find = Callable[[int], Schema | None]
"""The schema of an id, None if there is none."""


class Format(Protocol):
    """A way to read payloads, for one schema of the reader's."""

    type: Any

    def read(self, payloads: Payloads, writer: Any) -> Read: ...


class ValueReader:
    def __init__(self, schema: Schema, find: Find, latest: Schema | None = None) -> None:
        """`latest` is by which values are that name no schema; None: the same.

        Raises `NoColumns` for a schema whose values cannot be columns.
        """
        self._schema = schema
        self._format = format_of(schema)
        self._find = find
        self._writers: dict[int, Schema] = {NOT_NAMED: latest or schema}

    @property
    def type(self) -> Any:
        """Arrow's."""
        return self._format.type

    def read(self, values: Any, headers: Callable[[], Any] | None = None) -> Read:
        """`headers` gives the column of headers, where a value does not name its schema."""
        framed = frames_of(values)
        if headers is not None and needs_headers(framed):
            read_headers(framed, headers())
        kinds = np.unique(framed.ids * 2 + framed.has_prefix)
        if kinds.size == 1:
            return self._read_some(framed, int(kinds[0]), None)
        return self._join(framed, kinds.tolist())

    def _join(self, framed: Framed, kinds: list[int]) -> Read:
        """Rows by schema, each kind at once, and put back into their order."""
        parts, order, bad = [], [], Bad()
        for kind in kinds:
            rows = np.flatnonzero(framed.ids * 2 + framed.has_prefix == kind)
            part = self._read_some(framed, kind, rows)
            bad.update({int(rows[row]): reason for row, reason in part.bad.items()})
            parts.append(part.column)
            order.append(rows)
        if not parts:
            return Read(pa.nulls(0, self.type), bad)
        places = np.empty(len(framed.ids), np.int64)
        places[np.concatenate(order)] = np.arange(len(framed.ids))
        return Read(pa.concat_arrays(parts).take(pa.array(places)), bad)

    def _read_some(self, framed: Framed, kind: int, rows: Any) -> Read:
        schema_id, has_prefix = kind >> 1, bool(kind & 1)
        starts, ends = framed.starts, framed.ends
        if rows is not None:
            starts, ends = starts[rows], ends[rows]
        if schema_id == NO_VALUE:
            return Read(pa.nulls(len(starts), self.type), Bad())
        problem = self._objection(schema_id)
        if problem is not None:
            reasons = Bad(dict.fromkeys(range(len(starts)), problem))
            return Read(pa.nulls(len(starts), self.type), reasons)
        return self._format.read(
            Payloads(framed.octets, starts, ends, has_prefix), self._writers[schema_id]
        )

    def _objection(self, schema_id: int) -> str | None:
        if schema_id == NO_NUMBER:
            return "the header with the schema's id has no number"
        writer = self._writers.get(schema_id) or self._find(schema_id)
        if writer is None:
            return f"no schema has the id {schema_id}"
        self._writers[schema_id] = writer
        if writer.schema_type is not self._schema.schema_type:
            return (
                f"schema {schema_id} is {writer.schema_type}, and values are read as"
                f" {self._schema.schema_type}"
            )
        return None


def format_of(schema: Schema) -> Format:
    match schema.schema_type:
        case SchemaType.AVRO:
            from goqueue.spark.values.avro import AvroReader

            return AvroReader(schema)  # type: ignore[arg-type]  # as its type says
        case SchemaType.JSON:
            from goqueue.spark.values.json import JsonReader

            return JsonReader(schema)  # type: ignore[arg-type]
        case SchemaType.PROTOBUF:
            from goqueue.spark.values.protobuf import ProtobufReader

            return ProtobufReader(schema)  # type: ignore[arg-type]
