"""What a batch of changes makes of a table: compared with a plain dictionary, in any order."""

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.spark.upserts.deciding import (
    GONE,
    IS_CURRENT,
    OFFSET,
    VALID_FROM,
    VALID_TO,
    VERSION,
    StateMerge,
    decide_history,
    decide_states,
)

Row = dict[str, Any]

KEYS = ["id", "region"]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("region", pa.string()),
        ("name", pa.string()),
        (VERSION, pa.int64()),
        (OFFSET, pa.int64()),
        (GONE, pa.bool_()),
    ]
)
STATE = SCHEMA.remove(5)
DELETED = pa.schema([SCHEMA.field(each) for each in (*KEYS, VERSION, OFFSET)])
HISTORY = pa.schema(
    [*SCHEMA, (VALID_FROM, pa.int64()), (VALID_TO, pa.int64()), (IS_CURRENT, pa.bool_())]
)


@st.composite
def changes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Each with an offset of its own, so that any two of a key have an order."""
    found = draw(
        st.lists(
            st.tuples(st.integers(1, 3), st.sampled_from("xy"), st.integers(0, 4), st.booleans()),
            max_size=12,
        )
    )
    return [
        {
            "id": each[0],
            "region": each[1],
            "name": None if each[3] else f"n{offset}",
            VERSION: each[2],
            OFFSET: offset,
            GONE: each[3],
        }
        for offset, each in enumerate(found)
    ]


def table(rows: list[dict[str, Any]], schema: Any) -> Any:
    return pa.Table.from_pylist(rows, schema=schema)


def key(row: dict[str, Any], *more: str) -> tuple[Any, ...]:
    return tuple(row[each] for each in (*KEYS, *more))


def order(row: dict[str, Any]) -> tuple[int, int]:
    return row[VERSION], row[OFFSET]


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """All changes, and the same ones in any order, some of them twice, cut into batches."""
    whole = draw(changes())
    again = draw(st.lists(st.sampled_from(whole), max_size=4)) if whole else []
    mixed = draw(st.permutations(whole + again))
    cuts = sorted(draw(st.lists(st.integers(0, len(mixed)), max_size=3)))
    edges = [0, *cuts, len(mixed)]
    return whole, [mixed[first:last] for first, last in pairwise(edges)]


@settings(max_examples=60)
@given(batches(), st.randoms(use_true_random=False))
def test_the_newest_change_of_a_key_wins_whatever_the_order(found: Any, random: Random):
    """Also if a merge ends after the marks of deleted keys, and its batch is never seen again as
    it was: a lost checkpoint cuts the changes into other batches."""
    whole, parts = found
    states: dict[Any, Any] = {}
    deleted: dict[Any, Any] = {}
    died = [part for part in parts if random.random() < 0.5]
    for part in died:
        mark(decide(part, states, deleted), deleted)
    for part in parts:
        merge = decide(part, states, deleted)
        while merge.marks.num_rows:
            mark(merge, deleted)
            merge = decide(part, states, deleted)
        for row in merge.deletes.to_pylist():
            del states[key(row)]
        for row in merge.upserts.to_pylist():
            states[key(row)] = row
    last: dict[Any, Any] = {}
    for row in sorted(whole, key=order):
        last[key(row)] = row
    wanted = {each: row["name"] for each, row in last.items() if not row[GONE]}
    assert {each: row["name"] for each, row in states.items()} == wanted


@settings(max_examples=60)
@given(batches())
def test_a_history_has_every_change_up_to_the_next_whatever_the_order(found: Any):
    whole, parts = found
    rows: dict[Any, Any] = {}
    for part in parts:
        merge = decide_history(table(part, SCHEMA), table(list(rows.values()), HISTORY), KEYS)
        assert merge.deletes.num_rows == 0
        for row in merge.upserts.to_pylist():
            rows[key(row, VERSION, OFFSET)] = row
    wanted = []
    for each in sorted({key(row) for row in whole}):
        of_key = sorted((row for row in whole if key(row) == each), key=order)
        for row, after in zip(of_key, [*of_key[1:], None], strict=True):
            until = None if after is None else after[VERSION]
            wanted.append(
                (*each, row["name"], row[VERSION], until, until is None and not row[GONE])
            )
    columns = ("name", VALID_FROM, VALID_TO, IS_CURRENT)
    ordered = sorted(rows.values(), key=lambda row: (*key(row), *order(row)))
    assert [(*key(row), *(row[name] for name in columns)) for row in ordered] == wanted


def decide(part: list[Row], states: dict[Any, Row], deleted: dict[Any, Row]) -> StateMerge:
    return decide_states(
        table(part, SCHEMA),
        table(list(states.values()), STATE),
        table(list(deleted.values()), DELETED),
        KEYS,
    )


def mark(merge: StateMerge, deleted: dict[Any, Row]) -> None:
    for row in merge.marks.to_pylist():
        deleted[key(row)] = row


def test_a_row_is_deleted_though_its_mark_was_written_by_a_job_that_died():
    row = {"id": 1, "region": "x", "name": "a", VERSION: 1, OFFSET: 0}
    gone = {"id": 1, "region": "x", "name": None, VERSION: 2, OFFSET: 1, GONE: True}
    states, deleted = {key(row): row}, {key(gone): gone}
    merge = decide([gone], states, deleted)
    assert (merge.marks.num_rows, merge.deletes.num_rows) == (0, 1)


def test_a_batch_that_was_merged_changes_nothing_the_second_time():
    rows = [
        {"id": 1, "region": "x", "name": "a", VERSION: 1, OFFSET: 0, GONE: False},
        {"id": 2, "region": "x", "name": None, VERSION: 1, OFFSET: 1, GONE: True},
    ]
    first = decide_states(table(rows, SCHEMA), table([], STATE), table([], DELETED), KEYS)
    again = decide_states(table(rows, SCHEMA), first.upserts, first.marks, KEYS)
    assert (again.upserts.num_rows, again.deletes.num_rows, again.marks.num_rows) == (0, 0, 0)
    history = decide_history(table(rows, SCHEMA), table([], HISTORY), KEYS).upserts
    assert decide_history(table(rows, SCHEMA), history, KEYS).upserts.num_rows == 0
