"""The default of a field, which is JSON, as the bytes that Avro writes for it."""

import struct
from typing import Any

import numpy as np

from goqueue.schemas.avro.model import Array, AvroType, Enum, Map, Record, Union
from goqueue.schemas.avro.parsing import fits
from goqueue.spark.columns.varints import varint_array


def default_payload(value: Any, type_: AvroType) -> bytes:
    """`value` fits the type: the parser has made sure."""
    match type_:
        case Union():
            index = next(i for i, each in enumerate(type_.branches) if fits(value, each))
            return varint(index) + default_payload(value, type_.branches[index])
        case Record():
            return b"".join(
                default_payload(value.get(each.name, each.default), each.type)
                for each in type_.fields
            )
        case Array():
            return _block([default_payload(each, type_.items) for each in value])
        case Map():
            return _block(
                [
                    _text(name.encode()) + default_payload(each, type_.values)
                    for name, each in value.items()
                ]
            )
        case Enum():
            return varint(type_.symbols.index(value))
        case _:
            return _primitive(value, type_.kind)


def _primitive(value: Any, kind: str) -> bytes:
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return varint(value)
        case "float":
            return struct.pack("<f", float(value))
        case "double":
            return struct.pack("<d", float(value))
        case "string":
            return _text(value.encode())
        case "bytes":
            return _text(value.encode("latin-1"))
        case _:
            fixed: bytes = value.encode("latin-1")
            return fixed


def _block(items: list[bytes]) -> bytes:
    return varint(len(items)) + b"".join(items) + b"\0" if items else b"\0"


def _text(data: bytes) -> bytes:
    return varint(len(data)) + data


def varint(number: int) -> bytes:
    data: bytes = varint_array(np.array([number], np.int64))[0].as_py()
    return data
