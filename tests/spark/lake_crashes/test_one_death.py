"""A driver that dies in the middle of an archive's commit, and between the two of a merge.

The short slice of what `test_exactly_once.py` and `test_upserts.py` do everywhere, several times.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tests.spark.conftest import Fill, MakeTopic
from tests.spark.lake_crashes import scene as archives
from tests.spark.lake_crashes import test_upserts as merges
from tests.spark.lake_crashes.upsert_job import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
JOB = Path(__file__).with_name("both_job.py")


def test_it_neither_loses_nor_doubles_nor_revives_anything(
    spark: "SparkSession", broker: str, make_topic: MakeTopic, fill: Fill, tmp_path: Path
):
    archive = archives.Scene(spark, broker, make_topic(2), tmp_path / "archive")
    archive.fill(fill)
    made = merges.changes(1)
    topic = merges.fill_topic(make_topic, fill, made)
    merge = merges.Scene(broker, topic, tmp_path / "merge", "delta")

    archived = archive.settings("parquet", point="middle", commit=2)
    # In the last batch: no later one hides what is left undone.
    merged = msgspec.structs.replace(merge.settings, point="between", merge=3)
    die(archived, merged)

    archive.finish("parquet")
    archive.check("parquet")
    run(spark, merge.settings)
    merges.check_states(merge, made)


def die(*settings: Any) -> None:
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(os.path.abspath(each) for each in paths if each)
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            str(JOB),
            *(msgspec.json.encode(each).decode() for each in settings),
        ],
        capture_output=True,
        timeout=archives.JOB_S,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    assert done.returncode == archives.KILLED, done.stderr.decode()[-3000:]
