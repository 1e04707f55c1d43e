"""Cells and flags that a scan has filled, as Arrow arrays."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.spark.columns import engines
from goqueue.spark.columns.fields import Slots
from goqueue.spark.values import avro_ops as ops
from goqueue.spark.values.layout import Leaf, ListOf, MapOf, Node, Struct

_INT64 = np.iinfo(np.int64)
_DECIMAL_BYTES = 16
_LENGTH_BITS = 32


class Filled:
    """Everything that a scan leaves behind."""

    def __init__(self, octets: Any, constants: list[bytes]) -> None:
        self.octets = octets
        self.constants = pa.array(constants, pa.binary())
        self.cells = np.empty(0, np.int64)
        self.flags = np.empty(0, np.uint8)
        self.bases = np.empty(0, np.int64)
        self.counts = np.zeros(1, np.int64)


def assemble(node: Node, filled: Filled) -> Any:
    """Raises `pa.ArrowInvalid` for text that is not UTF-8, and for numbers that are too large."""
    count = int(filled.counts[node.domain])
    base = int(filled.bases[node.column])
    cells = filled.cells[base : base + count]
    flags = filled.flags[base : base + count]
    match node:
        case Struct():
            children = [assemble(each, filled) for each in node.children]
            return pa.Array.from_buffers(node.type, count, [_validity(flags)], children=children)
        case ListOf():
            return _list(node, cells, flags, filled)
        case Leaf():
            return _leaf(node, cells, flags, filled)
        case _:
            raise AssertionError(node)


def _validity(flags: Any) -> Any:
    """None where nothing is null."""
    if flags.size == 0 or int(flags.min()) > 0:
        return None
    return pa.py_buffer(np.packbits(flags != 0, bitorder="little"))


def _list(node: ListOf, cells: Any, flags: Any, filled: Filled) -> Any:
    offsets = np.zeros(cells.size + 1, np.int32)
    offsets[1:] = cells
    items = assemble(node.item, filled)
    if isinstance(node, MapOf):
        entries = pa.struct([node.type.key_field, node.type.item_field])
        items = pa.Array.from_buffers(
            entries, len(items), [None], children=[assemble(node.keys, filled), items]
        )
    buffers = [_validity(flags), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(node.type, cells.size, buffers, children=[items])


def _leaf(node: Leaf, cells: Any, flags: Any, filled: Filled) -> Any:
    match node.kind:
        case "long":
            return _numbers(node, cells, flags)
        case "real":
            return _plain(node.type, _reals(node, cells, flags), flags)
        case "boolean":
            bits = pa.py_buffer(np.packbits(cells != 0, bitorder="little"))
            return pa.Array.from_buffers(node.type, cells.size, [_validity(flags), bits])
        case "enum":
            indices = _plain(pa.int32(), cells.astype(np.int32), flags)
            return pa.array(node.symbols, pa.string()).take(indices)
        case "decimal":
            return _decimals(node.type, _bytes(cells, flags, filled))
        case _:
            return _bytes(cells, flags, filled).cast(node.type)


def _plain(kind: Any, numbers: Any, flags: Any) -> Any:
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, numbers.size, [_validity(flags), data])


def _numbers(node: Leaf, cells: Any, flags: Any) -> Any:
    """What a time in microseconds cannot hold becomes the last one that it can."""
    if node.factor > 1:
        bound = _INT64.max // node.factor
        cells = np.clip(cells, -bound, bound) * node.factor
    is_short = node.type.bit_width == 32
    return _plain(node.type, cells.astype(np.int32) if is_short else cells, flags)


def _reals(node: Leaf, cells: Any, flags: Any) -> Any:
    """Doubles lie in the cells as they are; a float has its own bits, a whole number its value."""
    numbers = cells.view(np.float64)
    single, whole = flags == ops.SINGLE, flags == ops.WHOLE_NUMBER
    width: Any = np.float32 if node.type.bit_width == 32 else np.float64
    if bool(single.all()):
        return cells.astype(np.uint32).view(np.float32).astype(width, copy=False)
    if bool(single.any()) or bool(whole.any()):
        bits = cells.astype(np.uint32).view(np.float32)
        numbers = np.where(single, bits, np.where(whole, cells.astype(width), numbers))
    return numbers.astype(width, copy=False)


def _bytes(cells: Any, flags: Any, filled: Filled) -> Any:
    constant = cells < 0
    has_constants = bool(constant.any())
    found = np.where(constant, 0, cells) if has_constants else cells
    starts = (found >> _LENGTH_BITS).astype(np.int32)
    lengths = (found & 0xFFFF_FFFF).astype(np.int32)
    empty = constant | (flags == 0)
    if bool(empty.any()):  # they lie behind what is before them, as all others do
        edges = np.maximum.accumulate(np.where(empty, 0, starts + lengths))
        starts = np.where(empty, np.concatenate(([0], edges[:-1])), starts).astype(np.int32)
    lengths[flags == 0] = -1
    gathered = engines.choose().gather(filled.octets, Slots(starts, lengths))
    if not has_constants:
        return gathered
    numbers = pa.array(np.where(constant, -1 - cells, 0), pa.int64())
    return pc.if_else(pa.array(constant), filled.constants.take(numbers), gathered)


def _decimals(kind: Any, values: Any) -> Any:
    """Whole numbers in two's complement, highest byte first, as Arrow has them: lowest first."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    octets = np.frombuffer(values.buffers()[2] or b"\0", np.uint8)
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    if longest > _DECIMAL_BYTES:
        raise pa.ArrowInvalid(f"a decimal of {longest} bytes, {_DECIMAL_BYTES} allowed")
    first = octets.take(np.minimum(offsets[:-1], max(octets.size - 1, 0)))
    is_negative = (lengths > 0) & (first >= 0x80)
    numbers = np.where(is_negative[:, None], np.uint8(0xFF), np.uint8(0))
    numbers = np.repeat(numbers, _DECIMAL_BYTES, axis=1)
    for step in range(longest):
        rows = np.flatnonzero(lengths > step)
        numbers[rows, step] = octets[offsets[1:][rows] - 1 - step]
    validity = values.buffers()[0] if values.null_count else None
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    found = pa.Array.from_buffers(kind, len(values), [validity, data])
    found.validate(full=True)  # a number may have more digits than the precision says
    return found
