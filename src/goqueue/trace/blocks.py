"""Events on disk and between nodes: blocks of columns, as records of `__traces`.

    'GQ' 'T' version   3 + 1 bytes
    length of the head 4 bytes, big-endian
    head               MessagePack: how many events, their times, which partitions and offsets
    columns            MessagePack of a table of texts and one list for each field, Zstandard

Whoever looks for a message reads heads, and unfolds only the blocks that may have an event of it.
Times and numbers are written as differences, texts once for each block.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import cramjam
import msgspec

from goqueue.model.errors import CorruptData
from goqueue.trace.events import Place, Step, TraceEvent

MAGIC: Final = b"GQT\x01"
HEAD_AT: Final = 8
COLUMNS_BYTES_MAX: Final = 64 * 1024 * 1024
TRACE_PREFIX: Final = 8  # digits of a message's own trace id that the head has
LEVEL: Final = 1

_FIELDS: Final = TraceEvent.__struct_fields__
_TEXTS: Final = frozenset(
    _FIELDS.index(name)
    for name in (
        "topic", "topic_id", "group", "member", "client", "address", "error", "detail",
        "link_topic", "link_topic_id",
    )
)  # fmt: skip
_DIFFERENCES: Final = frozenset(_FIELDS.index(name) for name in ("time_us", "number", "first"))
_LAST: Final = _FIELDS.index("last")
_FIRST: Final = _FIELDS.index("first")


class BlockHead(msgspec.Struct, array_like=True, frozen=True):
    count: int
    first_us: int
    last_us: int
    # topic id, partition and space, with the first and last offset of all events there
    ranges: list[tuple[bytes, int, int, int, int]]
    groups: list[str]
    trace_ids: list[str]  # how those begin that messages brought

    def may_hold(self, place: Place) -> bool:
        """Whether a block may have events of the message, or of a link to it."""
        topic_id, partition, offset, space = place
        return any(
            each[0] == topic_id
            and each[1] == partition
            and each[2] == space
            and each[3] <= offset <= each[4]
            for each in self.ranges
        )


_encoder = msgspec.msgpack.Encoder()
_head_decoder: msgspec.msgpack.Decoder[BlockHead] = msgspec.msgpack.Decoder(BlockHead)


def encode_block(events: Sequence[TraceEvent]) -> bytes:
    """At least one event."""
    head = _encoder.encode(_head_of(events))
    columns: list[Sequence[Any]] = list(zip(*map(msgspec.structs.astuple, events), strict=True))
    table: dict[str | bytes, int] = {}
    firsts = columns[_FIRST]
    for at, column in enumerate(columns):
        if at in _TEXTS:
            columns[at] = [table.setdefault(text, len(table)) for text in column]
        elif at in _DIFFERENCES:
            columns[at] = _differences(column)
        elif at == _LAST:
            columns[at] = [last - first for first, last in zip(firsts, column, strict=True)]
    packed = cramjam.zstd.compress(_encoder.encode((list(table), columns)), LEVEL)
    return b"".join((MAGIC, len(head).to_bytes(4, "big"), head, packed))


def _head_of(events: Sequence[TraceEvent]) -> BlockHead:
    ranges: dict[tuple[bytes, int, int], tuple[int, int]] = {}
    groups, trace_ids = dict[str, None](), dict[str, None]()
    for event in events:
        if event.first >= 0:
            key = event.topic_id, event.partition, event.space
            low, high = ranges.get(key, (event.first, event.last))
            ranges[key] = min(low, event.first), max(high, event.last)
            if event.link_first >= 0:
                key = event.link_topic_id, event.link_partition, event.link_space
                end = event.link_first + event.last - event.first
                low, high = ranges.get(key, (event.link_first, end))
                ranges[key] = min(low, event.link_first), max(high, end)
        if event.step == Step.GROUP_REBALANCED:
            groups[event.group] = None
        elif event.step == Step.TRACE_LINKED:
            trace_ids[event.detail[:TRACE_PREFIX]] = None
    return BlockHead(
        len(events),
        min(event.time_us for event in events),
        max(event.time_us for event in events),
        [(*key, *bounds) for key, bounds in ranges.items()],
        list(groups),
        list(trace_ids),
    )


def _differences(numbers: Iterable[int]) -> list[int]:
    before, found = 0, []
    for number in numbers:
        found.append(number - before)
        before = number
    return found


def read_head(data: bytes) -> BlockHead:
    """Raises `CorruptData`."""
    try:
        return _head_decoder.decode(_split(data)[0])
    except msgspec.DecodeError as error:
        raise CorruptData(f"a block of trace events: {error}") from error


def decode_block(data: bytes) -> list[TraceEvent]:
    """Raises `CorruptData`."""
    packed = _split(data)[1]
    try:
        unfolded = bytes(cramjam.zstd.decompress(packed))
        table, columns = msgspec.msgpack.decode(unfolded)
        for at, column in enumerate(columns):
            if at in _TEXTS:
                columns[at] = [table[place] for place in column]
            elif at in _DIFFERENCES:
                columns[at] = _sums(column)
            elif at == _LAST:
                pairs = zip(columns[_FIRST], column, strict=True)
                columns[at] = [first + difference for first, difference in pairs]
        return [TraceEvent(*row) for row in zip(*columns, strict=True)]
    except (
        cramjam.DecompressionError, msgspec.DecodeError, ValueError, TypeError, IndexError
    ) as error:  # fmt: skip
        raise CorruptData(f"a block of trace events: {error}") from error


def _sums(differences: Iterable[int]) -> list[int]:
    total, found = 0, []
    for difference in differences:
        total += difference
        found.append(total)
    return found


def _split(data: bytes) -> tuple[memoryview, memoryview]:
    view = memoryview(data)
    if len(view) < HEAD_AT or bytes(view[:4]) != MAGIC:
        raise CorruptData(f"a block of trace events starts with {bytes(view[:4])!r}")
    end = HEAD_AT + int.from_bytes(view[4:HEAD_AT], "big")
    return view[HEAD_AT:end], view[end:]
