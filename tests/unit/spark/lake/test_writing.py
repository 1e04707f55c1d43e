"""Rows into files: what is held and open stays within bounds, and nothing is lost."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goqueue.spark.lake import Placement, writing
from goqueue.spark.lake.table import NO_DATE
from goqueue.spark.lake.writing import FileSet, WriteSettings, by_day

START = datetime(2026, 1, 1, tzinfo=UTC)


def batch(*times: datetime | None) -> pa.RecordBatch:
    columns = [pa.array(times, pa.timestamp("us", "UTC")), pa.array(range(len(times)))]
    return pa.RecordBatch.from_arrays(columns, names=["timestamp", "offset"])


def days(count: int) -> pa.RecordBatch:
    return batch(*(START + timedelta(days=each) for each in range(count)))


def placed(tmp_path: Path) -> dict[str, Placement]:
    return {"t": Placement(str(tmp_path), "", "date", "timestamp")}


def test_rows_of_one_day_are_not_copied():
    rows = batch(START, START + timedelta(hours=23, minutes=59, seconds=59, microseconds=999_999))
    [(day, part)] = by_day(rows, "timestamp")
    assert day == "2026-01-01"
    assert part is rows


def test_rows_without_a_time_have_a_place_too():
    found = {day: part.num_rows for day, part in by_day(batch(START, None, None), "timestamp")}
    assert found == {"2026-01-01": 1, NO_DATE: 2}


def test_many_days_are_written_with_few_files_open(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writing, "OPEN_FILES_MAX", 3)
    files = FileSet(placed(tmp_path))
    files.write("t", days(10))
    files.write("t", days(10))
    found = [file for _, file in files.finish()]
    assert sum(file.rows for file in found) == 20
    assert {file.date for file in found} == {
        (START + timedelta(days=each)).date().isoformat() for each in range(10)
    }
    for file in found:
        table = pq.read_table(tmp_path / file.path, partitioning=None)
        assert table.num_rows == file.rows
        assert (tmp_path / file.path).stat().st_size == file.bytes
        assert table["offset"].to_pylist()[0] == file.lowest["offset"]


def test_what_is_held_is_bounded_and_a_full_file_is_followed_by_another(tmp_path):
    settings = WriteSettings(held_bytes_max=1_000, file_bytes_max=3_000)
    files = FileSet(placed(tmp_path), settings)
    rows = batch(*[START] * 100)
    for _ in range(50):
        files.write("t", rows)
    found = [file for _, file in files.finish()]
    assert len(found) > 1
    assert sum(file.rows for file in found) == 5_000
    groups = pq.read_metadata(tmp_path / found[0].path).num_row_groups
    assert groups > 1


def test_discarded_files_are_gone(tmp_path):
    files = FileSet(placed(tmp_path))
    files.write("t", days(3))
    files.discard()
    assert not list(tmp_path.rglob("*.parquet"))
    assert files.finish() == []
