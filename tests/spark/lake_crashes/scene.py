"""A topic and its archive: filled, archived, killed, read as others read it."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.spark.archive.job import archive
from tests.spark.conftest import START_MS, Fill
from tests.spark.lake_crashes.job import Settings, options
from tests.unit.spark.lake.readers import read_as_others, read_by_duckdb, read_from_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = Path(__file__).with_name("job.py")
JOB_S = 600.0
KILLED = -9
RECORDS_A_BATCH = 100
ROWS_A_BATCH = 600
ROWS = 2_400
DAY_MS = 86_400_000


class Scene:
    """A topic of two partitions, two days and some bad rows, and its archive."""

    def __init__(
        self,
        spark: "SparkSession",
        broker: str,
        topic: str,
        target: Path | str,
        catalog: str | None = None,
    ) -> None:
        self._spark, self._broker, self._topic, self._target = spark, broker, topic, target
        self._catalog = catalog

    def fill(self, fill: Fill) -> None:
        for start in range(0, ROWS, RECORDS_A_BATCH):
            values = [self._value(number) for number in range(start, start + RECORDS_A_BATCH)]
            day = (start // RECORDS_A_BATCH // 2) % 2
            partition = (start // RECORDS_A_BATCH) % 2
            fill(self._topic, partition, values, start_ms=START_MS + day * DAY_MS)

    def _value(self, number: int) -> str:
        return f"bad {number}" if number % 50 == 7 else f'{{"id": {number}}}'

    def settings(self, format: str, **more: Any) -> Settings:
        return Settings(
            bootstrap=self._broker,
            topic=self._topic,
            target=str(self._target),
            format=format,
            rows_a_batch=ROWS_A_BATCH,
            catalog=self._catalog,
            **more,
        )

    def die(self, format: str, point: str, commit: int) -> None:
        """Archive in a process that kills itself."""
        told = json.dumps(msgspec.to_builtins(self.settings(format, point=point, commit=commit)))
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
        return self._count(self._read(format, ""), self._read(format, "_dlq"))

    def found_by_duckdb(self, format: str) -> Counter[Any]:
        assert isinstance(self._target, Path), "DuckDB is asked for folders only"
        names = (self._topic, f"{self._topic}_dlq")
        return self._count(*(read_by_duckdb(format, self._target / each) for each in names))

    def _count(self, rows: Any, rejected: Any) -> Counter[Any]:
        ids, bad = rows["id"].to_pylist(), rejected["value"].to_pylist()
        return Counter(ids) + Counter(each.decode() for each in bad)

    def _read(self, format: str, suffix: str) -> Any:
        name = f"{self._topic}{suffix}"
        if isinstance(self._target, str):
            return read_from_store(format, f"{self._target}/{name}", self._catalog or "")
        return read_as_others(format, self._target / name)

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
        if isinstance(self._target, Path):
            assert self.found_by_duckdb(format) == expected, "DuckDB sees something else"
