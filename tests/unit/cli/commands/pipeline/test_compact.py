"""`goqueue pipeline compact`: what is told of each partition."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from goqueue.cli.commands.pipeline import compact
from goqueue.cli.jobs import JobOptions
from tests.unit.cli.invocation import run


class Counts(msgspec.Struct):
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


class Compacted(msgspec.Struct):
    partition: int
    result: Counts


@contextlib.contextmanager
def no_spark(*_: object, **__: object) -> Iterator[SimpleNamespace]:
    def job(_name: str, work: Any) -> Any:
        return work()

    yield SimpleNamespace(spark=None, job=job)


@pytest.mark.parametrize("flags", [[], ["--dry-run"]])
def test_a_partition_has_what_was_there_and_what_is_left(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
):
    asked: list[tuple[str, str, bool]] = []

    def compact_topic(
        _spark: object, _client: object, topic: str, servers: str, *, dry_run: bool
    ) -> list[Compacted]:
        asked.append((topic, servers, dry_run))
        return [Compacted(3, Counts(100, 10, 2000, 200))]

    monkeypatch.setattr(compact, "reached_broker", lambda *_: "broker:9092")
    monkeypatch.setattr(JobOptions, "run", no_spark)
    monkeypatch.setattr("goqueue.spark.compaction.job.compact", compact_topic)
    result = run("pipeline", "compact", "orders", *flags, "-o", "table", code=0)
    assert result.stdout.splitlines()[1].split() == ["3", "100", "10", "2000", "200"]
    assert ("nothing was changed" in result.stderr) == bool(flags)
    assert asked == [("orders", "broker:9092", bool(flags))]
