"""Arrow's types in the words of Spark's SQL: as a schema is given, and as Spark shows it."""

from typing import Any, Final

import pyarrow as pa

NAMES: Final = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def ddl(kind: Any) -> str:
    """With names in backticks, as `create table` takes them."""
    return _text(kind, "struct<{}>", lambda name: "`" + name.replace("`", "``") + "`: ", ", ")


def simple(kind: Any) -> str:
    """As `simpleString` of Spark's types has it."""
    return _text(kind, "struct<{}>", lambda name: f"{name}:", ",")


def _text(kind: Any, struct: str, name_of: Any, separator: str) -> str:
    def text(inner: Any) -> str:
        return _text(inner, struct, name_of, separator)

    if pa.types.is_struct(kind):
        fields = (name_of(each.name) + text(each.type) for each in kind)
        return struct.format(separator.join(fields))
    if pa.types.is_map(kind):
        return f"map<{text(kind.key_type)},{text(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{text(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return NAMES[kind]
