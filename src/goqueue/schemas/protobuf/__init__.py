"""Protobuf (proto2, proto3): schemas, their compatibility, and payloads."""

import base64
from collections.abc import Sequence

from google.protobuf.descriptor import FileDescriptor

from goqueue.schemas.protobuf import compatibility
from goqueue.schemas.protobuf.descriptors import FILE_NAME, build, read_file
from goqueue.schemas.protobuf.parsing import File
from goqueue.schemas.protobuf.printing import print_file
from goqueue.schemas.protobuf.validation import ProtobufValidator, find_message
from goqueue.schemas.schema import Incompatibility, Resolved, Schema, SchemaType, Validator


class ProtobufSchema:
    schema_type = SchemaType.PROTOBUF

    def __init__(self, text: str, file: FileDescriptor) -> None:
        self.text = text
        self.file = file

    @property
    def normalized(self) -> str:
        return print_file(self._proto())

    @property
    def serialized(self) -> str:
        """The descriptor in base64: what clients get who ask for `format=serialized`."""
        return base64.b64encode(self._proto().SerializeToString()).decode()

    def _proto(self) -> File:
        proto = File()
        self.file.CopyToProto(proto)
        return proto

    def record_name(self, indexes: Sequence[int] = ()) -> str | None:
        message = find_message(self.file, indexes)
        return None if message is None else message.full_name

    def unreadable(self, written: Schema) -> list[Incompatibility]:
        assert isinstance(written, ProtobufSchema)
        return compatibility.unreadable(written.file, self.file)

    def compile(self, *, is_framed: bool = True) -> Validator:
        return ProtobufValidator(self.file, has_indexes=is_framed)


def parse_protobuf(text: str, references: Resolved) -> ProtobufSchema:
    file, is_descriptor = read_file(text, FILE_NAME)
    built = build(file, references)
    schema = ProtobufSchema(text, built)
    if is_descriptor:
        schema.text = schema.normalized
    return schema
