"""A .proto file, proto2 or proto3, as a `FileDescriptorProto`.

Names of types are left as they are written: Protobuf's own pool finds what they mean, and checks
the rest.  Options that change the bytes (packed, map entries) are kept, others are left out.
"""

from typing import Final

from google.protobuf import descriptor_pb2

from goqueue.schemas.limits import SCHEMA_DEPTH_MAX
from goqueue.schemas.protobuf.tokens import END, Tokens

Field = descriptor_pb2.FieldDescriptorProto
Message = descriptor_pb2.DescriptorProto
Enum = descriptor_pb2.EnumDescriptorProto
File = descriptor_pb2.FileDescriptorProto

SCALARS: Final = {
    "double": Field.TYPE_DOUBLE,
    "float": Field.TYPE_FLOAT,
    "int32": Field.TYPE_INT32,
    "int64": Field.TYPE_INT64,
    "uint32": Field.TYPE_UINT32,
    "uint64": Field.TYPE_UINT64,
    "sint32": Field.TYPE_SINT32,
    "sint64": Field.TYPE_SINT64,
    "fixed32": Field.TYPE_FIXED32,
    "fixed64": Field.TYPE_FIXED64,
    "sfixed32": Field.TYPE_SFIXED32,
    "sfixed64": Field.TYPE_SFIXED64,
    "bool": Field.TYPE_BOOL,
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
}
_LABELS: Final = {
    "optional": Field.LABEL_OPTIONAL,
    "required": Field.LABEL_REQUIRED,
    "repeated": Field.LABEL_REPEATED,
}
FIELD_NUMBER_MAX: Final = (1 << 29) - 1
_ENUM_NUMBER_MAX: Final = (1 << 31) - 1


def parse_file(text: str, name: str) -> File:
    """Raises `InvalidSchema` with the line."""
    return _Parser(Tokens(text), File(name=name, syntax="proto2")).parse()


