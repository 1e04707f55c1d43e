"""A topic in memory, and tasks that read it: what Spark does for an archiver, without Spark."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from goqueue.spark.archive import tasks
from goqueue.spark.archive.archiver import Archiver, ArchiveSettings, TopicFacts
from goqueue.spark.archive.columns import RECORD_SCHEMA
from goqueue.spark.archive.plan import Plan, Report
from goqueue.spark.lake import open_table

NOON_US = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()) * 1_000_000


class TopicLog:
    """Values by topic and partition; an offset is an index."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, int], list[bytes | None]] = {}
        self.ids: dict[str, str] = {}
        self.times: dict[tuple[str, int, int], int] = {}

    def append(self, topic: str, partition: int, *values: bytes | None) -> None:
        self._values.setdefault((topic, partition), []).extend(values)

    def facts(self, topic: str) -> TopicFacts:
        """As a broker would have said before the newest partition was added."""
        known = [partition for name, partition in self._values if name == topic]
        return TopicFacts(self.ids.get(topic, topic), max(known, default=0))

    def batches(self, places: Iterable[tuple[str, int, int, int]]) -> list[Any]:
        """An Arrow batch for each topic, partition, start and end."""
        return [self._batch(*each) for each in places]

    def whole(self) -> list[tuple[str, int, int, int]]:
        return [(*place, 0, len(values)) for place, values in sorted(self._values.items())]

    def _batch(self, topic: str, partition: int, start: int, end: int) -> Any:
        offsets = range(start, end)
        times = [self.times.get((topic, partition, each), NOON_US) for each in offsets]
        columns = {
            "key": [b"%d" % each for each in offsets],
            "value": self._values[topic, partition][start:end],
            "topic": [topic] * len(offsets),
            "partition": [partition] * len(offsets),
            "offset": list(offsets),
            "timestamp": times,
            "timestampType": [0] * len(offsets),
            "headers": [None] * len(offsets),
        }
        arrays = [pa.array(columns[each.name], each.type) for each in RECORD_SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


class Runs:
    """Hands plans to tasks, one for each list of batches, and counts the rounds."""

    def __init__(self, *batches_of_tasks: Sequence[Any]) -> None:
        self._tasks = batches_of_tasks
        self.rounds = 0

    def __call__(self, plan: Plan) -> list[Report]:
        self.rounds += 1
        return [tasks.archive(plan, each) for each in self._tasks]


def archiver(log: TopicLog, target: Path, format: str = "parquet", **settings: Any) -> Archiver:
    return Archiver(ArchiveSettings(target=str(target), format=format, **settings), log.facts)


def read_table(
    target: Path, name: str, format: str = "parquet", *, decoded: bool = False
) -> list[dict[str, Any]]:
    """Rows of the files that are part of a table, in the order of their offsets."""
    date = "record_date" if decoded else "date"
    table = open_table(
        format,
        target / name,
        date_column=date,
        time_column="record_timestamp" if decoded else "timestamp",
    )
    rows = []
    for file in table.files():
        found = pq.read_table(target / name / file.path, partitioning=None)
        rows += [{**row, "day": file.date} for row in found.to_pylist()]
    prefix = "record_" if decoded else ""
    return sorted(rows, key=lambda row: (row[f"{prefix}partition"], row[f"{prefix}offset"]))
