"""The job that dies: a Spark driver that merges Debezium changes into a table.

    python upsert_job.py SETTINGS-AS-JSON

It merges what there is and ends.  Told a `merge`, it kills itself and its JVM at a named point:

    before     the batch is read, and nothing is written
    between    deleted keys are committed to their table, and the rows are not
    after      the rows are committed, and Spark does not know
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

import goqueue.spark
from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.upserts.merging import DeltaMergeTable, IcebergMergeTable
from goqueue.spark.upserts.upserter import DELETED_SUFFIX

PIPELINE = """
name: people
sources:
  changes:
    topic: {topic}
    max_messages: {rows_a_batch}
    schema: >-
      before struct<id: bigint, name: string>, after struct<id: bigint, name: string>,
      op string, ts_ms bigint
sinks:
  people: {{from: changes, table: lake/people, format: {format}, keys: [id], cdc: debezium,
           history: {history}}}
"""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    topic: str
    folder: str
    format: str
    rows_a_batch: int
    history: bool = False
    point: str = ""
    merge: int = 0  # never


def run(spark: Any, settings: Settings) -> None:
    text = PIPELINE.format(
        **{**msgspec.structs.asdict(settings), "history": str(settings.history).lower()}
    )
    pipeline = read_pipeline(text, variables={})
    places = Places(settings.bootstrap, Path(settings.folder), pipeline.checkpoints, pipeline.name)
    for query in PipelineJob(spark, pipeline, places).start(show=print, once=True):
        query.awaitTermination()


def arm(settings: Settings) -> None:
    kind: Any = {"delta": DeltaMergeTable, "iceberg": IcebergMergeTable}[settings.format]
    real, left = kind.merge, settings.merge

    def merge(table: Any, *given: Any) -> None:
        nonlocal left
        is_rows = not table.location.endswith(DELETED_SUFFIX)
        if left > 1 or (not is_rows and settings.point != "before"):
            left -= is_rows
            real(table, *given)
            return
        if settings.point == "after":
            real(table, *given)
        die()

    kind.merge = merge


def die() -> None:
    os.killpg(0, signal.SIGKILL)  # the JVM is of the same group


if __name__ == "__main__":
    told = msgspec.json.decode(sys.argv[1], type=Settings)
    if told.merge:
        arm(told)
    session = goqueue.spark.session(
        master="local[2]",
        settings={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
    )
    run(session, told)
    session.stop()
