"""What a batch of changes makes of the rows that a table has for their keys.

A change is newer than another if its version is larger or, with the same version, its offset.  In a
table of states the newest change of a key is its row.  A deleted key has a mark in the table of
deleted keys, so that an older change which comes late does not bring it back.  In a history every
change is a row, from its own version to that of the next one.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

VERSION: Final = "_version"
OFFSET: Final = "_offset"
GONE: Final = "_deleted"
VALID_FROM: Final = "valid_from"
VALID_TO: Final = "valid_to"
IS_CURRENT: Final = "is_current"
ORDER: Final = (VERSION, OFFSET)


class Merge(NamedTuple):
    """Rows to write, and rows of which only the keys count, to delete."""

    upserts: Any
    deletes: Any


class StateMerge(NamedTuple):
    """The same for a table of states.  `marks`, for the table of deleted keys, go before it."""

    upserts: Any
    deletes: Any
    marks: Any


def newest(changes: Any, keys: Sequence[str]) -> Any:
    """The last change of each key."""
    if not changes.num_rows:
        return changes
    order = dict.fromkeys((*keys, *ORDER))
    ordered = changes.sort_by([(each, "ascending") for each in order])
    codes = _codes(ordered, keys)
    return ordered.filter(pc.not_equal(codes, _next(codes)).fill_null(True))


def decide_states(changes: Any, existing: Any, deleted: Any, keys: Sequence[str]) -> StateMerge:
    """`existing` and `deleted` are rows of the two tables, at least those with these keys.

    A row is deleted because the table of deleted keys has a newer mark, and for no other reason.
    So it does not matter who wrote the mark, and what came between: a crash, or another job.
    """
    fresh = _newer_than(newest(changes, keys), existing, keys)
    is_gone = fresh.column(GONE)
    kept = fresh.filter(pc.invert(is_gone)).drop_columns([GONE])
    upserts = _newer_than(kept, deleted, keys)
    marks = _newer_than(fresh.filter(is_gone).select([*keys, *ORDER]), deleted, keys)
    rows = existing.select([*keys, *ORDER])
    alive = _newer_than(rows, deleted, keys).select(list(keys))
    stale = rows.join(alive, list(keys), join_type="left anti")
    return StateMerge(
        upserts, stale.join(upserts.select(list(keys)), list(keys), join_type="left anti"), marks
    )


def decide_history(changes: Any, existing: Any, keys: Sequence[str]) -> Merge:
    """Rows that are new, and those whose end is another one now."""
    own = [each for each in existing.column_names if each not in (VALID_FROM, VALID_TO, IS_CURRENT)]
    before = existing.select(own)
    here = before.join(_distinct(changes, keys), list(keys), join_type="left semi")
    new = changes.join(here.select([*keys, *ORDER]), [*keys, *ORDER], join_type="left anti")
    whole = pa.concat_tables([here, newest(new, [*keys, *ORDER])], promote_options="default")
    dated = _add_times(whole, keys)
    old = existing.select([*keys, *ORDER, VALID_TO])
    same = old.append_column("_same", pa.repeat(pa.scalar(True), old.num_rows))
    joined = _join_nulls(dated, same, [*keys, *ORDER])
    return Merge(joined, joined.slice(0, 0).select([*keys, *ORDER]))


def _add_times(rows: Any, keys: Sequence[str]) -> Any:
    """In order, each up to the next one of its key."""
    ordered = rows.sort_by([(each, "ascending") for each in (*keys, *ORDER)])
    codes, versions = _codes(ordered, keys), ordered.column(VERSION)
    follows = pc.equal(codes, _next(codes)).fill_null(False)
    until = pc.if_else(follows, _next(versions), pa.scalar(None, pa.int64()))
    current = pc.and_(pc.invert(follows), pc.invert(ordered.column(GONE)))
    return (
        ordered.append_column(VALID_FROM, versions)
        .append_column(VALID_TO, until)
        .append_column(IS_CURRENT, current)
    )


def _join_nulls(dated: Any, old: Any, on: list[str]) -> Any:
    """Those that the table lacks, or has with another end."""
    before = old.rename_columns([*on, "_before", "_same"])
    joined = dated.join(before, on, join_type="left outer")
    known = joined.column("_same").fill_null(False)
    both_open = pc.and_(joined.column("_before").is_null(), joined.column(VALID_TO).is_null())
    equal = pc.equal(joined.column("_before"), joined.column(VALID_TO)).fill_null(False)
    unchanged = pc.and_(known, pc.or_(equal, both_open))
    return joined.filter(pc.invert(unchanged)).drop_columns(["_before", "_same"])


def _newer_than(changes: Any, rows: Any, keys: Sequence[str]) -> Any:
    """The changes that are newer than the row of the same key, or that have none."""
    if not rows.num_rows or not changes.num_rows:
        return changes
    known = newest(rows.select([*keys, *ORDER]), keys)
    known = known.rename_columns([*keys, "_known_version", "_known_offset"])
    numbered = changes.append_column("_row", pa.array(range(changes.num_rows), pa.int64()))
    joined = numbered.select([*keys, *ORDER, "_row"]).join(known, list(keys), join_type="inner")
    version, offset = joined.column(VERSION), joined.column(OFFSET)
    later = pc.or_(
        pc.greater(version, joined.column("_known_version")),
        pc.and_(
            pc.equal(version, joined.column("_known_version")),
            pc.greater(offset, joined.column("_known_offset")),
        ),
    )
    stale = joined.filter(pc.invert(later)).column("_row")
    return numbered.filter(
        pc.invert(pc.is_in(numbered.column("_row"), value_set=_whole(stale)))
    ).drop_columns(["_row"])


def _distinct(rows: Any, keys: Sequence[str]) -> Any:
    return rows.select(list(keys)).group_by(list(keys)).aggregate([])


def _codes(rows: Any, keys: Sequence[str]) -> Any:
    """A number for each row of a sorted table; equal for those with equal keys."""
    changes = pa.array([False] * rows.num_rows, pa.bool_())
    for key in keys:
        column = _whole(rows.column(key))
        before = pa.concat_arrays([column.slice(0, 1), column.slice(0, max(len(column) - 1, 0))])
        changes = pc.or_(changes, pc.not_equal(column, before).fill_null(True))
    return pc.cumulative_sum(changes.cast(pa.int64()))


def _next(column: Any) -> Any:
    """The column one row up, with null at its end."""
    whole = _whole(column)
    return pa.concat_arrays([whole.slice(1), pa.nulls(min(len(whole), 1), whole.type)])


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
