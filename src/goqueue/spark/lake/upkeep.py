"""`goqueue pipeline vacuum` and `compact-files`: the upkeep of archives.

Both may run beside the archive job that writes to the same tables, and beside readers.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.spark.archive.tables import ArchiveTable, find_archives
from goqueue.spark.lake import LakeError, MarksMoved
from goqueue.spark.lake.merging import TARGET_BYTES, Group, Merged, groups, merge
from goqueue.spark.lake.table import LakeTable, Placement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOURS: Final = 168.0  # a reader, or a batch that is being written, may take that long
HOURS_MIN: Final = 1.0
GROUPS_AT_ONCE: Final = 64  # of one commit
TRIES: Final = 5

Say = Callable[[str], None]


class Vacuumed(msgspec.Struct, frozen=True):
    table: str
    removed: list[str]
    """Paths within the table's folder."""


class Compacted(msgspec.Struct, frozen=True):
    table: str
    files_before: int
    files_after: int
    merged: int
    """How many files were replaced."""


def vacuum(
    folder: str, *, hours: float = HOURS, dry_run: bool = False, catalog: str | None = None
) -> list[Vacuumed]:
    """Remove files that no table needs any more from all tables in a folder.

    Those are left over by crashes, replaced by compaction, or only needed for going back in time
    further than `hours`.
    """
    if hours < HOURS_MIN and not dry_run:
        raise LakeError(
            f"vacuum of all that is older than {hours:g} h would take files from under jobs that"
            f" are writing them: say at least {HOURS_MIN:g}"
        )
    return [
        Vacuumed(each.name, each.table.vacuum(hours=hours, dry_run=dry_run))
        for each in find_archives(folder, catalog)
    ]


def compact_files(
    session: "SparkSession",
    folder: str,
    *,
    target_bytes: int = TARGET_BYTES,
    catalog: str | None = None,
    say: Say = lambda _: None,
) -> list[Compacted]:
    """Merge the small files of all tables in a folder."""
    found = find_archives(folder, catalog)
    return [_compact(session, each, target_bytes, say) for each in found]


def _compact(
    session: "SparkSession", archive: ArchiveTable, target_bytes: int, say: Say
) -> Compacted:
    table = archive.table
    before = table.files()
    merged = 0
    for some in _portions(groups(before, target_bytes)):
        done = merge_groups(session, table.placement(), some)
        old = [file for each in done for file in each.old]
        if old:
            _replace(table, old, [file for each in done for file in each.new])
        merged += len(old)
        say(f"{archive.name}: {merged} files merged")
    return Compacted(archive.name, len(before), len(table.files()), merged)


def merge_groups(
    session: "SparkSession", placement: Placement, some: Sequence[Group]
) -> list[Merged]:
    """A task for each group."""
    rows = [(msgspec.msgpack.encode(each),) for each in some]
    frame = session.createDataFrame(rows, "`group` binary").repartition(len(rows))
    found = frame.mapInArrow(partial(_merge_in_task, placement), "merged binary").collect()
    return [msgspec.msgpack.decode(each["merged"], type=Merged) for each in found]


def _merge_in_task(placement: Placement, batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        for group in batch.column("group").to_pylist():
            done = merge(placement, msgspec.msgpack.decode(group, type=Group))
            text = pa.array([msgspec.msgpack.encode(done)], pa.binary())
            yield pa.RecordBatch.from_arrays([text], names=["merged"])


def _replace(table: LakeTable, old: Sequence[Any], new: Sequence[Any]) -> None:
    """The archive may commit meanwhile, which takes nothing away: then try again."""
    for tries_left in reversed(range(TRIES)):
        try:
            table.replace(old, new)
            return
        except MarksMoved:
            if not tries_left:
                raise


def _portions(all_groups: Sequence[Group]) -> Iterator[Sequence[Group]]:
    for start in range(0, len(all_groups), GROUPS_AT_ONCE):
        yield all_groups[start : start + GROUPS_AT_ONCE]
