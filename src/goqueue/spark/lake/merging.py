"""Small files into large ones: which to take, and what a task does with them.

Files are merged within a day, and only with files of the same columns: what a table has grown since
is null in the older ones, and readers know that.  Rows keep their order, file by file.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
import pyarrow.parquet as pq

from goqueue.spark.lake.store import store_of
from goqueue.spark.lake.table import DataFile, LakeFile, Placement
from goqueue.spark.lake.writing import FileSet, WriteSettings

TARGET_BYTES: Final = 128 << 20
ROWS_AT_ONCE: Final = 65_536
FILES_MAX: Final = 1_000  # of one group: a task that fails has not much to repeat


class Group(msgspec.Struct, frozen=True):
    """Files of one day that shall be one."""

    files: list[LakeFile]


class Merged(msgspec.Struct, frozen=True):
    old: list[LakeFile]
    new: list[DataFile]


def groups(files: Iterable[LakeFile], target_bytes: int = TARGET_BYTES) -> list[Group]:
    """What is worth merging: files below half the target, as many as make one whole."""
    small = [each for each in files if each.bytes < target_bytes // 2]
    small.sort(key=lambda each: (str(each.date), each.path))
    found = []
    for _, of_day in groupby(small, key=lambda each: each.date):
        found += [Group(each) for each in _fill(of_day, target_bytes) if len(each) > 1]
    return found


def _fill(files: Iterable[LakeFile], target_bytes: int) -> Iterator[list[LakeFile]]:
    held: list[LakeFile] = []
    size = 0
    for file in files:
        if held and (size + file.bytes > target_bytes or len(held) == FILES_MAX):
            yield held
            held, size = [], 0
        held.append(file)
        size += file.bytes
    if held:
        yield held


def merge(placement: Placement, group: Group, settings: WriteSettings | None = None) -> Merged:
    """Rewrite the rows of a group's files; gives what to replace, which may be nothing."""
    by_schema: dict[Any, list[LakeFile]] = {}
    for file in group.files:
        schema = pq.read_schema(store_of(placement.root).open(file.path))
        by_schema.setdefault(schema.remove_metadata(), []).append(file)
    alike = [files for files in by_schema.values() if len(files) > 1]
    names = range(len(alike))
    writer = FileSet(dict.fromkeys(names, placement), settings)
    try:
        for name in names:
            for rows in _rows(placement, alike[name]):
                writer.write(name, rows)
        new = [file for _, file in writer.finish()]
    except BaseException:
        writer.discard()
        raise
    return Merged([each for files in alike for each in files], new)


def _rows(placement: Placement, files: Sequence[LakeFile]) -> Iterator[Any]:
    for file in files:
        with pq.ParquetFile(store_of(placement.root).open(file.path)) as opened:
            yield from opened.iter_batches(ROWS_AT_ONCE)
