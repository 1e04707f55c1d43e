"""What every table format promises, of tables in an object store."""

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("moto")

import pyarrow as pa
from pyiceberg.utils.config import Config

from goqueue.spark.archive.tables import find_archives, open_archive
from goqueue.spark.lake import LakeError, LakeTable, MarksMoved, open_table
from goqueue.spark.lake.object_parquet import ObjectParquetTable
from goqueue.spark.lake.roots import StoreError, join, normalize
from goqueue.spark.lake.store import Store, store_of
from goqueue.spark.lake.table import check_marks
from goqueue.spark.lake.writing import FileSet
from tests.unit.spark.lake.object_store import BUCKET, object_store, point_to
from tests.unit.spark.lake.readers import read_from_store

SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
CATALOG = "PYICEBERG_CATALOG__PROD__"

Open = Callable[[], LakeTable]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_store() as url:
        yield url


@pytest.fixture
def home(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a lake, and a catalog `prod` in pyiceberg's configuration."""
    point_to(monkeypatch, endpoint)
    monkeypatch.setenv(f"{CATALOG}TYPE", "sql")
    monkeypatch.setenv(f"{CATALOG}URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it looks only once
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def open_again(request: pytest.FixtureRequest, home: str) -> Open:
    """Opens the same table, as a process of its own would."""
    catalog = "prod.raw" if request.param == "iceberg" else None
    return lambda: open_table(
        request.param,
        f"{home}/orders",
        date_column="date",
        time_column="timestamp",
        catalog=catalog,
    )


@pytest.fixture
def table(open_again: Open) -> LakeTable:
    return open_again()


def rows(*offsets: int, schema: Any = SCHEMA) -> Any:
    columns = {
        "offset": list(offsets),
        "timestamp": [NOON + timedelta(seconds=each) for each in offsets],
    }
    arrays = [pa.array(columns.get(each.name, [None] * len(offsets)), each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def written(table: LakeTable, *batches: Any) -> list:
    files = FileSet({"orders": table.placement()})
    for each in batches:
        files.write("orders", each)
    return [file for _, file in files.finish()]


def offsets(table: LakeTable) -> list[int]:
    """What readers find that know nothing of our code."""
    formats = {"DeltaLakeTable": "delta", "IcebergLakeTable": "iceberg"}
    format = formats.get(type(table).__name__, "parquet")
    found = read_from_store(format, table.location, "prod.raw")
    return sorted(found["offset"].to_pylist()) if found.num_rows else []


def test_files_and_marks_arrive_together(table: LakeTable, open_again: Open):
    assert (table.schema(), table.marks(["a"]), table.files()) == (None, {}, [])
    table.ensure(SCHEMA)
    files = written(table, rows(0, 1, 86_400))
    assert offsets(table) == []
    table.commit(files, {"orders/0": 3}, {})
    assert offsets(table) == [0, 1, 86_400]
    again = open_again()
    assert again.marks(["orders/0", "orders/1"]) == {"orders/0": 3}
    assert again.schema().equals(SCHEMA)
    assert sorted(str(each.date) for each in again.files()) == ["2026-01-31", "2026-02-01"]


def test_a_second_job_with_the_same_rows_is_refused(table: LakeTable, open_again: Open):
    table.ensure(SCHEMA)
    rival = open_again()
    first, second = written(table, rows(0, 1)), written(rival, rows(0, 1))
    table.commit(first, {"orders/0": 2}, {})
    with pytest.raises(MarksMoved):
        rival.commit(second, {"orders/0": 2}, {})
    assert offsets(table) == [0, 1]


def test_a_rival_between_the_look_and_the_commit_is_noticed(
    table: LakeTable, open_again: Open, monkeypatch: pytest.MonkeyPatch
):
    rival = open_again()
    table.ensure(SCHEMA)
    first, second = written(table, rows(0, 1)), written(table, rows(0, 1))
    module = type(table).commit.__module__

    def overtaken(*given: Any) -> None:
        check_marks(*given)
        monkeypatch.setattr(f"{module}.check_marks", check_marks)
        rival.commit(second, {"orders/0": 2}, {})

    monkeypatch.setattr(f"{module}.check_marks", overtaken)
    with pytest.raises(MarksMoved):
        table.commit(first, {"orders/0": 2}, {})
    assert offsets(table) == [0, 1]


def test_of_many_writers_at_once_each_row_is_there_once(table: LakeTable, open_again: Open):
    """Each tries until the rows of its turn are in the table, by whoever's hand."""
    table.ensure(SCHEMA)

    def write(turns: int) -> None:
        mine = open_again()
        while True:
            since = mine.marks(["orders/0"])
            offset = since.get("orders/0", 0)
            if offset == turns:
                return
            try:
                mine.commit(written(mine, rows(offset)), {"orders/0": offset + 1}, since)
            except MarksMoved:
                continue

    writers = [threading.Thread(target=write, args=(6,)) for _ in range(3)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert offsets(table) == [0, 1, 2, 3, 4, 5]


def test_a_file_that_vanished_is_not_committed(table: LakeTable):
    table.ensure(SCHEMA)
    files = written(table, rows(0))
    store_of(table.location).delete(files[0].path)
    with pytest.raises(LakeError, match="gone"):
        table.commit(files, {"orders/0": 1}, {})
    assert table.marks(["orders/0"]) == {}


def test_columns_are_added(table: LakeTable):
    table.ensure(SCHEMA)
    table.commit(written(table, rows(0)), {"orders/0": 1}, {})
    wider = SCHEMA.append(pa.field("price", pa.float64()))
    table.ensure(wider)
    assert table.schema().equals(wider)
    table.commit(written(table, rows(1, schema=wider)), {"orders/0": 2}, {"orders/0": 1})
    assert offsets(table) == [0, 1]


def test_files_are_replaced_and_vacuumed(table: LakeTable):
    table.ensure(SCHEMA)
    for each in range(2):
        since = {"orders/0": each} if each else {}
        table.commit(written(table, rows(each)), {"orders/0": each + 1}, since)
    written(table, rows(7))  # by a task whose batch was never committed
    old, new = table.files(), written(table, rows(0, 1))
    if isinstance(table, ObjectParquetTable):
        with pytest.raises(LakeError, match="Delta or Iceberg"):
            table.replace(old, new)
        assert len(table.vacuum(hours=0, dry_run=False)) == 2
    else:
        table.replace(old, new)
        assert len(table.files()) == 1
        table.vacuum(hours=0, dry_run=False)
    assert offsets(table) == [0, 1]
    table.commit(written(table, rows(2)), {"orders/0": 3}, {"orders/0": 2})
    assert offsets(table) == [0, 1, 2]


def test_an_archive_is_found_by_what_lies_in_it(table: LakeTable, home: str):
    table.ensure(SCHEMA)
    table.commit(written(table, rows(0)), {"orders/0": 1}, {})
    catalog = "prod.raw" if type(table).__name__ == "IcebergLakeTable" else None
    (found,) = find_archives(home, catalog)
    assert (found.name, len(found.table.files())) == ("orders", 1)
    assert open_archive(f"{home}/orders", catalog).format == found.format
    with pytest.raises(LakeError, match="no table"):
        open_archive(f"{home}/nothing")


# --- plain Parquet --------------------------------------------------------------------------------


@pytest.fixture
def plain(home: str) -> Open:
    return lambda: open_table("parquet", f"{home}/p", date_column="date", time_column="timestamp")


@pytest.mark.parametrize("copies", [0, 1])
def test_what_a_crash_left_of_a_decision_is_carried_out_by_the_next(
    plain: Open, monkeypatch: pytest.MonkeyPatch, copies: int
):
    """A process dies after its decision, with so many of its files in their places."""
    table: Any = plain()
    table.ensure(SCHEMA)
    files = written(table, rows(0), rows(86_400))
    move, left = table._move, [None] * copies

    def die(*given: Any) -> None:
        if not left:
            raise SystemExit
        left.pop()
        move(*given)

    monkeypatch.setattr(table, "_move", die)
    with pytest.raises(SystemExit):
        table.commit(files, {"orders/0": 1}, {})
    assert len(offsets(table)) == copies
    again = plain()
    assert again.marks(["orders/0"]) == {"orders/0": 1}, "it is decided"
    again.commit(written(again, rows(1)), {"orders/0": 2}, {"orders/0": 1})
    assert offsets(again) == [0, 1, 86_400]


def test_a_decision_whose_answer_was_lost_is_found_by_its_marks(
    plain: Open, monkeypatch: pytest.MonkeyPatch
):
    """The store's client asks again, and hears that the number is taken: by itself."""
    table: Any = plain()
    table.ensure(SCHEMA)
    append = table._log.append

    def append_twice(number: int, entry: Any) -> None:
        append(number, entry)
        append(number, entry)

    monkeypatch.setattr(table._log, "append", append_twice)
    with pytest.raises(MarksMoved):
        table.commit(written(table, rows(0)), {"orders/0": 1}, {})
    again = plain()
    assert again.marks(["orders/0"]) == {"orders/0": 1}
    assert [each.date for each in again.files()] == ["2026-01-31"]
    assert offsets(again) == [0]


def test_old_entries_of_the_log_go_and_numbers_are_not_given_again(
    plain: Open, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("goqueue.spark.lake.object_log.ENTRIES_KEPT", 2)
    table, slow = plain(), plain()
    table.ensure(SCHEMA)
    for each in range(4):
        since = {"orders/0": each} if each else {}
        table.commit(written(table, rows(each)), {"orders/0": each + 1}, since)
    assert slow.marks(["orders/0"]) == {"orders/0": 4}
    assert len(table.vacuum(hours=0, dry_run=False)) == 3
    table.commit(written(table, rows(4)), {"orders/0": 5}, {"orders/0": 4})
    with pytest.raises(MarksMoved):
        slow.commit(written(slow, rows(4)), {"orders/0": 5}, {"orders/0": 4})
    assert offsets(table) == [0, 1, 2, 3, 4]


# --- where ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("s3://lake/a/", "s3://lake/a"),
        ("s3a://lake/a", "s3://lake/a"),
        ("gcs://lake/a", "gs://lake/a"),
        ("file:///tmp/lake", "/tmp/lake"),
        ("/tmp/lake/", "/tmp/lake"),
    ],
)
def test_a_place_has_one_name(given: str, expected: str):
    assert normalize(given) == expected
    assert join(given, "orders") == f"{expected}/orders"


@pytest.mark.parametrize("given", ["hdfs://lake/a", "s3:///a", "http://lake/a"])
def test_where_no_lake_can_be_is_said_before_anything_starts(given: str):
    with pytest.raises(StoreError):
        normalize(given)


@pytest.mark.usefixtures("home")
def test_a_bucket_that_is_not_there_is_said():
    Store(f"s3://{BUCKET}/anywhere").check()
    with pytest.raises(StoreError, match="no bucket 'nowhere'"):
        Store("s3://nowhere/a").check()


def test_iceberg_in_an_object_store_needs_a_catalog(home: str):
    with pytest.raises(LakeError, match="--catalog"):
        open_table("iceberg", f"{home}/orders", date_column=None, time_column=None)


def test_a_table_of_that_name_that_lies_elsewhere_is_not_written_to(home: str):
    def opened(root: str) -> LakeTable:
        place = {"date_column": None, "time_column": None}
        return open_table("iceberg", root, **place, catalog="prod")

    opened(f"{home}/orders").ensure(SCHEMA)
    with pytest.raises(LakeError, match="another namespace"):
        opened(f"{home}/other/orders").schema()
