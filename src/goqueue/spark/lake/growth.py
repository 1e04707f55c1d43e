"""How a table's columns grow with what is found in the values.

Columns are only ever added, and a column's type never changes: a value that does not fit is a bad
row.  Of what Arrow finds in JSON,

* a time in a string stays a string: the next one may be any text;
* a field of which nothing but null, `[]` or `{}` was seen waits until there is something to see;
* a field that cannot be a column is *refused*, with a reason, and so are the rows that hold it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

COLUMNS_MAX: Final = 1000  # leaves; fields named after keys (a map) would grow for ever
DEPTH_MAX: Final = 16
NAME_BYTES_MAX: Final = 255
FORBIDDEN: Final = frozenset(" ,;{}()\n\t=")  # Delta's list; Spark's for Parquet is the same

READABLE: Final = (
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.timestamp("us", "UTC"),
)


class Growth(msgspec.Struct, frozen=True):
    schema: Any  # the known columns, then the new ones
    refused: dict[str, str]  # path of a field -> why it cannot be a column


def grow(known: Any, found: Iterable[Any], *, reserved_prefix: str = "") -> Growth:
    """The schema after meeting `found`, schemas in the order in which their rows came."""
    grower = _Grower(reserved_prefix, leaves=sum(_leaves(each.type) for each in known))
    fields = grower.join(list(known), list(unite(found)), path="", depth=1)
    return Growth(pa.schema(fields), grower.refused)


def objections(wanted: Any, *, reserved_prefix: str = "") -> dict[str, str]:
    """Why fields that somebody declares cannot be columns of JSON values."""
    refused = {each.name: _foreign(each.type) for each in wanted}
    named = objections_to_names(wanted, reserved_prefix=reserved_prefix)
    return {name: reason for name, reason in refused.items() if reason is not None} | named


def objections_to_names(wanted: Any, *, reserved_prefix: str = "") -> dict[str, str]:
    """Why fields cannot be columns, whatever they hold."""
    return grow(pa.schema([]), [wanted], reserved_prefix=reserved_prefix).refused


def _foreign(kind: Any) -> str | None:
    if pa.types.is_struct(kind):
        return next((found for each in kind if (found := _foreign(each.type))), None)
    if pa.types.is_list(kind):
        return _foreign(kind.value_type)
    if kind in READABLE or pa.types.is_decimal(kind):
        return None
    known = "bigint, int, double, float, decimal, string, boolean, timestamp, struct and array"
    return f"{kind} is not read from JSON: there are {known}"


def unite(found: Iterable[Any]) -> Any:
    """One schema of what several saw.

    Whole numbers and fractions are fractions; otherwise the first type wins.
    """
    fields: list[Any] = []
    for schema in found:
        fields = _united_fields(fields, list(schema))
    return pa.schema(fields)


def usable(found: Any) -> Any:
    """The column type for a type that Arrow found in JSON; None as long as there is none."""
    if pa.types.is_null(found):
        return None
    if pa.types.is_timestamp(found):
        return pa.string()
    if pa.types.is_list(found):
        inner = usable(found.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(found):
        inner = [pa.field(each.name, usable(each.type)) for each in found if usable(each.type)]
        return pa.struct(inner) if inner else None
    return found


def widen(known: Any, wanted: Any) -> Any:
    """The known columns as they are, and behind them, also inside of them, those they lack."""
    return pa.schema(_widen(list(known), list(wanted)))


def _widen(known: list[Any], wanted: list[Any]) -> list[Any]:
    fields = {each.name: each for each in known}
    for each in wanted:
        before = fields.get(each.name)
        kind = each.type if before is None else _widened_type(before.type, each.type)
        fields[each.name] = pa.field(each.name, kind)
    return list(fields.values())


def _widened_type(known: Any, wanted: Any) -> Any:
    if pa.types.is_struct(known) and pa.types.is_struct(wanted):
        return pa.struct(_widen(list(known), list(wanted)))
    if pa.types.is_list(known) and pa.types.is_list(wanted):
        return pa.list_(_widened_type(known.value_type, wanted.value_type))
    return known


def plain_schema(schema: Any) -> Any:
    """A schema as Arrow would have found it: without large types, names of items, field ids."""
    return pa.schema([pa.field(each.name, plain_type(each.type)) for each in schema])


def plain_type(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain_type(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _united_fields(first: list[Any], second: list[Any]) -> list[Any]:
    by_name = {each.name: each for each in first}
    for each in second:
        before = by_name.get(each.name)
        kind = each.type if before is None else _united_type(before.type, each.type)
        by_name[each.name] = pa.field(each.name, kind)
    return list(by_name.values())


def _united_type(first: Any, second: Any) -> Any:
    if usable(first) is None:
        return second
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return pa.struct(_united_fields(list(first), list(second)))
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.list_(_united_type(first.value_type, second.value_type))
    if pa.types.is_integer(first) and pa.types.is_floating(second):
        return second
    if pa.types.is_timestamp(first) and pa.types.is_string(second):
        return second
    return first


class _Grower:
    def __init__(self, reserved_prefix: str, leaves: int) -> None:
        self._reserved_prefix = reserved_prefix
        self._leaves = leaves
        self.refused: dict[str, str] = {}

    def join(self, known: list[Any], found: list[Any], path: str, depth: int) -> list[Any]:
        """The known fields, grown where they have fields of their own, and then the new ones."""
        fields = {each.name: each for each in known}
        names = {each.lower(): each for each in fields}
        for each in found:
            here = f"{path}{each.name}"
            if each.name in fields:
                kind = self._grown_type(fields[each.name].type, each.type, here, depth)
                fields[each.name] = pa.field(each.name, kind)
            elif (kind := usable(each.type)) is not None:
                reason = self._objection(each.name, kind, names, depth)
                if reason is None:
                    fields[each.name] = pa.field(each.name, kind)
                    names[each.name.lower()] = each.name
                    self._leaves += _leaves(kind)
                else:
                    self.refused[here] = reason
        return list(fields.values())

    def _grown_type(self, known: Any, found: Any, path: str, depth: int) -> Any:
        if pa.types.is_struct(known) and pa.types.is_struct(found):
            return pa.struct(self.join(list(known), list(found), f"{path}.", depth + 1))
        if pa.types.is_list(known) and pa.types.is_list(found):
            return pa.list_(
                self._grown_type(known.value_type, found.value_type, f"{path}[]", depth + 1)
            )
        return known

    def _objection(self, name: str, kind: Any, names: dict[str, str], depth: int) -> str | None:
        if depth == 1 and self._reserved_prefix and name.startswith(self._reserved_prefix):
            return f"names that start with {self._reserved_prefix!r} are the archive's own"
        if self._leaves + _leaves(kind) > COLUMNS_MAX:
            return f"the table has {self._leaves} columns and may have {COLUMNS_MAX}"
        if depth + _depth(kind) > DEPTH_MAX:
            return f"it is nested more than {DEPTH_MAX} deep"
        for each in _names(name, kind):
            if not each or FORBIDDEN & set(each) or len(each.encode()) > NAME_BYTES_MAX:
                return f"{each[:80]!r} cannot be the name of a column"
        if name.lower() in names:
            return f"it differs from column {names[name.lower()]!r} only in upper and lower case"
        if _clash(kind):
            return "it has names that differ only in upper and lower case"
        return None


def _leaves(kind: Any) -> int:
    if pa.types.is_struct(kind):
        return sum(_leaves(each.type) for each in kind)
    return _leaves(kind.value_type) if pa.types.is_list(kind) else 1


def _depth(kind: Any) -> int:
    if pa.types.is_struct(kind):
        return 1 + max((_depth(each.type) for each in kind), default=0)
    return 1 + _depth(kind.value_type) if pa.types.is_list(kind) else 0


def _names(name: str, kind: Any) -> Iterator[str]:
    yield name
    while pa.types.is_list(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        for each in kind:
            yield from _names(each.name, each.type)


def _clash(kind: Any) -> bool:
    while pa.types.is_list(kind):
        kind = kind.value_type
    if not pa.types.is_struct(kind):
        return False
    names = [each.name.lower() for each in kind]
    return len(set(names)) < len(names) or any(_clash(each.type) for each in kind)
