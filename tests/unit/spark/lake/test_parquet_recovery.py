"""A plain folder of Parquet after a crash at each step of a commit and of a replacement."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

from goqueue.spark.lake import LakeTable, open_table
from goqueue.spark.lake import parquet as module
from goqueue.spark.lake.commit_log import CommitLog
from goqueue.spark.lake.writing import FileSet

SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])
DAY_US = 86_400_000_000


class Crash(Exception):
    """The process ends here."""


def opened(tmp_path: Path) -> LakeTable:
    return open_table("parquet", tmp_path, date_column="date", time_column="timestamp")


def written(table: LakeTable, *offsets: int) -> list:
    """A row a day, so a file a row."""
    files = FileSet({"t": table.placement()})
    times = pa.array([each * DAY_US for each in offsets], pa.timestamp("us", "UTC"))
    files.write("t", pa.RecordBatch.from_arrays([pa.array(offsets), times], schema=SCHEMA))
    return [file for _, file in files.finish()]


def seen(tmp_path: Path) -> list[int]:
    """What a reader of plain Parquet finds."""
    found = pa.dataset.dataset(tmp_path, schema=SCHEMA, partitioning="hive").to_table()
    return sorted(found["offset"].to_pylist())


@contextmanager
def crash_at(monkeypatch: pytest.MonkeyPatch, owner, name: str, call: int) -> Iterator[None]:
    """Before the `call`th use of a function, everything stops."""
    real: Callable = getattr(owner, name)
    left = call

    def stopping(*args, **named):
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash
        return real(*args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, stopping)
        with pytest.raises(Crash):
            yield


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    table = opened(tmp_path)
    table.ensure(SCHEMA)
    return table


def test_a_crash_before_the_decision_leaves_nothing(table, tmp_path, monkeypatch):
    files = written(table, 0, 1)
    with crash_at(monkeypatch, os, "link", 1):
        table.commit(files, {"m": 2}, {})
    assert seen(tmp_path) == []
    assert opened(tmp_path).marks(["m"]) == {}
    again = opened(tmp_path)
    again.commit(written(again, 0, 1), {"m": 2}, {})
    assert seen(tmp_path) == [0, 1]


@pytest.mark.parametrize("call", [1, 2])
def test_a_crash_after_the_decision_is_made_good_by_whoever_comes(
    table, tmp_path, monkeypatch, call
):
    files = written(table, 0, 1)
    with crash_at(monkeypatch, os, "rename", call):
        table.commit(files, {"m": 2}, {})
    assert len(seen(tmp_path)) == call - 1
    again = opened(tmp_path)
    assert again.marks(["m"]) == {"m": 2}
    again.commit(written(again, 2), {"m": 3}, {"m": 2})
    assert seen(tmp_path) == [0, 1, 2]


def test_a_decision_without_an_answer_is_not_taken_again(table, tmp_path, monkeypatch):
    with crash_at(monkeypatch, module, "sync_folder", 1):
        table.commit(written(table, 0), {"m": 1}, {})
    again = opened(tmp_path)
    again.ensure(SCHEMA)
    assert again.marks(["m"]) == {"m": 1}
    assert seen(tmp_path) == [0]


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        (os, "link", 1),  # while the new folder is made
        (CommitLog, "append", 1),  # before the decision
        (module, "exchange", 1),  # after it
        (module, "_remove", 1),  # exchanged, and not tidied up
    ],
)
def test_a_crash_while_files_are_replaced_shows_no_row_twice(
    table, tmp_path, monkeypatch, owner, name, call
):
    for offset in range(3):
        table.commit(written(table, 0), {"m": offset + 1}, {"m": offset} if offset else {})
    old = table.files()[:2]
    with crash_at(monkeypatch, owner, name, call):
        table.replace(old, written(table, 0))  # one row instead of two, so that it can be told
    assert seen(tmp_path) in ([0, 0, 0], [0, 0])
    again = opened(tmp_path)
    again.ensure(SCHEMA)
    decided = name in ("exchange", "_remove")
    assert seen(tmp_path) == ([0, 0] if decided else [0, 0, 0])
    again.vacuum(hours=0, dry_run=False)
    assert not list((tmp_path / "_goqueue" / "swap").glob("*"))
    again.commit(written(again, 1), {"m": 4}, {"m": 3})
    assert seen(tmp_path) == ([0, 0, 1] if decided else [0, 0, 0, 1])


def test_old_entries_of_the_log_are_dropped(table, tmp_path, monkeypatch):
    monkeypatch.setattr("goqueue.spark.lake.commit_log.ENTRIES_KEPT", 3)
    for offset in range(10):
        table.commit(written(table, 0), {"m": offset + 1}, {"m": offset} if offset else {})
    assert len(list((tmp_path / "_goqueue" / "log").iterdir())) == 3
    assert opened(tmp_path).marks(["m"]) == {"m": 10}
