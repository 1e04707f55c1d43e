"""Columns as JSON documents."""

import base64
from datetime import date, datetime
from typing import Any

import msgspec
import pyarrow as pa


def payloads(column: Any) -> Any:
    """A binary array; null where the column is."""
    rows = column.to_pylist()
    texts = (
        None if each is None else _encoder.encode(_convert(each, column.type)) for each in rows
    )
    return pa.array(texts, pa.binary())


def _convert(value: Any, kind: Any) -> Any:
    """Fields that are null are left out: that is what JSON Schema calls missing."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        found = ((each.name, _convert(value[each.name], each.type)) for each in kind)
        return {name: each for name, each in found if each is not None}
    if pa.types.is_map(kind):
        return {str(name): _convert(each, kind.item_type) for name, each in value}
    if pa.types.is_list(kind):
        return [_convert(each, kind.value_type) for each in value]
    return value


def _encode_other(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise NotImplementedError(type(value))


_encoder = msgspec.json.Encoder(enc_hook=_encode_other, decimal_format="number")
