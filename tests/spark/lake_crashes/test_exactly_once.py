"""Archives whose driver is killed before, in the middle of and after a commit: nothing shows.

The short slice runs always; all formats and points, several deaths each, with `-m slow`.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from goqueue.spark.jobs.archive import archive
from goqueue.spark.lake import FORMATS
from tests.spark.conftest import START_MS, Fill
from tests.spark.lake_crashes.job import TABLES, Settings, options
from tests.unit.spark.lake.readers import read_as_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = Path(__file__).with_name("job.py")
JOB_S = 600.0
KILLED = -9
POINTS = ("before", "middle", "after")
RECORDS_A_BATCH = 100
ROWS_A_BATCH = 600
ROWS = 2_400
DAY_MS = 86_400_000


class Scene:
    """A topic of two partitions, two days and some bad rows, and its archive."""

    def __init__(self, spark: "SparkSession", broker: str, topic: str, target: Path) -> None:
        self._spark, self._broker, self._topic, self._target = spark, broker, topic, target

    def fill(self, fill: Fill) -> None:
        for start in range(0, ROWS, RECORDS_A_BATCH):
            values = [self._value(number) for number in range(start, start + RECORDS_A_BATCH)]
            day = (start // RECORDS_A_BATCH // 2) % 2
            partition = (start // RECORDS_A_BATCH) % 2
            fill(self._topic, partition, values, start_ms=START_MS + day * DAY_MS)

    def _value(self, number: int) -> str:
        return f"bad {number}" if number % 50 == 7 else f'{{"id": {number}}}'

    def settings(self, format: str, point: str = "", commit: int = 0) -> Settings:
        return Settings(
            bootstrap=self._broker,
            topic=self._topic,
            target=str(self._target),
            format=format,
            rows_a_batch=ROWS_A_BATCH,
            point=point,
            commit=commit,
        )

    def die(self, format: str, point: str, commit: int) -> None:
        """Archive in a process that kills itself."""
        told = json.dumps(msgspec.to_builtins(self.settings(format, point, commit)))
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in paths if each)
        }
        done = subprocess.run(
            [sys.executable, "-P", str(JOB), told],
            capture_output=True,
            timeout=JOB_S,
            check=False,
            env=environment,
            start_new_session=True,
        )
        assert done.returncode == KILLED, done.stderr.decode()[-3000:]

    def finish(self, format: str) -> None:
        query = archive(self._spark, options(self.settings(format)))
        query.awaitTermination()

    def found(self, format: str) -> Counter[Any]:
        rows = read_as_others(format, self._target / self._topic)
        letters = read_as_others(format, self._target / f"{self._topic}_dlq")
        ids, bad = rows["id"].to_pylist(), letters["value"].to_pylist()
        return Counter(ids) + Counter(each.decode() for each in bad)

    @property
    def expected(self) -> Counter[Any]:
        values = [self._value(number) for number in range(ROWS)]
        return Counter(
            each if each.startswith("bad") else json.loads(each)["id"] for each in values
        )

    def check(self, format: str) -> None:
        found, expected = self.found(format), self.expected
        assert found - expected == Counter(), "there are duplicates"
        assert expected - found == Counter(), "there are losses"


@pytest.fixture
def scene(spark: "SparkSession", broker: str, topic: str, tmp_path: Path, fill: Fill) -> Scene:
    scene = Scene(spark, broker, topic, tmp_path / "lake")
    scene.fill(fill)
    return scene


@pytest.mark.timeout(900)
def test_a_death_in_the_middle_of_a_commit_neither_loses_nor_doubles_anything(scene: Scene):
    scene.die("parquet", "middle", 2)
    scene.finish("parquet")
    scene.check("parquet")


@pytest.mark.timeout(900)
def test_without_marks_a_death_after_a_commit_shows_duplicates(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    """The control: the same job with its memory taken away.  So the other tests can fail."""
    scene.die("delta", "after", 1)
    forget(monkeypatch, "delta")
    scene.finish("delta")
    twice = scene.found("delta") - scene.expected
    assert 0 < twice.total() <= ROWS_A_BATCH + 2 * RECORDS_A_BATCH
    assert scene.expected - scene.found("delta") == Counter()


def forget(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    monkeypatch.setattr(TABLES[format], "marks", lambda *_: {})
    monkeypatch.setattr(f"goqueue.spark.lake.{format}.check_marks", lambda *_: None)
    if format == "delta":  # delta-rs itself would refuse to move a mark back
        monkeypatch.setattr("goqueue.spark.lake.delta.Transaction", forgetful_transaction)


def forgetful_transaction(name: str, version: int) -> Any:
    from deltalake import Transaction

    return Transaction(f"{name}-{os.urandom(8).hex()}", version)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("format", FORMATS)
def test_a_driver_may_die_anywhere_several_times(scene: Scene, format: str, point: str):
    for commit in (1, 2, 1):
        scene.die(format, point, commit)
    scene.finish(format)
    scene.check(format)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_doubles_without_its_marks(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, format: str
):
    scene.die(format, "after", 1)
    forget(monkeypatch, format)
    scene.finish(format)
    assert (scene.found(format) - scene.expected).total() > 0
