"""Fetched bytes to rows whose values are read by their schemas."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from goqueue.spark.columns import Decoded, Decoder
from goqueue.spark.source.plan import OffsetRange
from goqueue.spark.source.read_plan import ReadPlan
from goqueue.spark.source.value_plan import ValuePlan
from goqueue.spark.values.errors import BadValue
from goqueue.spark.values.payloads import Bad

Aborted = Sequence[tuple[int, int]]
Decode = Callable[[memoryview, int, Aborted], Decoded]


def typed_decoder(read_plan: ReadPlan, values: ValuePlan, wanted: OffsetRange) -> Decode:
    return _TypedDecoder(read_plan, values, wanted).decode


class _TypedDecoder:
    def __init__(self, read_plan: ReadPlan, values: ValuePlan, wanted: OffsetRange) -> None:
        self._plan = values
        self._columns = read_plan.columns
        self._wanted = wanted
        self._reader = values.reader()
        self._read_committed = read_plan.read_committed
        own = [each for each in read_plan.columns if each != values.corrupt]
        needed = [each for each in ("value", "offset") if each not in own]
        self._decoder = Decoder(wanted.topic, wanted.partition, (*own, *needed))
        self._headers = Decoder(wanted.topic, wanted.partition, ("headers",))

    def decode(self, raw: memoryview, start: int, aborted: Aborted) -> Decoded:
        decoded = self._decode(self._decoder, raw, start, aborted)

        def headers() -> Any:
            return self._decode(self._headers, raw, start, aborted).batch.column("headers")

        rows = decoded.batch
        found = self._reader.read(rows.column("value"), headers)
        columns = {name: rows.column(name) for name in rows.schema.names}
        columns |= {"value": found.column}
        if found.bad and self._plan.mode == "failfast":
            self._refuse(rows, found.bad)
        if self._plan.corrupt in self._columns:
            columns[self._plan.corrupt] = _keep(rows.column("value"), found.bad)
        made = pa.RecordBatch.from_pydict({name: columns[name] for name in self._columns})
        if found.bad and self._plan.mode == "dropmalformed":
            made = made.filter(pa.array(_is_good(found.bad, made.num_rows)))
        return decoded._replace(batch=made)

    def _decode(self, decoder: Decoder, raw: memoryview, start: int, aborted: Aborted) -> Decoded:
        return decoder.decode(
            raw,
            start=start,
            end=self._wanted.end,
            aborted=aborted,
            read_committed=self._read_committed,
        )

    def _refuse(self, rows: Any, bad: Bad) -> None:
        row, reason = min(bad.items())
        offset = rows.column("offset")[row].as_py()
        raise BadValue(
            f"{self._wanted.where} offset {offset}: the value is not what its schema says: {reason}"
            " (mode=PERMISSIVE keeps such values as bytes, DROPMALFORMED leaves them out)"
        )


def _is_good(bad: Bad, count: int) -> Any:
    marks = np.ones(count, np.bool_)
    marks[list(bad)] = False
    return marks


def _keep(values: Any, bad: Bad) -> Any:
    """The bytes of bad values; null for others."""
    if not bad:
        return pa.nulls(len(values), pa.binary())
    places = np.arange(len(values))
    return values.take(pa.array(places, pa.int64(), mask=_is_good(bad, len(values))))
