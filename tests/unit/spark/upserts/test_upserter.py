"""Batches merged into Delta and Iceberg tables, read back by others."""

import pytest

pytest.importorskip("deltalake", reason="needs goqueue[spark]")

from pathlib import Path
from typing import Any

import pyarrow as pa

from goqueue.spark.lake.table import LakeError
from goqueue.spark.upserts.deciding import GONE, OFFSET, VERSION
from goqueue.spark.upserts.upserter import Merged, Upserter, UpsertSettings
from tests.unit.spark.lake.readers import read_as_others

FORMATS = ("delta", "iceberg")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        (VERSION, pa.int64()),
        (OFFSET, pa.int64()),
        (GONE, pa.bool_()),
    ]
)


def changes(*rows: tuple[int, str | None, int]) -> Any:
    """Key, name (None: it is gone) and version of each."""
    made = [
        {"id": key, "name": name, VERSION: version, OFFSET: 0, GONE: name is None}
        for key, name, version in rows
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def settings(format: str, folder: Path, **more: Any) -> UpsertSettings:
    return UpsertSettings(target=str(folder / "people"), format=format, keys=("id",), **more)


def names(format: str, folder: Path) -> dict[int, str]:
    rows = read_as_others(format, folder / "people").to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), "a key is there once"
    return {row["id"]: row["name"] for row in rows}


@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_inserted_updated_and_deleted_by_key(format: str, tmp_path: Path):
    upserter = Upserter(settings(format, tmp_path))
    assert upserter.merge(changes((1, "a", 1), (2, "b", 1), (3, "c", 1))) == Merged(3, 0)
    assert names(format, tmp_path) == {1: "a", 2: "b", 3: "c"}
    assert upserter.merge(changes((2, "B", 2), (3, None, 2), (4, "d", 2))) == Merged(2, 1)
    assert names(format, tmp_path) == {1: "a", 2: "B", 4: "d"}


@pytest.mark.parametrize("format", FORMATS)
def test_changes_that_come_late_or_again_do_nothing(format: str, tmp_path: Path):
    batches = [changes((1, "a", 1), (2, "b", 5)), changes((1, None, 3)), changes((2, "c", 6))]
    for each in batches:
        Upserter(settings(format, tmp_path)).merge(each)
    late = changes((1, "before it was deleted", 2), (2, "old", 4))
    assert Upserter(settings(format, tmp_path)).merge(late) == Merged(0, 0)
    for each in batches:  # as after a crash, with a checkpoint that was lost
        assert Upserter(settings(format, tmp_path)).merge(each) == Merged(0, 0)
    assert names(format, tmp_path) == {2: "c"}
    assert Upserter(settings(format, tmp_path)).merge(changes((1, "back", 9))) == Merged(1, 0)
    assert names(format, tmp_path) == {1: "back", 2: "c"}


class Died(Exception):
    """What a kill leaves behind, in a process that lives on."""


@pytest.mark.parametrize("format", FORMATS)
def test_a_delete_is_not_lost_if_the_job_dies_between_its_two_commits(format: str, tmp_path: Path):
    Upserter(settings(format, tmp_path)).merge(changes((1, "a", 1), (2, "b", 1)))
    dying = Upserter(settings(format, tmp_path))

    def die(merge: Any, on: Any) -> None:
        raise Died

    dying._rows.merge = die  # type: ignore[method-assign]
    batch = changes((1, None, 2), (2, "B", 2))
    with pytest.raises(Died):
        dying.merge(batch)
    Upserter(settings(format, tmp_path)).merge(batch)
    assert names(format, tmp_path) == {2: "B"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_delete_is_not_lost_if_its_batch_brings_a_new_column(format: str, tmp_path: Path):
    """The columns are added by a commit of their own, after which all is decided again."""
    Upserter(settings(format, tmp_path)).merge(changes((1, "a", 1), (2, "b", 1)))
    wider = changes((1, None, 2)).append_column("age", pa.array([5], pa.int64()))
    Upserter(settings(format, tmp_path)).merge(wider)
    assert names(format, tmp_path) == {2: "b"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_delete_by_another_job_at_the_same_time_is_not_lost(format: str, tmp_path: Path):
    """It finds no row to delete, since the older change is written after it has looked."""
    Upserter(settings(format, tmp_path)).merge(changes((1, None, 1), (9, "z", 1)))
    slow, quick = Upserter(settings(format, tmp_path)), Upserter(settings(format, tmp_path))
    read, is_first = slow._deleted.rows_with, [True]

    def rows_with(keys: Any, names: Any) -> Any:
        rows = read(keys, names)
        if is_first.pop() if is_first else False:
            quick.merge(changes((2, None, 5)))
        return rows

    slow._deleted.rows_with = rows_with  # type: ignore[method-assign]
    slow.merge(changes((2, "older than its delete", 4)))
    assert names(format, tmp_path) == {9: "z"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_history_keeps_every_change(format: str, tmp_path: Path):
    upserter = Upserter(settings(format, tmp_path, history=True, has_times=True))
    upserter.merge(changes((1, "a", 10), (1, "b", 20)))
    upserter.merge(changes((1, None, 40), (1, "late", 30), (2, "x", 5)))
    rows = read_as_others(format, tmp_path / "people").sort_by(
        [("id", "ascending"), (VERSION, "ascending")]
    )
    moments = [
        (row["name"], _us(row["valid_from"]), _us(row["valid_to"]), row["is_current"])
        for row in rows.to_pylist()
    ]
    assert moments == [
        ("a", 10, 20, False),
        ("b", 20, 30, False),
        ("late", 30, 40, False),
        (None, 40, None, False),
        ("x", 5, None, True),
    ]


def _us(moment: Any) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1_000_000 + 0.5)


@pytest.mark.parametrize("format", FORMATS)
def test_new_columns_are_added(format: str, tmp_path: Path):
    upserter = Upserter(settings(format, tmp_path))
    upserter.merge(changes((1, "a", 1)))
    wider = changes((2, "b", 1)).append_column("age", pa.array([5], pa.int64()))
    upserter.merge(wider)
    rows = read_as_others(format, tmp_path / "people").sort_by("id")
    assert rows["age"].to_pylist() == [None, 5]


@pytest.mark.parametrize("format", FORMATS)
def test_two_writers_at_once_lose_nothing(format: str, tmp_path: Path):
    """One has read the table when the other commits."""
    Upserter(settings(format, tmp_path)).merge(changes((1, "a", 1)))
    slow, quick = Upserter(settings(format, tmp_path)), Upserter(settings(format, tmp_path))
    table = slow._rows
    read, is_first = table.rows_with, [True]

    def rows_with(keys: Any, names: Any) -> Any:
        rows = read(keys, names)
        if is_first.pop() if is_first else False:
            quick.merge(changes((1, "newer", 9), (2, "b", 1)))
        return rows

    table.rows_with = rows_with  # type: ignore[method-assign]
    slow.merge(changes((1, "older", 5), (3, "c", 1)))
    assert names(format, tmp_path) == {1: "newer", 2: "b", 3: "c"}


def test_a_change_without_a_key_is_refused(tmp_path: Path):
    table = changes((1, "a", 1)).set_column(0, "id", pa.array([None], pa.int64()))
    with pytest.raises(LakeError, match="1 changes have no key 'id'"):
        Upserter(settings("delta", tmp_path)).merge(table)
