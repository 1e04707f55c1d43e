"""An Avro schema for columns, where the registry has none yet: as Spark's `to_avro` would write."""

from typing import Any, Final

import msgspec
import pyarrow as pa

from goqueue.schemas import SchemaText
from goqueue.spark.values.errors import UnwritableRows

PLAIN: Final[dict[Any, Any]] = {
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_schema(kind: Any, name: str) -> SchemaText:
    """Every field may be null, and is when a reader finds nothing."""
    return SchemaText(msgspec.json.encode(_type(kind, name)).decode())


def _type(kind: Any, name: str) -> Any:
    if pa.types.is_struct(kind):
        fields = [
            {"name": each.name, "type": ["null", _type(each.type, f"{name}_{each.name}")]}
            for each in kind
        ]
        return {
            "type": "record",
            "name": name,
            "fields": [{**each, "default": None} for each in fields],
        }
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", _type(kind.item_type, name)]}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type, name)]}
    if pa.types.is_decimal(kind):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if kind not in PLAIN:
        raise UnwritableRows(f"{name} is {kind}, which Avro has no type for: cast it")
    return PLAIN[kind]
