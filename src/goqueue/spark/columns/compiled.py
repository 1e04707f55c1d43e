"""Records to columns and back with the compiled loops of `onepass.py`."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.model.batch import Buffer
from goqueue.spark.columns import onepass
from goqueue.spark.columns.blocks import Blocks
from goqueue.spark.columns.fields import Fields, HeaderSlots, Integers, Slots
from goqueue.spark.columns.layout import Depth
from goqueue.spark.columns.rows import FRAMING_BYTES_MAX, Bytes, Rows


def scan(blocks: Blocks, depth: Depth, *, with_timestamps: bool) -> Fields:
    """Find the fields of all records; raises `CorruptBatch`."""
    offsets = np.empty(blocks.rows, np.int64)
    timestamps = np.empty(blocks.rows if with_timestamps else 0, np.int64)
    slots = np.empty((2 * depth, blocks.rows), np.int32)
    lists = np.empty(blocks.rows + 1 if depth >= Depth.HEADERS else 0, np.int32)
    onepass.scan(
        _octets(blocks.octets),
        memoryview(blocks.table),
        int(depth),
        offsets.data,
        timestamps.data,
        slots.reshape(-1).data,
        lists.data,
    )
    return Fields(
        offsets=offsets,
        timestamps=timestamps if with_timestamps else None,
        keys=Slots(slots[0], slots[1]) if depth >= Depth.KEYS else None,
        values=Slots(slots[2], slots[3]) if depth >= Depth.VALUES else None,
        headers=_headers(blocks.octets, lists, slots) if depth >= Depth.HEADERS else None,
    )


def _headers(
    octets: Buffer, lists: npt.NDArray[np.int32], slots: npt.NDArray[np.int32]
) -> HeaderSlots:
    found = np.empty((4, int(lists[-1])), np.int32)
    onepass.scan_headers(
        _octets(octets), lists.data, slots[4].data, slots[5].data, found.reshape(-1).data
    )
    return HeaderSlots(lists, Slots(found[0], found[1]), Slots(found[2], found[3]))


def gather(octets: Buffer, slots: Slots) -> pa.Array:
    """The bytes of the slots, in an array of their own."""
    count = slots.starts.size
    is_null = slots.lengths < 0
    null_count = int(np.count_nonzero(is_null))
    ends = np.empty(count + 1, np.int32)
    data = pa.allocate_buffer(int(slots.lengths.sum()) + null_count)
    onepass.gather(_octets(octets), slots.starts.data, slots.lengths.data, ends.data, _octets(data))
    validity = np.packbits(~is_null, bitorder="little") if null_count else None
    return pa.BinaryArray.from_buffers(
        pa.binary(),
        count,
        [None if validity is None else pa.py_buffer(validity), pa.py_buffer(ends), data],
        null_count,
    )


def pack(rows: Rows, order: Integers, bounds: Integers) -> list[Buffer]:
    """The record blocks of `order[bounds[0]:bounds[1]]`, of `order[bounds[1]:bounds[2]]`, …"""
    output = pa.allocate_buffer(int(rows.sizes().sum()) + FRAMING_BYTES_MAX * order.size)
    view = _octets(output)
    edges = np.empty(bounds.size, np.int64)
    headers = rows.headers
    onepass.pack(
        order.data,
        bounds.data,
        rows.timestamps.data,
        rows.keys.offsets.data,
        _octets(rows.keys.data),
        rows.keys.nulls.view(np.uint8).data,
        rows.values.offsets.data,
        _octets(rows.values.data),
        rows.values.nulls.view(np.uint8).data,
        np.empty(0, np.int32).data if headers is None else headers.offsets.data,
        memoryview(b"") if headers is None else _octets(headers.data),
        view,
        edges.data,
    )
    return [view[start:end] for start, end in pairwise(edges.tolist())]


def key_hashes(keys: Bytes) -> npt.NDArray[np.uint32]:
    """Kafka's murmur2 of each key; of a null key, anything."""
    hashes = np.empty(keys.offsets.size - 1, np.uint32)
    onepass.hash_keys(keys.offsets.data, _octets(keys.data), hashes.data)
    return hashes


def _octets(buffer: Any) -> memoryview:
    """Unsigned, where Arrow's buffers are signed."""
    return memoryview(buffer).cast("B")
