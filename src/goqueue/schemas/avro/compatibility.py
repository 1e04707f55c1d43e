"""Whether a reader's Avro schema reads what a writer's wrote: the spec's schema resolution."""

from typing import Final

from goqueue.schemas.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Union,
)
from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.limits import COMPARISONS_MAX
from goqueue.schemas.schema import Incompatibility

# What a reader takes a writer's value for.
_PROMOTED: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}

Found = list[Incompatibility]


def unreadable(reader: AvroType, writer: AvroType) -> Found:
    return _Comparison().compare(reader, writer, "")


class _Comparison:
    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Found] = {}
        self._comparisons = 0

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> Found:
        """A pair that is under comparison further up counts as readable: recursive types are."""
        self._comparisons += 1
        if self._comparisons > COMPARISONS_MAX:
            raise InvalidSchema(f"the schemas take more than {COMPARISONS_MAX} comparisons")
        pair = id(reader), id(writer)
        if pair not in self._known:
            self._known[pair] = []
            self._known[pair] = self._look(reader, writer, path)
        return self._known[pair]

    def _look(self, reader: AvroType, writer: AvroType, path: str) -> Found:
        if isinstance(writer, Union):
            found: Found = []
            for branch in writer.branches:
                found += self.compare(reader, branch, path)
            return found
        if isinstance(reader, Union):
            return self._choose(reader, writer, path)
        match reader, writer:
            case Record(), Record():
                return self._names(reader, writer, path) or self._fields(reader, writer, path)
            case Enum(), Enum():
                return self._names(reader, writer, path) or _symbols(reader, writer, path)
            case Fixed(), Fixed():
                return self._names(reader, writer, path) or _size(reader, writer, path)
            case Array(), Array():
                return self.compare(reader.items, writer.items, f"{path}/items")
            case Map(), Map():
                return self.compare(reader.values, writer.values, f"{path}/values")
            case _:
                return _primitives(reader, writer, path)

    def _choose(self, reader: Union, writer: AvroType, path: str) -> Found:
        for index, branch in enumerate(reader.branches):
            if not self.compare(branch, writer, f"{path}/{index}"):
                return []
        names = ", ".join(branch.name for branch in reader.branches)
        text = f"none of the reader's branches ({names}) reads {writer.name}"
        return [Incompatibility("MISSING_UNION_BRANCH", path, text)]

    def _names(self, reader: Named, writer: Named, path: str) -> Found:
        if writer.full_name in (reader.full_name, *reader.aliases):
            return []
        text = f"the reader expects {reader.full_name}, the writer wrote {writer.full_name}"
        return [Incompatibility("NAME_MISMATCH", f"{path}/name", text)]

    def _fields(self, reader: Record, writer: Record, path: str) -> Found:
        written = {field.name: field for field in writer.fields}
        found: Found = []
        for index, field in enumerate(reader.fields):
            place = f"{path}/fields/{index}"
            match = _find(field, written)
            if match is not None:
                found += self.compare(field.type, match.type, f"{place}/type")
            elif not field.has_default:
                text = f"field {field.name!r} has no default, and the writer did not write it"
                found.append(Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", place, text))
        return found


def _primitives(reader: AvroType, writer: AvroType, path: str) -> Found:
    if reader.kind == writer.kind or reader.kind in _PROMOTED.get(writer.kind, ()):
        return []
    text = f"the reader expects {reader.name}, the writer wrote {writer.name}"
    return [Incompatibility("TYPE_MISMATCH", path, text)]


def _find(field: Field, written: dict[str, Field]) -> Field | None:
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None


def _symbols(reader: Enum, writer: Enum, path: str) -> Found:
    known = frozenset(reader.symbols)
    missing = [symbol for symbol in writer.symbols if symbol not in known]
    if not missing or reader.default is not None:
        return []
    text = f"the reader has no symbol {', '.join(missing[:5])}, and no default"
    return [Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text)]


def _size(reader: Fixed, writer: Fixed, path: str) -> Found:
    if reader.size == writer.size:
        return []
    text = f"the reader expects {reader.size} bytes, the writer wrote {writer.size}"
    return [Incompatibility("FIXED_SIZE_MISMATCH", f"{path}/size", text)]
