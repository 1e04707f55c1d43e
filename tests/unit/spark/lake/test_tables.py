"""What every table format promises, asked of all three in the same words."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goqueue.spark.lake import FORMATS, LakeError, LakeTable, MarksMoved, open_table
from goqueue.spark.lake.table import check_marks
from goqueue.spark.lake.writing import FileSet
from tests.unit.spark.lake.readers import read_as_others, read_by_duckdb

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
FORMAT_NAMES = {
    "ParquetTable": "parquet",
    "DeltaLakeTable": "delta",
    "IcebergLakeTable": "iceberg",
}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    return reopened(request.param, tmp_path)


def reopened(format: str, tmp_path: Path) -> LakeTable:
    return open_table(
        format, tmp_path / "lake" / "orders", date_column="date", time_column="timestamp"
    )


def rows(*offsets: int, schema: Any = SCHEMA, at: datetime = NOON) -> Any:
    columns = {
        "offset": list(offsets),
        "timestamp": [at + timedelta(seconds=each) for each in offsets],
        "headers": [[{"key": "k", "value": b"v"}]] * len(offsets),
    }
    arrays = [pa.array(columns.get(each.name, [None] * len(offsets)), each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def written(table: LakeTable, *batches: Any) -> list:
    files = FileSet({"orders": table.placement()})
    for each in batches:
        files.write("orders", each)
    return [file for _, file in files.finish()]


def offsets(table: LakeTable) -> list[int]:
    """What a reader of that format finds."""
    found = read_as_others(FORMAT_NAMES[type(table).__name__], Path(table.location))
    return sorted(found["offset"].to_pylist()) if found.num_rows else []


# --- commits --------------------------------------------------------------------------------------


def test_a_table_that_is_not_there_has_no_schema_no_marks_and_no_files(table: LakeTable):
    assert table.schema() is None
    assert table.marks(["a"]) == {}
    assert table.files() == []


def test_files_and_marks_arrive_together(table: LakeTable):
    table.ensure(SCHEMA)
    files = written(table, rows(0, 1, 2))
    assert offsets(table) == []
    table.commit(files, {"orders/0": 3}, {})
    assert offsets(table) == [0, 1, 2]
    assert table.marks(["orders/0", "orders/1"]) == {"orders/0": 3}
    assert table.schema().equals(SCHEMA)


def test_a_second_job_with_the_same_rows_is_refused(table: LakeTable):
    table.ensure(SCHEMA)
    since = table.marks(["orders/0"])
    first, second = written(table, rows(0, 1)), written(table, rows(0, 1))
    table.commit(first, {"orders/0": 2}, since)
    with pytest.raises(MarksMoved):
        table.commit(second, {"orders/0": 2}, since)
    assert offsets(table) == [0, 1]


@pytest.mark.parametrize("format", ["delta", "iceberg"])  # plain Parquet has a lock
def test_a_rival_between_the_look_and_the_commit_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
):
    table, rival = reopened(format, tmp_path), reopened(format, tmp_path)
    table.ensure(SCHEMA)
    first, second = written(table, rows(0, 1)), written(table, rows(0, 1))
    module = f"goqueue.spark.lake.{format}"

    def overtaken(*given):
        check_marks(*given)
        monkeypatch.setattr(f"{module}.check_marks", check_marks)
        rival.commit(second, {"orders/0": 2}, {})

    monkeypatch.setattr(f"{module}.check_marks", overtaken)
    with pytest.raises(MarksMoved):
        table.commit(first, {"orders/0": 2}, {})
    assert offsets(table) == [0, 1]


def test_marks_of_others_may_move_meanwhile(table: LakeTable):
    table.ensure(SCHEMA)
    table.commit(written(table, rows(0)), {"orders/0": 1}, {})
    table.commit(written(table, rows(10)), {"orders/1": 11}, {})
    assert table.marks(["orders/0", "orders/1"]) == {"orders/0": 1, "orders/1": 11}
    assert offsets(table) == [0, 10]


def test_duckdb_reads_the_same_rows(table: LakeTable):
    table.ensure(SCHEMA)
    table.commit(written(table, rows(0, 86_400)), {"a": 1}, {})
    wider = SCHEMA.append(pa.field("price", pa.float64()))
    table.ensure(wider)
    table.commit(written(table, rows(1, schema=wider)), {"a": 2}, {"a": 1})
    location = Path(table.location)
    name = FORMAT_NAMES[type(table).__name__]
    found = read_by_duckdb(name, location)
    assert sorted(found["offset"].to_pylist()) == offsets(table)
    assert "price" in found.column_names


def test_files_of_several_days_lie_in_a_folder_each(table: LakeTable):
    table.ensure(SCHEMA)
    before_1970 = rows(1, at=datetime(1969, 12, 31, 23, 59, tzinfo=UTC))
    files = written(table, rows(0, 43_200), before_1970)
    table.commit(files, {"orders/0": 1}, {})
    days = ["1969-12-31", "2026-01-31", "2026-02-01"]
    assert sorted(str(each.date) for each in table.files()) == days
    assert offsets(table) == [0, 1, 43_200]


def test_a_file_that_vanished_is_not_committed(table: LakeTable):
    table.ensure(SCHEMA)
    files = written(table, rows(0))
    os.unlink(Path(table.location, files[0].path))
    with pytest.raises(LakeError, match="gone"):
        table.commit(files, {"orders/0": 1}, {})
    assert table.marks(["orders/0"]) == {}


def test_columns_are_added_also_inside_others(table: LakeTable):
    nested = pa.struct([("x", pa.int64())])
    table.ensure(SCHEMA.append(pa.field("data", nested)))
    table.commit(written(table, rows(0, schema=table.schema())), {"orders/0": 1}, {})
    deeper = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])
    wider = SCHEMA.append(pa.field("data", deeper)).append(pa.field("price", pa.float64()))
    table.ensure(wider)
    table.ensure(wider)
    assert table.schema().equals(wider)
    table.commit(written(table, rows(1, schema=wider)), {"orders/0": 2}, {"orders/0": 1})
    assert offsets(table) == [0, 1]


# --- upkeep ---------------------------------------------------------------------------------------


def test_replaced_files_are_gone_for_readers_and_the_others_stay(table: LakeTable):
    table.ensure(SCHEMA)
    for each in range(3):
        table.commit(written(table, rows(each)), {"orders/0": each + 1}, marks_at(each))
    old = table.files()[:2]
    gone = [pq.read_table(Path(table.location, each.path))["offset"][0].as_py() for each in old]
    table.replace(old, written(table, rows(*gone)))
    assert offsets(table) == [0, 1, 2]
    assert len(table.files()) == 2
    assert table.marks(["orders/0"]) == {"orders/0": 3}
    with pytest.raises(LakeError, match="compact again"):
        table.replace(old, written(table, rows(*gone)))
    assert offsets(table) == [0, 1, 2]


def test_files_that_a_rival_replaces_at_the_same_time_are_replaced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With Delta; the other two let only one writer through anyway."""
    table, rival = reopened("delta", tmp_path), reopened("delta", tmp_path)
    table.ensure(SCHEMA)
    for each in range(2):
        table.commit(written(table, rows(each)), {"orders/0": each + 1}, marks_at(each))
    old, look = table.files(), table.files

    def overtaken():
        found = look()
        rival.replace(old, written(rival, rows(0, 1)))
        return found

    monkeypatch.setattr(table, "files", overtaken)
    with pytest.raises(MarksMoved):
        table.replace(old, written(table, rows(0, 1)))
    assert offsets(table) == [0, 1]


