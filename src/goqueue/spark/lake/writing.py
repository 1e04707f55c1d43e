"""Rows into Parquet files, in a task.

A task has a `FileSet`: one open file for each table and day it meets.  Rows are held until a row
group is worth writing; what is held in all is bounded, and so are the files that are open, however
many days the rows are spread over.  A file's name is random, so attempts of a task never meet.
A file is synced before the task reports it: a commit must not outlive its rows.
"""

import uuid
from collections.abc import Hashable, Iterator, Mapping
from datetime import date
from typing import Any, Final, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from goqueue.spark.lake.store import store_of
from goqueue.spark.lake.table import DATE_FOLDER, NO_DATE, DataFile, Placement

Name = TypeVar("Name", bound=Hashable)

HELD_BYTES_MAX: Final = 64 << 20  # rows of all files of a task that wait for their row group
FILE_BYTES_MAX: Final = 256 << 20
OPEN_FILES_MAX: Final = 32
DAY_US: Final = 86_400_000_000

# A dictionary pays where few values repeat; offsets and times grow in small steps.
DICTIONARY_COLUMNS: Final = frozenset({"topic", "partition", "timestampType", "reason"})
DELTA_COLUMNS: Final = frozenset({"offset", "timestamp"})
PREFIX: Final = "record_"  # of the record's own columns in a table of decoded values


class WriteSettings(msgspec.Struct, frozen=True):
    compression: str = "zstd"
    compression_level: int = 1
    held_bytes_max: int = HELD_BYTES_MAX
    file_bytes_max: int = FILE_BYTES_MAX


class FileSet(Generic[Name]):
    """The files that a task writes, for tables by their names."""

    def __init__(
        self, placements: Mapping[Name, Placement], settings: WriteSettings | None = None
    ) -> None:
        self._placements = placements
        self._settings = settings or WriteSettings()
        self._open: dict[tuple[Name, str | None], _File] = {}  # least recently used first
        self._held_bytes = 0  # invariant: the sum over the open files
        self._finished: list[tuple[Name, DataFile]] = []

    def write(self, table: Name, rows: Any) -> None:
        """Take rows, a pyarrow.RecordBatch, of one of the tables."""
        placement = self._placements[table]
        for day, part in by_day(rows, placement.time_column):
            self._take(table, day, part)

    def finish(self) -> list[tuple[Name, DataFile]]:
        """Close all; gives each file with the name of its table."""
        for key in list(self._open):
            self._close(key)
        return self._finished

    def discard(self) -> None:
        """Remove all that was written."""
        for table, file in self.finish():
            store_of(self._placements[table].root).delete(file.path)
        self._finished = []

    def _take(self, table: Name, day: str | None, rows: Any) -> None:
        key = (table, day)
        file = self._open.pop(key, None)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            file = _File(self._placements[table], day, rows.schema, self._settings)
        self._open[key] = file
        self._held_bytes += file.hold(rows)
        while self._held_bytes > self._settings.held_bytes_max:
            self._flush_largest()
        if file.written_bytes >= self._settings.file_bytes_max:
            self._close(key)

    def _flush_largest(self) -> None:
        largest = max(self._open.values(), key=lambda each: each.held_bytes)
        self._held_bytes -= largest.flush()

    def _close(self, key: tuple[Name, str | None]) -> None:
        file = self._open.pop(key)
        self._held_bytes -= file.held_bytes
        self._finished.append((key[0], file.close()))


def by_day(rows: Any, time_column: str | None) -> Iterator[tuple[str | None, Any]]:
    """Rows by the day in UTC that they belong to; mostly there is one, and nothing is copied."""
    if time_column is None:
        yield None, rows
        return
    days = pc.floor(pc.divide(_float_microseconds(rows.column(time_column)), DAY_US))
    span = pc.min_max(days)
    if days.null_count == 0 and span["min"] == span["max"]:
        yield _day(span["min"].as_py()), rows
        return
    for each in pc.unique(days):
        chosen = pc.equal(days, each) if each.is_valid else days.is_null()
        yield _day(each.as_py()), rows.filter(chosen)


def _float_microseconds(times: Any) -> Any:
    # Doubles hold whole microseconds exactly for 285 years around 1970, and floor as wanted before.
    return times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.float64(), safe=False)


def _day(number: float | None) -> str:
    if number is None:
        return NO_DATE
    return date.fromordinal(date(1970, 1, 1).toordinal() + int(number)).isoformat()


class _File:
    """One Parquet file that is being written."""

    def __init__(
        self, placement: Placement, day: str | None, schema: Any, settings: WriteSettings
    ) -> None:
        parts = [placement.folder] if placement.folder else []
        if placement.date_column is not None and day is not None:
            parts.append(DATE_FOLDER.format(column=placement.date_column, date=day))
        self._store, self._day = store_of(placement.root), day
        self._path = "/".join([*parts, f"{uuid.uuid4().hex}{placement.suffix}"])
        self._sink = self._store.create(self._path)
        self._metadata: list[Any] = []  # of the file, when it is written
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            metadata_collector=self._metadata,
            **_encodings(schema, settings),
        )
        self._held: list[Any] = []
        self.held_bytes = 0
        self._rows = 0

    @property
    def written_bytes(self) -> int:
        return self._sink.tell()

    def hold(self, rows: Any) -> int:
        self._held.append(rows)
        self._rows += rows.num_rows
        self.held_bytes += rows.nbytes
        return int(rows.nbytes)

    def flush(self) -> int:
        """Write a row group of what is held; gives how many bytes that was in memory."""
        released, self.held_bytes = self.held_bytes, 0
        if self._held:
            group = pa.Table.from_batches(self._held)
            self._writer.write_table(group, row_group_size=max(group.num_rows, 1))
        self._held = []
        return released

    def close(self) -> DataFile:
        self.flush()
        self._writer.close()
        self._store.sync(self._sink)
        size = self._sink.tell()
        self._sink.close()
        lowest, highest = _bounds(self._metadata[0])
        return DataFile(
            self._path, self._day, size, rows=self._rows, lowest=lowest, highest=highest
        )


def _encodings(schema: Any, settings: WriteSettings) -> dict[str, Any]:
    plain = {name: name.removeprefix(PREFIX) for name in schema.names}
    return {
        "compression": settings.compression,
        "compression_level": settings.compression_level,
        "use_dictionary": [name for name in schema.names if plain[name] in DICTIONARY_COLUMNS],
        "column_encoding": {
            name: "DELTA_BINARY_PACKED" for name in schema.names if plain[name] in DELTA_COLUMNS
        },
        "coerce_timestamps": "us",
        "store_schema": False,
    }


def _bounds(metadata: Any) -> tuple[dict[str, int], dict[str, int]]:
    """The span of each column of whole numbers or times, over all row groups."""
    lowest: dict[str, int] = {}
    highest: dict[str, int] = {}
    spans = (
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    )
    for span in spans:
        statistics, name = span.statistics, span.path_in_schema
        if "." in name or statistics is None or not statistics.has_min_max:
            continue
        if span.physical_type not in ("INT32", "INT64"):
            continue
        low, high = int(statistics.min_raw), int(statistics.max_raw)
        lowest[name] = min(low, lowest.get(name, low))
        highest[name] = max(high, highest.get(name, high))
    return lowest, highest
