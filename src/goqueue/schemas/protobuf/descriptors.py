"""Protobuf schemas in a pool of descriptors, with what they import."""

import base64
import binascii
from typing import Final

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import DecodeError

from goqueue.schemas.documents import check_size
from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.protobuf.parsing import File, parse_file
from goqueue.schemas.schema import Resolved

FILE_NAME: Final = "schema.proto"
_WELL_KNOWN: Final = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2,
        source_context_pb2,
        type_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
}


def read_file(text: str, name: str) -> tuple[File, bool]:
    """From a .proto file, or from a base64 descriptor, as some clients send it; which of them."""
    check_size(text)
    if (data := _decode_base64(text)) is None:
        return parse_file(text, name), False
    try:
        file = File.FromString(data)
    except DecodeError as error:
        raise InvalidSchema(f"the schema is no FileDescriptorProto: {error}") from error
    file.name = name
    file.ClearField("source_code_info")
    file.ClearField("options")
    return file, True


def build(file: File, references: Resolved) -> FileDescriptor:
    """With its names resolved; raises `InvalidSchema` where Protobuf's own rules are broken."""
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    for name, each in references.items():
        _add(pool, read_file(each.text, name)[0], added)
    return _add(pool, file, added)


def _add(pool: descriptor_pool.DescriptorPool, file: File, added: set[str]) -> FileDescriptor:
    for name in file.dependency:
        _add_well_known(pool, name, added)
        if name not in added:
            raise InvalidSchema(f"import {name!r} is not among the references")
    try:
        pool.Add(file)
        added.add(file.name)
        return pool.FindFileByName(file.name)
    except (TypeError, KeyError, ValueError) as error:
        text = str(error).replace("Couldn't build proto file into descriptor pool", "").strip(" :")
        raise InvalidSchema(f"invalid Protobuf schema: {text[:500]}") from error


def _add_well_known(pool: descriptor_pool.DescriptorPool, name: str, added: set[str]) -> None:
    if name in added or name not in _WELL_KNOWN:
        return
    file = File.FromString(_WELL_KNOWN[name])
    for other in file.dependency:
        _add_well_known(pool, other, added)
    pool.Add(file)
    added.add(name)


def _decode_base64(text: str) -> bytes | None:
    if ";" in text or "{" in text:
        return None
    try:
        return base64.b64decode(text.strip(), validate=True) or None
    except (binascii.Error, ValueError):
        return None
