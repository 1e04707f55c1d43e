"""JSON values into columns, by Arrow's parser, with the rows that do not fit set apart.

Arrow parses a whole chunk of rows at once, twenty times as fast as row by row, but one bad row
spoils the chunk and it does not care where one row ends.  So each value is first checked to be
one JSON text (0.2 us), and a chunk that fails is halved until the bad rows stand alone.  Whether
a row is bad depends on that row and the schema only, never on its neighbours: a second run over
the same rows sorts them in the same way.

Fields that the schema lacks are not lost: they are reported in `found`, and the caller grows the
schema and decodes again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.json

from goqueue.spark.lake.growth import grow

CHUNK_BYTES_MAX: Final = 16 << 20
REASON_CHARS_MAX: Final = 500

_check = msgspec.json.Decoder(msgspec.Raw).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Decoded(msgspec.Struct):
    """What became of the rows of a batch."""

    good: list[int]  # indices of the rows that are in `columns`, in order
    columns: list[Any]  # pyarrow tables of the schema that was asked for
    bad: list[tuple[int, str]]  # index and reason
    found: list[Any]  # schemas that hold more than the one asked for; then `good` is incomplete


class _Misfit(Exception):
    """A chunk holds a row that does not fit."""


def decode(values: Any, schema: Any, *, reserved_prefix: str = "", grows: bool = True) -> Decoded:
    """Rows of a binary Arrow array as columns of `schema`.  A null is a row of nulls.

    Without `grows`, fields that the schema lacks are left out.
    """
    decoder = _Decoder(schema, reserved_prefix, grows=grows)
    for rows in decoder.check(values):
        decoder.take(rows)
    decoder.result.bad.sort()
    return decoder.result


class _Decoder:
    def __init__(self, schema: Any, reserved_prefix: str, *, grows: bool) -> None:
        self._schema = schema
        self._grows = grows
        self._reserved_prefix = reserved_prefix
        self.result = Decoded(good=[], columns=[], bad=[], found=[])

    def check(self, values: Any) -> Iterator[list[tuple[int, bytes]]]:
        """Chunks of rows that are one JSON object each."""
        rows: list[tuple[int, bytes]] = []
        held_bytes = 0
        for index, value in enumerate(values.to_pylist()):
            if value is None:
                value = b"{}"
            reason = _objection(value)
            if reason is not None:
                self.result.bad.append((index, reason))
                continue
            if held_bytes + len(value) > CHUNK_BYTES_MAX and rows:
                yield rows
                rows, held_bytes = [], 0
            rows.append((index, value))
            held_bytes += len(value)
        if rows:
            yield rows

    def take(self, rows: Sequence[tuple[int, bytes]]) -> None:
        try:
            table = self._judge([value for _, value in rows])
        except (pa.ArrowInvalid, _Misfit) as error:
            if len(rows) == 1:
                index, value = rows[0]
                self.result.bad.append((index, self._reason(value, error)))
                return
            middle = len(rows) // 2
            self.take(rows[:middle])
            self.take(rows[middle:])
            return
        if table is not None:
            self.result.good.extend(index for index, _ in rows)
            self.result.columns.append(table)

    def _judge(self, values: list[bytes]) -> Any:
        """The rows' columns; None when there are fields to add first."""
        if not self._grows:
            return _parse(values, self._schema, "ignore")
        table = _parse(values, self._schema, "infer")
        if table.schema.equals(self._schema):
            return table
        growth = grow(self._schema, [table.schema], reserved_prefix=self._reserved_prefix)
        if growth.refused:
            field, reason = next(iter(growth.refused.items()))
            raise _Misfit(f"{field}: {reason}")
        if not growth.schema.equals(self._schema):
            self.result.found.append(table.schema)
            return None
        return _parse(values, self._schema, "ignore")  # nulls, [] and {} need no column yet

    def _reason(self, value: bytes, error: Exception) -> str:
        """The error, with the name of the field when that is not in it."""
        text = str(error)
        if isinstance(error, pa.ArrowInvalid) and "Column(/" not in text:
            for name, raw in _fields(value).items():
                try:
                    _parse([b"{%b:%b}" % (msgspec.json.encode(name), raw)], self._schema, "ignore")
                except pa.ArrowInvalid:
                    text = f"{name}: {text}"
                    break
        return text[:REASON_CHARS_MAX]


def _objection(value: bytes) -> str | None:
    try:
        value.decode()  # neither parser looks
        _check(value)
    except UnicodeDecodeError as error:
        return f"not UTF-8: {error.reason} (byte {error.start})"
    except (msgspec.DecodeError, RecursionError) as error:
        return f"not JSON: {error}"
    if value.lstrip()[:1] != b"{":
        return "not a JSON object"
    return None


def _parse(values: list[bytes], schema: Any, unexpected: str) -> Any:
    text = b"\n".join(values)
    table = pa.json.read_json(
        pa.BufferReader(text),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=schema,
            unexpected_field_behavior=unexpected,
            newlines_in_values=True,
        ),
    )
    assert table.num_rows == len(values), "a checked value is one row"
    return table
