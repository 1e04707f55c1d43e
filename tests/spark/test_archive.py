"""Topics archived by Spark, read back as anybody would."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.archive.job import AVAILABLE_NOW, archive
from goqueue.spark.archive.options import ArchiveOptions
from goqueue.spark.lake import FORMATS
from goqueue.spark.replay.job import replay
from goqueue.spark.replay.options import Choice, ReplayOptions
from tests.spark.conftest import Fill, MakeTopic
from tests.unit.spark.archive.topic_log import read_table
from tests.unit.spark.lake.object_store import KEYS, object_store, point_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def run(spark: "SparkSession", broker: str, tmp_path: Path):
    def run(*topics: str, **options) -> None:
        chosen = {"trigger": AVAILABLE_NOW, "target": str(tmp_path / "lake"), **options}
        query = archive(spark, ArchiveOptions(bootstrap=broker, topics=topics, **chosen))
        query.awaitTermination()
        assert query.exception() is None

    return run


def numbers(start: int, end: int) -> list[str]:
    return [str(each) for each in range(start, end)]


def places(rows: list[dict]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


@pytest.mark.parametrize("format", FORMATS)
def test_an_archive_has_every_record_once_and_goes_on(
    run, fill: Fill, topic: str, tmp_path: Path, format: str
):
    fill(topic, 0, numbers(0, 50), headers=(("trace", b"x"),))
    fill(topic, 1, numbers(0, 10), codec=2)
    run(topic, format=format)
    fill(topic, 0, numbers(50, 60))
    run(topic, format=format)
    rows = read_table(tmp_path / "lake", topic, format)
    assert places(rows) == [(0, n) for n in range(60)] + [(1, n) for n in range(10)]
    assert [row["value"] for row in rows[:60]] == [b"%d" % n for n in range(60)]
    assert rows[5]["key"] == b"key-5"
    assert rows[5]["headers"] == [{"key": "trace", "value": b"x"}]
    assert rows[5]["timestamp"].timestamp() == 1_700_000_000.005


def test_an_archive_without_its_checkpoint_goes_on_where_its_tables_end(
    run, fill: Fill, topic: str, tmp_path: Path
):
    fill(topic, 0, numbers(0, 50))
    run(topic, checkpoint=str(tmp_path / "first"))
    fill(topic, 0, numbers(50, 55))
    fill(topic, 1, numbers(0, 5))
    run(topic, checkpoint=str(tmp_path / "second"))
    rows = read_table(tmp_path / "lake", topic)
    assert places(rows) == [(0, n) for n in range(55)] + [(1, n) for n in range(5)]


def test_json_grows_columns_and_bad_rows_are_rejected(run, fill: Fill, topic: str, tmp_path: Path):
    fill(topic, 0, ['{"id": 1}', "oops", '{"id": 2, "name": "x"}'])
    fill(topic, 1, ['{"id": "wrong"}', '{"id": 4, "at": {"city": "y"}}'])
    run(topic, decode="json", fields="id bigint")
    fill(topic, 0, ['{"id": 5, "at": {"zip": 7}}'])
    run(topic, decode="json")
    rows = read_table(tmp_path / "lake", topic, decoded=True)
    assert [row["id"] for row in rows] == [1, 2, 5, 4]
    assert rows[2]["at"] == {"city": None, "zip": 7}
    rejected = read_table(tmp_path / "lake", f"{topic}_dlq")
    assert [row["value"] for row in rejected] == [b"oops", b'{"id": "wrong"}']


def test_spark_reads_a_plain_archive_by_its_days(
    run, spark: "SparkSession", fill: Fill, topic: str, tmp_path: Path
):
    fill(topic, 0, numbers(0, 5))
    fill(topic, 0, numbers(5, 8), start_ms=1_700_100_000_000)
    run(topic)
    found = spark.read.parquet(str(tmp_path / "lake" / topic))
    days = {str(row["date"]): row["count"] for row in found.groupBy("date").count().collect()}
    assert days == {"2023-11-14": 5, "2023-11-16": 3}


def test_topics_that_are_made_later_join_in_by_a_pattern(
    run, make_topic: MakeTopic, names: Iterator[str], fill: Fill, tmp_path: Path
):
    first, second = next(names), next(names)
    make_topic(1, first)
    fill(first, 0, numbers(0, 5))
    pattern = f"{first}|{second}"
    run(pattern=pattern)
    make_topic(2, second)
    fill(second, 1, numbers(0, 3))
    fill(first, 0, numbers(5, 6))
    run(pattern=pattern)
    assert len(read_table(tmp_path / "lake", first)) == 6
    assert places(read_table(tmp_path / "lake", second)) == [(1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(
    "format", ["delta", *(pytest.param(each, marks=pytest.mark.slow) for each in ("parquet",))]
)
def test_an_archive_in_an_object_store_goes_on_and_is_replayed(
    run,
    spark: "SparkSession",
    fill: Fill,
    topic: str,
    broker: str,
    names: Iterator[str],
    values_in: Callable[[str], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
):
    with object_store() as url:
        point_to(monkeypatch, url)
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": url}.items():  # this JVM was there before
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
        monkeypatch.chdir(tmp_path)  # for the checkpoint
        fill(topic, 0, numbers(0, 50), headers=(("trace", b"x"),))
        fill(topic, 1, numbers(0, 10))
        run(topic, format=format, target="s3://lake/home")
        fill(topic, 0, numbers(50, 60))
        run(topic, format=format, target="s3a://lake/home/", checkpoint=str(tmp_path / "another"))
        again = next(names)
        done = replay(
            spark,
            ReplayOptions(
                bootstrap=broker,
                archive=f"s3://lake/home/{topic}",
                to=again,
                choice=Choice(where="offset % 2 = 0"),
                state=str(tmp_path / "state"),
                window=20,
            ),
        )
    assert (done.messages, done.windows) == (35, 3)
    assert sorted(values_in(again)) == sorted([*numbers(0, 60)[::2], *numbers(0, 10)[::2]])
