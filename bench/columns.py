"""Record batches to Arrow columns and back: `python -m bench.columns [--quick]`.

One thread, one chunk after the other as a fetch gives them, all in memory.  Each engine's output
is compared, value by value, with what the plain reader makes of the same bytes before anything is
measured.  Times are of the processor, the best of several rounds.
"""

import argparse
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from goqueue.model import batch as batches
from goqueue.model.record import Record
from goqueue.spark.columns import Decoder, Encoder, engines

EVER = 2**62
BASE_TIMESTAMP = 1_700_000_000_000
SEVEN = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
COLUMN_SETS = {
    "all seven": SEVEN,
    "seven and headers": (*SEVEN, "headers"),
    "key, value": ("key", "value"),
    "offset, timestamp": ("offset", "timestamp"),
}
ROW_COLUMNS = ("key", "value", "timestamp", "headers")
ROWS_AT_ONCE = 10_000  # what Spark hands to a writer
PARTITIONS = 8
ENCODER_CODECS = ("none", "lz4", "zstd")


class Shape(NamedTuple):
    name: str
    value_bytes: tuple[int, int]
    records_a_batch: int
    with_headers: bool = False


SHAPES = (
    Shape("100 B", (64, 96), 1000),
    Shape("100 B, small batches", (64, 96), 100),
    Shape("100 B, with headers", (64, 96), 1000, with_headers=True),
    Shape("1 KiB", (960, 1060), 100),
)
CHUNK_BYTES = 4 * 1024 * 1024  # what the source fetches at once


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.columns", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, less data")
    options = parser.parse_args()
    rounds = 1 if options.quick else 15
    chosen = [engines.NUMPY, *([engines.COMPILED] if engines.is_compiled() else [])]
    console = Console(width=110)
    for shape in SHAPES:
        console.print(_decoding(shape, chosen, rounds))
    console.print(_encoding(chosen, rounds))
    if not engines.is_compiled():
        console.print("this copy of goqueue is interpreted: nothing compiled was measured")


# --- decoding -----------------------------------------------------------------------------------


def _decoding(shape: Shape, chosen: list[engines.Engine], rounds: int) -> Table:
    table = Table(title=f"decode, {shape.name}: M records/s (MB/s)", title_justify="left")
    table.add_column("columns")
    raw, count = _chunk(shape, CHUNK_BYTES)
    for engine in chosen:
        table.add_column(engine.name)
        _verify_decoding(engine, raw)
    for name, columns in COLUMN_SETS.items():
        cells = []
        for engine in chosen:
            decoder = Decoder("orders", 0, columns, engine=engine)
            seconds = _seconds(rounds, lambda d=decoder: d.decode(raw, start=0, end=EVER))
            cells.append(f"{count / seconds / 1e6:.1f} ({len(raw) / seconds / 1e6:.0f})")
        table.add_row(name, *cells)
    return table


def _chunk(shape: Shape, size: int) -> tuple[bytes, int]:
    """Batches of about `size` bytes, and how many records they hold."""
    chance = random.Random(shape.name)
    raw = bytearray()
    count = 0
    moment = BASE_TIMESTAMP
    while len(raw) < size:
        records = []
        for _ in range(shape.records_a_batch):
            moment += chance.randint(0, 3)
            records.append(_record(shape, chance, moment))
        raw += batches.encode(records, base_offset=count)
        count += len(records)
    return bytes(raw), count


def _record(shape: Shape, chance: random.Random, moment: int) -> Record:
    key = b"%010d" % chance.randrange(10**10) if chance.random() > 0.05 else None
    value = chance.randbytes(chance.randint(*shape.value_bytes))
    traced = shape.with_headers and chance.random() > 0.1
    headers = (("traceparent", chance.randbytes(28).hex().encode()),) if traced else ()
    return Record(0, moment, key, value, headers)


def _verify_decoding(engine: engines.Engine, raw: bytes) -> None:
    batch = Decoder("orders", 0, ("offset", *ROW_COLUMNS), engine=engine).decode(
        raw, start=0, end=EVER
    )[0]
    for row, record in zip(batch.to_pylist(), batches.decode_all(raw), strict=True):
        pairs = [{"key": name, "value": value} for name, value in record.headers] or None
        moment = round(row["timestamp"].timestamp() * 1000)
        found = (row["offset"], moment, row["key"], row["value"], row["headers"])
        assert found == (record.offset, record.timestamp, record.key, record.value, pairs)


# --- encoding -----------------------------------------------------------------------------------


def _encoding(chosen: list[engines.Engine], rounds: int) -> Table:
    title = f"encode {ROWS_AT_ONCE} rows at once, by key to {PARTITIONS} partitions: M records/s"
    table = Table(title=title, title_justify="left")
    table.add_column("rows")
    for engine in chosen:
        table.add_column(engine.name)
    for shape in (SHAPES[0], SHAPES[2], SHAPES[3]):
        rows = _rows(shape)
        for codec in ENCODER_CODECS:
            cells = []
            for engine in chosen:
                _verify_encoding(engine, rows, codec)
                encoder = Encoder("orders", lambda _: PARTITIONS, codec, engine=engine)
                seconds = _seconds(rounds, lambda e=encoder, r=rows: list(e.encode(r)))
                cells.append(f"{len(rows) / seconds / 1e6:.1f}")
            table.add_row(f"{shape.name}, {codec}", *cells)
    return table


def _rows(shape: Shape) -> pa.RecordBatch:
    raw, _ = _chunk(shape, ROWS_AT_ONCE * (shape.value_bytes[1] + 100))
    columns = ROW_COLUMNS if shape.with_headers else ROW_COLUMNS[:-1]
    decoder = Decoder("orders", 0, columns)
    return decoder.decode(raw, start=0, end=ROWS_AT_ONCE).batch


def _verify_encoding(engine: engines.Engine, rows: pa.RecordBatch, codec: str) -> None:
    made = Encoder("orders", lambda _: PARTITIONS, codec, engine=engine).encode(rows)
    read = [
        (record.timestamp, record.key, record.value, record.headers)
        for each in made
        for record in batches.decode_all(each.raw)
    ]
    expected = [
        (
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((pair["key"], pair["value"]) for pair in row.get("headers") or ()),
        )
        for row in rows.to_pylist()
    ]
    assert sorted(map(repr, read)) == sorted(map(repr, expected))


def _seconds(rounds: int, work: Callable[[], object]) -> float:
    """Processor time of one call: the best of so many rounds, each a few calls."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(3):
            work()
        best = min(best, (time.process_time() - started) / 3)
    return best


if __name__ == "__main__":
    main()
