# cython: annotation_typing=False
"""Records as bytes that are passed on: what a delay log is read for.

A record is a head (length, attributes, timestamp delta, offset delta) and a body (key, value,
headers).  A body means the same in any batch, so it is copied as it is: nothing is built of it.

Only for uncompressed batches that this broker wrote.  Damage raises `CorruptBatch`.
"""

from collections.abc import Sequence

from goqueue.model.errors import CorruptBatch


def scan_times(block: bytes, count: int) -> list[tuple[int, int]]:
    """Timestamp delta and offset delta of each record."""
    end = len(block)
    position = 0
    times = []
    for _ in range(count):
        length, position = _read(block, position, end)
        record_end = position + length
        if length < 1 or record_end > end:
            raise CorruptBatch(f"record of {length} bytes at byte {position}, {end} are there")
        timestamp_delta, position = _read(block, position + 1, record_end)
        offset_delta, position = _read(block, position, record_end)
        times.append((timestamp_delta, offset_delta))
        position = record_end
    return times


def take_bodies(
    block: bytes, count: int, base_offset: int, wanted: frozenset[int]
) -> dict[int, bytes]:
    """The bodies of the records with these offsets, as far as they are in the batch."""
    end = len(block)
    position = 0
    bodies: dict[int, bytes] = {}
    for _ in range(count):
        length, position = _read(block, position, end)
        record_end = position + length
        if length < 1 or record_end > end:
            raise CorruptBatch(f"record of {length} bytes at byte {position}, {end} are there")
        _timestamp_delta, position = _read(block, position + 1, record_end)
        offset_delta, position = _read(block, position, record_end)
        if base_offset + offset_delta in wanted:
            bodies[base_offset + offset_delta] = block[position:record_end]
        position = record_end
    return bodies


def join_bodies(bodies: Sequence[bytes]) -> bytes:
    """Records with these bodies, numbered from 0, with the timestamp of their batch."""
    output = bytearray()
    offset_delta = 0
    for body in bodies:
        folded = offset_delta << 1
        size = 1
        while folded > 0x7F:
            size += 1
            folded >>= 7
        _append(output, 2 + size + len(body))
        output.append(0)
        output.append(0)
        _append(output, offset_delta)
        output += body
        offset_delta += 1  # noqa: SIM113 # compiled, a C integer
    return bytes(output)


def _read(block: bytes, position: int, end: int) -> tuple[int, int]:
    """The zigzag varint at `position`, and the position after it."""
    folded = 0
    shift = 0
    while True:
        if position >= end or shift > 63:
            raise CorruptBatch(f"no varint at byte {position}, {end} are there")
        octet = block[position]
        position += 1
        folded |= (octet & 0x7F) << shift
        if octet < 0x80:
            break
        shift += 7
    value = folded >> 1
    return (~value if folded & 1 else value), position


def _append(output: bytearray, value: int) -> None:
    folded = value << 1
    while folded > 0x7F:
        output.append((folded & 0x7F) | 0x80)
        folded >>= 7
    output.append(folded)
