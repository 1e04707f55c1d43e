"""Trace ids: a message's own, which it brought as W3C `traceparent`, or one that names its place.

    byte   0        'g' (0x67)
           1..4     the first bytes of the topic's id
           5        the space (data, delay log), then the partition's three low bytes
           9..15    the offset's seven low bytes

A message that was refused has no place.  Its id names the event that says so: 'r' (0x72), the node
(3 bytes), when its process started (6 bytes) and the event's number (6 bytes).

A derived id needs no index: it says where to look.  `traceparent` is
`00-<trace id, 32 hex>-<span id, 16 hex>-<flags, 2 hex>`.
"""

import hashlib
import re
from typing import Final, NamedTuple

from goqueue.trace.events import Place

MARK: Final = 0x67
REFUSED_MARK: Final = 0x72
TRACEPARENT: Final = "traceparent"
SAMPLED: Final = 0x01

_PARENT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")


class DerivedPlace(NamedTuple):
    """What a derived id says."""

    topic_prefix: bytes
    partition: int
    offset: int
    space: int


class TraceParent(NamedTuple):
    trace_id: str
    span_id: str
    is_sampled: bool


def derived_id(place: Place) -> str:
    return (
        bytes((MARK,))
        + place.topic_id[:4]
        + bytes((place.space,))
        + place.partition.to_bytes(3, "big")
        + place.offset.to_bytes(7, "big")
    ).hex()


def parse_derived(trace_id: str) -> DerivedPlace | None:
    """None for an id that somebody else made."""
    data = bytes.fromhex(trace_id)
    if data[0] != MARK or data[5] > 1:
        return None
    partition, offset = int.from_bytes(data[6:9], "big"), int.from_bytes(data[9:], "big")
    return DerivedPlace(data[1:5], partition, offset, data[5])


def refused_id(node: int, boot: int, number: int) -> str:
    return f"{REFUSED_MARK:02x}{node & 0xFFFFFF:06x}{boot & (2**48 - 1):012x}{number:012x}"


def parse_refused(trace_id: str) -> tuple[int, int, int] | None:
    """The key of the event; None for any other id."""
    if int(trace_id[:2], 16) != REFUSED_MARK:
        return None
    return int(trace_id[2:8], 16), int(trace_id[8:20], 16), int(trace_id[20:], 16)


def is_trace_id(text: str) -> bool:
    """32 hexadecimal digits in lower case, not all of them zero."""
    return _TRACE_ID.fullmatch(text) is not None and text != "0" * 32


def parse_traceparent(value: bytes | None) -> TraceParent | None:
    """None for what is not one, by the rules of W3C Trace Context."""
    found = _PARENT.fullmatch(value or b"")
    if found is None or found[1] == b"ff" or (found[1] == b"00" and found[5] is not None):
        return None
    trace_id, span_id = found[2].decode(), found[3].decode()
    if not is_trace_id(trace_id) or span_id == "0" * 16:
        return None
    return TraceParent(trace_id, span_id, bool(int(found[4], 16) & SAMPLED))


def span_id(*parts: object) -> str:
    """The same parts give the same id: an export that is repeated adds nothing."""
    text = "/".join(map(str, parts)).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()