def marks_at(offset: int) -> dict[str, int]:
    return {"orders/0": offset} if offset else {}


def test_vacuum_removes_what_no_commit_took_in(table: LakeTable):
    table.ensure(SCHEMA)
    kept, garbage = written(table, rows(0)), written(table, rows(0))
    table.commit(kept, {"orders/0": 1}, {})
    path = Path(table.location, garbage[0].path)
    assert table.vacuum(hours=1, dry_run=False) == []
    os.utime(path, (0, 0))
    assert table.vacuum(hours=1, dry_run=True) == [garbage[0].path]
    assert path.exists()
    assert table.vacuum(hours=1, dry_run=False) == [garbage[0].path]
    assert not path.exists()
    assert offsets(table) == [0]


def test_vacuum_removes_replaced_files_in_time(table: LakeTable):
    table.ensure(SCHEMA)
    for each in range(2):
        table.commit(written(table, rows(each)), {"orders/0": each + 1}, marks_at(each))
    old = table.files()
    table.replace(old, written(table, rows(0, 1)))
    table.vacuum(hours=0, dry_run=False)
    assert not any(Path(table.location, each.path).exists() for each in old)
    assert offsets(table) == [0, 1]
    table.commit(written(table, rows(2)), {"orders/0": 3}, {"orders/0": 2})
    assert offsets(table) == [0, 1, 2]


def test_the_guide_says_how_pyiceberg_finds_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = reopened("iceberg", tmp_path)
    table.ensure(SCHEMA)
    table.commit(written(table, rows(1, 2)), {"m": 3}, {})
    guide = (Path(__file__).parents[4] / "docs/guides/archives.md").read_text()
    (example,) = [
        each.partition("```")[0]
        for each in guide.split("```python\n")[1:]
        if "load_catalog" in each.partition("```")[0]
    ]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["rows"].num_rows == 2
