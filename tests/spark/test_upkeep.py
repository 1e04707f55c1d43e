"""Small files merged and garbage removed, while nobody loses a row."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.archive.tables import find_archives
from goqueue.spark.lake import FORMATS, LakeError
from goqueue.spark.lake.upkeep import compact_files, vacuum
from tests.unit.spark.archive.topic_log import Runs, TopicLog, archiver, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def archived(target: Path, format: str) -> TopicLog:
    """Six commits, so six files."""
    log = TopicLog()
    job = archiver(log, target, format)
    for number in range(6):
        log.append("orders", 0, b"%d" % number)
        job.archive(Runs(log.batches([("orders", 0, number, number + 1)])))
    return log


@pytest.mark.parametrize("format", FORMATS)
def test_files_become_few_and_rows_stay_and_what_was_replaced_goes(
    spark: "SparkSession", tmp_path: Path, format: str
):
    log = archived(tmp_path, format)
    [done] = compact_files(spark, str(tmp_path))
    assert (done.files_before, done.files_after, done.merged) == (6, 1, 6)
    log.append("orders", 0, b"6")
    archiver(log, tmp_path, format).archive(Runs(log.batches(log.whole())))
    rows = read_table(tmp_path, "orders", format)
    assert [row["value"] for row in rows] == [b"%d" % number for number in range(7)]
    [kept] = vacuum(str(tmp_path), hours=1)
    assert kept.removed == []  # a reader of an hour ago may need them
    [table] = find_archives(tmp_path / "orders")
    table.table.vacuum(hours=0, dry_run=False)
    assert read_table(tmp_path, "orders", format) == rows
    assert len(list((tmp_path / "orders").rglob("*.parquet"))) == 2


def test_a_vacuum_that_would_hurt_running_jobs_is_refused(tmp_path: Path):
    archived(tmp_path, "parquet")
    with pytest.raises(LakeError, match="at least 1"):
        vacuum(str(tmp_path), hours=0.5)


def test_a_folder_without_tables_is_said_to_be_one(tmp_path: Path):
    with pytest.raises(LakeError, match="no tables"):
        vacuum(str(tmp_path))
