"""Columns as Protobuf messages: the first of the schema's file."""

from typing import Any

import pyarrow as pa
from google.protobuf import json_format, message_factory

from goqueue.schemas.protobuf import ProtobufSchema
from goqueue.schemas.protobuf.validation import find_message
from goqueue.spark.values import json_writing
from goqueue.spark.values.errors import UnwritableRows

INDEXES = b"\0"  # the first message of the file, in the wire format


def payloads(column: Any, schema: ProtobufSchema) -> Any:
    """A binary array, the indexes first; null where the column is.  Raises `UnwritableRows`."""
    message = find_message(schema.file, ())
    assert message is not None, "the registry takes no schema without one"
    kind = message_factory.GetMessageClass(message)
    made = []
    for row in json_writing.payloads(column):
        try:
            made.append(None if not row.is_valid else INDEXES + _serialize(kind(), row.as_py()))
        except (json_format.ParseError, ValueError) as error:
            raise UnwritableRows(f"a row is no {message.full_name}: {str(error)[:300]}") from error
    return pa.array(made, pa.binary())


def _serialize(message: Any, document: bytes) -> bytes:
    data: bytes = json_format.Parse(document, message).SerializeToString()
    return data
