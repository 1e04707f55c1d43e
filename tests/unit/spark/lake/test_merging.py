"""Which small files are merged, and that their rows stay what they were."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from goqueue.spark.lake import LakeFile, Placement
from goqueue.spark.lake.merging import FILES_MAX, Group, groups, merge


def file(name: str, date: str, size: int) -> LakeFile:
    return LakeFile(name, date, size)


def paths(found: list[Group]) -> list[list[str]]:
    return [[each.path for each in group.files] for group in found]


def test_small_files_of_a_day_make_one_and_large_ones_stay():
    files = [file("a", "d1", 10), file("b", "d1", 10), file("c", "d1", 90), file("d", "d2", 10)]
    assert paths(groups(files, target_bytes=100)) == [["a", "b"]]


def test_no_group_is_larger_than_the_target():
    files = [file(f"{n:02}", "d", 40) for n in range(5)]
    assert paths(groups(files, target_bytes=100)) == [["00", "01"], ["02", "03"]]


def test_a_group_has_an_end():
    found = groups([file(f"{n:05}", "d", 1) for n in range(FILES_MAX + 10)], target_bytes=10**9)
    assert [len(each.files) for each in found] == [FILES_MAX, 10]


def written(tmp_path: Path, name: str, **columns: list) -> LakeFile:
    table = pa.table(
        {"timestamp": pa.array([0] * len(columns["x"]), pa.timestamp("us", "UTC")), **columns}
    )
    pq.write_table(table, tmp_path / name)
    return LakeFile(name, "1970-01-01", (tmp_path / name).stat().st_size)


def test_rows_keep_their_order_and_unlike_files_stay_apart(tmp_path: Path):
    placement = Placement(str(tmp_path), "", "date", "timestamp")
    files = [
        written(tmp_path, "a.parquet", x=[1, 2]),
        written(tmp_path, "b.parquet", x=[3], y=["new"]),
        written(tmp_path, "c.parquet", x=[4]),
    ]
    done = merge(placement, Group(files))
    assert [each.path for each in done.old] == ["a.parquet", "c.parquet"]
    [new] = done.new
    assert pq.read_table(tmp_path / new.path, partitioning=None)["x"].to_pylist() == [1, 2, 4]
    assert new.date == "1970-01-01"


def test_nothing_alike_means_nothing_to_do(tmp_path: Path):
    placement = Placement(str(tmp_path), "", "date", "timestamp")
    files = [written(tmp_path, "a.parquet", x=[1]), written(tmp_path, "b.parquet", x=["1"])]
    done = merge(placement, Group(files))
    assert (done.old, done.new) == ([], [])
