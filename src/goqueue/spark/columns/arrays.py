"""Fields as Arrow arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.spark.columns.layout import COLUMN_TYPES, HEADER_TYPE

_MICROSECONDS = 1000  # a millisecond
_MILLISECONDS_MAX = (2**63 - 1) // _MICROSECONDS


def plain_array(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Numbers as they lie in memory.  (`pa.array` would import pandas, to see whether they are of
    its kind; that takes a process longer than all else it imports.)"""
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
    )


def timestamp_array(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """As Spark counts time.  What microseconds cannot hold becomes the last time that they can:
    one odd clock must not make a topic unreadable."""
    bounded = np.clip(milliseconds, -_MILLISECONDS_MAX, _MILLISECONDS_MAX)
    return plain_array(bounded * _MICROSECONDS, COLUMN_TYPES["timestamp"])


def header_lists(offsets: npt.NDArray[np.int32], names: pa.Array, values: pa.Array) -> pa.Array:
    """Lists of headers: the first from `offsets[0]` to `offsets[1]`, and so on."""
    pairs = pa.StructArray.from_arrays([_text(names), values], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pairs,
        type=COLUMN_TYPES["headers"],
        mask=pa.array(offsets[1:] == offsets[:-1]),
    )


def _text(names: pa.Array) -> pa.Array:
    """Bytes that are not UTF-8 become U+FFFD as in Java."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()])
