"""Avro's types, resolved: a name that is used again is the same object."""

from typing import Any, NamedTuple

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


class Logical(NamedTuple):
    """What the values of a type stand for, as `date`; one that is not known counts for none."""

    name: str
    precision: int = 0  # of a decimal
    scale: int = 0


class AvroType:
    """`kind` is the word of the specification."""

    __slots__ = ("kind", "logical")

    def __init__(self, kind: str, logical: Logical | None = None) -> None:
        self.kind = kind
        self.logical = logical

    @property
    def name(self) -> str:
        """For people."""
        return self.kind


class Named(AvroType):
    __slots__ = ("aliases", "full_name")

    def __init__(self, kind: str, full_name: str, aliases: tuple[str, ...]) -> None:
        super().__init__(kind)
        self.full_name = full_name
        self.aliases = aliases

    @property
    def name(self) -> str:
        return self.full_name


class Field:
    __slots__ = ("aliases", "default", "has_default", "name", "type")

    def __init__(
        self, name: str, aliases: tuple[str, ...], type_: AvroType, default: Any, has_default: bool
    ) -> None:
        self.name = name
        self.aliases = aliases
        self.type = type_
        self.default = default
        self.has_default = has_default


class Record(Named):
    __slots__ = ("fields",)

    def __init__(self, full_name: str, aliases: tuple[str, ...]) -> None:
        super().__init__("record", full_name, aliases)
        self.fields: list[Field] = []


class Enum(Named):
    __slots__ = ("default", "symbols")

    def __init__(
        self,
        full_name: str,
        aliases: tuple[str, ...],
        symbols: tuple[str, ...],
        default: str | None,
    ) -> None:
        super().__init__("enum", full_name, aliases)
        self.symbols = symbols
        self.default = default


class Fixed(Named):
    __slots__ = ("size",)

    def __init__(self, full_name: str, aliases: tuple[str, ...], size: int) -> None:
        super().__init__("fixed", full_name, aliases)
        self.size = size


class Array(AvroType):
    __slots__ = ("items",)

    def __init__(self, items: AvroType) -> None:
        super().__init__("array")
        self.items = items


class Map(AvroType):
    __slots__ = ("values",)

    def __init__(self, values: AvroType) -> None:
        super().__init__("map")
        self.values = values


class Union(AvroType):
    __slots__ = ("branches",)

    def __init__(self, branches: tuple[AvroType, ...]) -> None:
        super().__init__("union")
        self.branches = branches
