"""A column as values of a registered schema, in the wire format: zero byte, id, payload."""

from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.schemas import Schema, SchemaType
from goqueue.spark.values.framing import ID_BYTES


class Payloads(Protocol):
    def __call__(self, column: Any) -> Any: ...


class ValueWriter:
    def __init__(self, schema: Schema, schema_id: int) -> None:
        self._prefix = b"\0" + schema_id.to_bytes(ID_BYTES - 1, "big")
        self._payloads = _payloads_of(schema)

    def write(self, column: Any) -> Any:
        """A binary array; null where the column is.  Raises `UnwritableRows`."""
        made = self._payloads(column)
        prefixes = pa.array([self._prefix] * len(made), pa.binary())
        return pc.binary_join_element_wise(prefixes, made, b"")

    def check(self, kind: Any) -> None:
        """Raises `UnwritableRows` for a type of column of which nothing can be written."""
        self._payloads(pa.array([], kind))


def _payloads_of(schema: Schema) -> Payloads:
    match schema.schema_type:
        case SchemaType.AVRO:
            from goqueue.spark.values import avro_writing

            return lambda column: avro_writing.payloads(column, schema.type)  # type: ignore[attr-defined]
        case SchemaType.JSON:
            from goqueue.spark.values import json_writing

            return json_writing.payloads
        case SchemaType.PROTOBUF:
            from goqueue.spark.values import protobuf_writing

            return lambda column: protobuf_writing.payloads(column, schema)  # type: ignore[arg-type]
