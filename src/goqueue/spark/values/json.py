"""JSON payloads as columns: by Arrow's parser, row by row where a schema has maps or free JSON."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from goqueue.schemas.json import JsonSchema
from goqueue.spark.lake.json_values import decode
from goqueue.spark.values.json_columns import Columns, spark_type
from goqueue.spark.values.payloads import Bad, Payloads, Read


class _Misfit(Exception):
    """A value is not of the column's type."""


class JsonReader:
    """Fields are found by their names, whichever schema wrote them."""

    def __init__(self, schema: JsonSchema) -> None:
        self._columns = Columns(schema)
        self.type: Any = spark_type(self._columns.type)

    def read(self, payloads: Payloads, writer: JsonSchema) -> Read:
        values = payloads.column()
        return self._read_plain(values) if self._columns.is_plain else self._read_rows(values)

    def _read_plain(self, values: Any) -> Read:
        found = decode(values, pa.schema(list(self.type)), grows=False)
        bad = Bad(found.bad)
        if not found.columns:
            return Read(pa.nulls(len(values), self.type), bad)
        table = pa.concat_tables(found.columns).combine_chunks()
        rows = pa.StructArray.from_arrays(
            [_whole(each) for each in table.columns], fields=list(self.type)
        )
        return Read(_spread(rows, found.good, len(values)), bad)

    def _read_rows(self, values: Any) -> Read:
        bad = Bad()
        rows: list[Any] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                value.decode()
                rows.append(_convert(msgspec.json.decode(value), self._columns.type))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                bad[index] = f"not JSON: {error}"
                rows.append(None)
            except _Misfit as error:
                bad[index] = str(error)
                rows.append(None)
        return Read(pa.array(rows, self.type), bad)


def _convert(value: Any, kind: Any) -> Any:
    """As `pa.array` takes it; raises `_Misfit`."""
    if pa.types.is_large_string(kind):
        return msgspec.json.encode(value).decode()
    if value is None:
        return None
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {each.name: _convert(value.get(each.name), each.type) for each in kind}
    if pa.types.is_map(kind) and isinstance(value, dict):
        return [(name, _convert(each, kind.item_type)) for name, each in value.items()]
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_convert(each, kind.value_type) for each in value]
    if pa.types.is_string(kind) and isinstance(value, str):
        return value
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_floating(kind) and is_number:
        return float(value)
    if pa.types.is_integer(kind) and is_number and value == int(value) and abs(value) < 1 << 63:
        return int(value)
    raise _Misfit(f"{msgspec.json.encode(value).decode()[:100]} is no {kind}")


def _spread(rows: Any, places: list[int], count: int) -> Any:
    """The rows where they belong, nulls between them."""
    if len(places) == count:
        return rows
    numbers = np.full(count, -1, np.int64)
    numbers[places] = np.arange(len(places))
    return rows.take(pa.array(numbers, pa.int64(), mask=numbers < 0))


def _whole(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