class _Parser:
    def __init__(self, tokens: Tokens, file: File) -> None:
        self._tokens = tokens
        self._file = file
        self._depth = 0

    def parse(self) -> File:
        tokens, file = self._tokens, self._file
        while tokens.peek() != END:
            match tokens.peek():
                case "syntax":
                    self._syntax()
                case "edition":
                    tokens.refuse("editions are not supported; use proto2 or proto3")
                case "package":
                    tokens.take()
                    file.package = tokens.full_name()
                    tokens.expect(";")
                case "import":
                    self._import()
                case "option":
                    self._option()
                case "message":
                    self._message(file.message_type.add())
                case "enum":
                    self._enum(file.enum_type.add())
                case "service":
                    self._skip_block()
                case "extend":
                    tokens.refuse("extensions are not supported")
                case ";":
                    tokens.take()
                case other:
                    tokens.refuse(f"unexpected {other!r}")
        return file

    @property
    def _is_proto3(self) -> bool:
        return self._file.syntax == "proto3"

    def _syntax(self) -> None:
        self._tokens.take()
        self._tokens.expect("=")
        syntax = self._tokens.string()
        if syntax not in ("proto2", "proto3"):
            self._tokens.refuse(f"syntax {syntax!r} is neither proto2 nor proto3")
        self._file.syntax = syntax
        self._tokens.expect(";")

    def _import(self) -> None:
        self._tokens.take()
        is_public = self._tokens.accept("public")
        if not is_public:
            self._tokens.accept("weak")
        self._file.dependency.append(self._tokens.string())
        if is_public:
            self._file.public_dependency.append(len(self._file.dependency) - 1)
        self._tokens.expect(";")

    # --- messages ---------------------------------------------------------------------------------

    def _message(self, message: Message) -> None:
        tokens = self._tokens
        tokens.take()
        message.name = tokens.word()
        self._body(message)

    def _body(self, message: Message) -> None:
        tokens = self._tokens
        self._depth += 1
        if self._depth > SCHEMA_DEPTH_MAX:
            tokens.refuse(f"nested deeper than {SCHEMA_DEPTH_MAX} levels")
        tokens.expect("{")
        while not tokens.accept("}"):
            match tokens.peek():
                case "message":
                    self._message(message.nested_type.add())
                case "enum":
                    self._enum(message.enum_type.add())
                case "oneof":
                    self._oneof(message)
                case "option":
                    self._option()
                case "reserved":
                    self._reserve(message)
                case "extensions":
                    self._extensions(message)
                case "extend":
                    tokens.refuse("extensions are not supported")
                case ";":
                    tokens.take()
                case "map":
                    self._map_or_field(message)
                case _:
                    self._field(message, None)
        self._depth -= 1
        _number_optional(message)

    def _map_or_field(self, message: Message) -> None:
        tokens = self._tokens
        tokens.take()
        if not tokens.accept("<"):
            tokens.refuse("'<' is expected after map")
        key = tokens.word()
        tokens.expect(",")
        value = tokens.full_name()
        tokens.expect(">")
        field = message.field.add(label=Field.LABEL_REPEATED)
        self._name_and_number(field)
        entry = message.nested_type.add(name=_entry_name(field.name))
        entry.options.map_entry = True
        for number, (name, type_) in enumerate((("key", key), ("value", value)), 1):
            part = entry.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
            _set_type(part, type_)
        field.type = Field.TYPE_MESSAGE
        field.type_name = entry.name

    def _field(self, message: Message, oneof: int | None) -> None:
        tokens = self._tokens
        field = message.field.add(label=Field.LABEL_OPTIONAL)
        if oneof is not None:
            field.oneof_index = oneof
        elif tokens.peek() in _LABELS:
            label = tokens.take()
            field.label = _LABELS[label]
            if label == "optional" and self._is_proto3:
                field.proto3_optional = True
            if label == "required" and self._is_proto3:
                tokens.refuse("proto3 has no required fields")
        elif not self._is_proto3 and tokens.peek() != "group":
            tokens.refuse("a proto2 field is optional, required or repeated")
        if tokens.peek() == "group":
            tokens.refuse("groups are not supported")
        _set_type(field, tokens.full_name())
        self._name_and_number(field)

    def _name_and_number(self, field: Field) -> None:
        tokens = self._tokens
        field.name = tokens.word()
        tokens.expect("=")
        number = tokens.integer()
        if not 1 <= number <= FIELD_NUMBER_MAX:
            tokens.refuse(f"field number {number} is outside 1 to {FIELD_NUMBER_MAX}")
        field.number = number
        for name, value in self._field_options():
            if name == "packed":
                field.options.packed = value == "true"
            elif name == "default" and not self._is_proto3:
                field.default_value = value
        tokens.expect(";")

    def _field_options(self) -> list[tuple[str, str]]:
        tokens = self._tokens
        found: list[tuple[str, str]] = []
        if tokens.accept("["):
            while True:
                name = self._option_name()
                tokens.expect("=")
                found.append((name, self._value()))
                if not tokens.accept(","):
                    break
            tokens.expect("]")
        return found

    def _oneof(self, message: Message) -> None:
        tokens = self._tokens
        tokens.take()
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=tokens.word())
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.peek() == "option":
                self._option()
            elif not tokens.accept(";"):
                self._field(message, index)

    def _reserve(self, message: Message) -> None:
        tokens = self._tokens
        tokens.take()
        if tokens.peek_kind() == "string":
            message.reserved_name.append(tokens.string())
            while tokens.accept(","):
                message.reserved_name.append(tokens.string())
        else:
            for start, end in self._ranges(FIELD_NUMBER_MAX):
                message.reserved_range.add(start=start, end=end + 1)
        tokens.expect(";")

    def _extensions(self, message: Message) -> None:
        self._tokens.take()
        for start, end in self._ranges(FIELD_NUMBER_MAX):
            message.extension_range.add(start=start, end=end + 1)
        self._field_options()
        self._tokens.expect(";")

    def _ranges(self, largest: int) -> list[tuple[int, int]]:
        tokens = self._tokens
        found = []
        while True:
            start = end = tokens.integer()
            if tokens.accept("to"):
                end = largest if tokens.accept("max") else tokens.integer()
            if not -_ENUM_NUMBER_MAX <= start <= end <= _ENUM_NUMBER_MAX:
                tokens.refuse(f"{start} to {end} is no range")
            found.append((start, end))
            if not tokens.accept(","):
                return found

    # --- enums ------------------------------------------------------------------------------------

    def _enum(self, enum: Enum) -> None:
        tokens = self._tokens
        tokens.take()
        enum.name = tokens.word()
        tokens.expect("{")
        while not tokens.accept("}"):
            match tokens.peek():
                case "option":
                    if self._option() == ("allow_alias", "true"):
                        enum.options.allow_alias = True
                case "reserved":
                    self._reserve_in_enum(enum)
                case ";":
                    tokens.take()
                case _:
                    name = tokens.word()
                    tokens.expect("=")
                    number = tokens.integer()
                    if not -_ENUM_NUMBER_MAX - 1 <= number <= _ENUM_NUMBER_MAX:
                        tokens.refuse(f"{number} does not fit an int32")
                    self._field_options()
                    tokens.expect(";")
                    enum.value.add(name=name, number=number)

    def _reserve_in_enum(self, enum: Enum) -> None:
        tokens = self._tokens
        tokens.take()
        if tokens.peek_kind() == "string":
            enum.reserved_name.append(tokens.string())
            while tokens.accept(","):
                enum.reserved_name.append(tokens.string())
        else:
            for start, end in self._ranges(_ENUM_NUMBER_MAX):
                enum.reserved_range.add(start=start, end=end)
        tokens.expect(";")

    # --- options ----------------------------------------------------------------------------------

    def _option(self) -> tuple[str, str]:
        self._tokens.take()
        name = self._option_name()
        self._tokens.expect("=")
        value = self._value()
        self._tokens.expect(";")
        return name, value

    def _option_name(self) -> str:
        tokens = self._tokens
        parts = []
        while True:
            if tokens.accept("("):
                parts.append(f"({tokens.full_name()})")
                tokens.expect(")")
            else:
                parts.append(tokens.word())
            if not tokens.accept("."):
                return ".".join(parts)

    def _value(self) -> str:
        tokens = self._tokens
        if tokens.peek() == "{":
            self._skip_braces()
            return ""
        if tokens.peek_kind() == "string":
            return tokens.string()
        sign = "-" if tokens.accept("-") else ""
        tokens.accept("+")
        if tokens.peek_kind() == "number":
            return sign + tokens.take()
        return sign + tokens.full_name()

    def _skip_block(self) -> None:
        """Services say nothing about messages."""
        while self._tokens.peek() not in ("{", END):
            self._tokens.take()
        self._skip_braces()

    def _skip_braces(self) -> None:
        self._tokens.expect("{")
        depth = 1
        while depth:
            token = self._tokens.take()
            if token == END:
                self._tokens.refuse("'}' is missing")
            depth += (token == "{") - (token == "}")


def _set_type(field: Field, name: str) -> None:
    scalar = SCALARS.get(name)
    if scalar is None:
        field.type_name = name  # a message or an enum: the pool finds out
    else:
        field.type = scalar


def _number_optional(message: Message) -> None:
    """A proto3 `optional` field is the only one of a oneof that nobody sees."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _entry_name(field: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"
