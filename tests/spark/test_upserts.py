"""Changes of a pipeline merged into tables by key: deletes by a condition, tombstones, and what is
wrong with a declaration."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.client.kafka import KafkaClient
from goqueue.model.batch import encode
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.pipelines.tree import PipelineProblems
from tests.spark.conftest import START_MS
from tests.unit.spark.lake.readers import read_as_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PIPELINE = """
name: people
sources:
  people: {{topic: {topic}, schema: 'id bigint, name string'}}
steps:
  changes: >-
    select coalesce(id, cast(_key as bigint)) as id, name, _value is null as _gone, _offset
    from people
  totals: >-
    select name, count(*) as n, max(_offset) as latest
    from people where name is not null group by name
sinks:
  people: {{from: changes, table: lake/people, keys: [id], delete: _gone}}
  totals: {{from: totals, table: lake/totals, keys: [name], version: latest, mode: update, {more}}}
"""


def test_tombstones_delete_and_aggregates_are_kept_as_tables(
    spark: "SparkSession", broker: str, client: KafkaClient, topic: str, tmp_path: Path
):
    def write(*rows: tuple[int, str | None]) -> None:
        records = [
            Record(
                offset=index,
                timestamp=START_MS,
                key=str(key).encode(),
                value=None if name is None else f'{{"id": {key}, "name": "{name}"}}'.encode(),
            )
            for index, (key, name) in enumerate(rows)
        ]
        client.produce({TopicPartition(TopicName(topic), 0): [encode(records)]})

    def run() -> None:
        job = _job(spark, broker, tmp_path, PIPELINE.format(topic=topic, more="format: iceberg"))
        for query in job.start(show=print, once=True):
            query.awaitTermination()

    write((1, "a"), (2, "b"), (1, "A"), (3, "a"))
    run()
    write((2, None), (3, "A"), (4, "d"))
    run()
    rows = read_as_others("delta", tmp_path / "lake" / "people").to_pylist()
    assert {row["id"]: row["name"] for row in rows} == {1: "A", 3: "A", 4: "d"}
    totals = read_as_others("iceberg", tmp_path / "lake" / "totals").to_pylist()
    assert {row["name"]: row["n"] for row in totals} == {
        "a": 2,
        "b": 1,
        "A": 2,
        "d": 1,
    }


def test_what_is_wrong_with_a_table_is_told_before_it_starts(
    spark: "SparkSession", broker: str, topic: str, tmp_path: Path
):
    text = f"""
name: people
sources:
  people: {{topic: {topic}, schema: 'id bigint, name string'}}
steps:
  bare: select id, name from people
sinks:
  a: {{from: bare, table: lake/a, keys: [id]}}
  b: {{from: people, table: lake/b, keys: [key]}}
  c: {{from: people, table: lake/c, keys: [id], version: name}}
  d: {{from: people, table: lake/d, keys: [id], cdc: debezium}}
"""
    with pytest.raises(PipelineProblems) as raised:
        _job(spark, broker, tmp_path, text).plan()
    told = {each.path: each.text for each in raised.value.problems}
    assert "which change is newer?" in told["sinks.a"]
    assert told["sinks.b"] == "there is no column key, which `keys` names"
    assert told["sinks.c"] == "`version` is string: it must be a whole number or a time"
    assert "there is no column before, after, op" in told["sinks.d"]


def _job(spark: "SparkSession", broker: str, folder: Path, text: str) -> Any:
    pipeline = read_pipeline(text, variables={})
    places = Places(broker, folder, pipeline.checkpoints, pipeline.name)
    return PipelineJob(spark, pipeline, places)
