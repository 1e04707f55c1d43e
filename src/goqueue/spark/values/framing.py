"""Which schema each value of a column names, as the broker reads it.

wire format    a zero byte, the id in four bytes, the payload
header         `schema-id`: the id as text; the payload is the whole value
header         `__value_schema_id`, Confluent's: a zero byte, the id in four bytes
none           the subject's latest
"""

from typing import Any, Final, NamedTuple

import numpy as np

ID_BYTES: Final = 5  # with the magic byte
ID_DIGITS_MAX: Final = 10
NOT_NAMED: Final = -1
NO_NUMBER: Final = -2  # a header that is none
NO_VALUE: Final = -3


class Framed(NamedTuple):
    """For each row the id, or one of the numbers above, and where its payload lies."""

    ids: Any
    octets: Any
    starts: Any
    ends: Any
    has_prefix: Any


def frames_of(values: Any) -> Framed:
    """Of a binary Arrow array."""
    _, offsets, data = values.buffers()
    octets = data if data is not None else b""
    places = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1].astype(np.int64)
    starts, ends = places[:-1], places[1:]
    bytes_ = np.frombuffer(octets, np.uint8)
    ids = np.full(len(values), NOT_NAMED, np.int64)
    has_prefix = ends - starts >= ID_BYTES
    if bytes_.size:
        has_prefix &= bytes_.take(starts, mode="clip") == 0
    rows = np.flatnonzero(has_prefix)
    found = np.zeros(rows.size, np.int64)
    for step in range(1, ID_BYTES):
        found = found << 8 | bytes_[starts[rows] + step]
    ids[rows] = found
    if values.null_count:
        ids[values.is_null().to_numpy(zero_copy_only=False)] = NO_VALUE
    return Framed(ids, octets, starts + np.where(has_prefix, ID_BYTES, 0), ends, has_prefix)


def needs_headers(framed: Framed) -> bool:
    return bool((framed.ids == NOT_NAMED).any())


def read_headers(framed: Framed, headers: Any) -> None:
    """Sets the ids of values that name none by what their headers say."""
    for row in np.flatnonzero(framed.ids == NOT_NAMED).tolist():
        for each in headers[row].as_py() or ():
            if each["key"] in HEADERS:
                framed.ids[row] = HEADERS[each["key"]](each["value"])
                break


def _read_prefix(content: bytes | None) -> int:
    if content is None or len(content) < ID_BYTES or content[0]:
        return NO_NUMBER  # a GUID, or nothing that is known
    return int.from_bytes(content[1:ID_BYTES])


def _read_text(text: bytes | None) -> int:
    if text is None or not text.isdigit() or len(text) > ID_DIGITS_MAX:
        return NO_NUMBER
    return int(text)


HEADERS: Final = {"schema-id": _read_text, "__value_schema_id": _read_prefix}
