"""A `FileDescriptorProto` as a .proto file: for schemas that were sent as descriptors."""

from collections.abc import Iterator

from google.protobuf import descriptor_pb2

from goqueue.schemas.protobuf.parsing import SCALARS

Field = descriptor_pb2.FieldDescriptorProto
Message = descriptor_pb2.DescriptorProto
Enum = descriptor_pb2.EnumDescriptorProto
File = descriptor_pb2.FileDescriptorProto

_NAMES = {number: name for name, number in SCALARS.items()}
_QUOTED = (Field.TYPE_STRING, Field.TYPE_BYTES)


def print_file(file: File) -> str:
    lines = [f'syntax = "{file.syntax or "proto2"}";']
    if file.package:
        lines += ["", f"package {file.package};"]
    if file.dependency:
        lines.append("")
    for index, name in enumerate(file.dependency):
        public = "public " if index in file.public_dependency else ""
        lines.append(f'import {public}"{name}";')
    for message in file.message_type:
        lines += ["", *_message(message, file.syntax == "proto3")]
    for enum in file.enum_type:
        lines += ["", *_enum(enum)]
    return "\n".join(lines) + "\n"


def _message(message: Message, is_proto3: bool) -> Iterator[str]:
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    yield f"message {message.name} {{"
    yield from _reservations(message, end=1)
    for each in message.extension_range:
        yield f"  extensions {each.start} to {each.end - 1};"
    seen = set()
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index not in seen:
                seen.add(field.oneof_index)
                yield from _oneof(message, field.oneof_index)
        else:
            yield f"  {_field(field, entries, is_proto3)}"
    for nested in message.nested_type:
        if nested.name not in entries:
            yield from _indent(_message(nested, is_proto3))
    for enum in message.enum_type:
        yield from _indent(_enum(enum))
    yield "}"


def _oneof(message: Message, index: int) -> Iterator[str]:
    yield f"  oneof {message.oneof_decl[index].name} {{"
    for field in message.field:
        if field.HasField("oneof_index") and field.oneof_index == index:
            yield f"    {_type(field)} {field.name} = {field.number}{_options(field)};"
    yield "  }"


def _field(field: Field, entries: dict[str, Message], is_proto3: bool) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None and field.label == Field.LABEL_REPEATED:
        type_ = f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>"
    elif field.label == Field.LABEL_REPEATED:
        type_ = f"repeated {_type(field)}"
    elif field.label == Field.LABEL_REQUIRED:
        type_ = f"required {_type(field)}"
    elif field.proto3_optional or not is_proto3:
        type_ = f"optional {_type(field)}"
    else:
        type_ = _type(field)
    return f"{type_} {field.name} = {field.number}{_options(field)};"


def _type(field: Field) -> str:
    return _NAMES.get(field.type) or field.type_name


def _options(field: Field) -> str:
    found = []
    if field.HasField("default_value"):
        value = field.default_value
        if field.type in _QUOTED:
            value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            value = f'"{value}"'
        found.append(f"default = {value}")
    if field.options.HasField("packed"):
        found.append(f"packed = {str(field.options.packed).lower()}")
    return f" [{', '.join(found)}]" if found else ""


def _enum(enum: Enum) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    if enum.options.allow_alias:
        yield "  option allow_alias = true;"
    yield from _reservations(enum, end=0)
    for value in enum.value:
        yield f"  {value.name} = {value.number};"
    yield "}"


def _reservations(where: Message | Enum, *, end: int) -> Iterator[str]:
    for each in where.reserved_range:
        yield f"  reserved {each.start} to {each.end - end};"
    for name in where.reserved_name:
        yield f'  reserved "{name}";'


def _indent(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield f"  {line}"
