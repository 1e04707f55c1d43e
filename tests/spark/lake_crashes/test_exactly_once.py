"""Archives whose driver is killed before, in the middle of and after a commit: nothing shows.

The control runs always, and `test_one_death.py`; all formats and points, several deaths each, with
`-m slow`.
"""

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.spark.lake import FORMATS
from tests.spark.conftest import Fill
from tests.spark.lake_crashes.job import TABLES
from tests.spark.lake_crashes.scene import RECORDS_A_BATCH, ROWS_A_BATCH, Scene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTS = ("before", "middle", "after")
FAILURE = "committed, and nobody knows"


@pytest.fixture
def scene(spark: "SparkSession", broker: str, topic: str, tmp_path: Path, fill: Fill) -> Scene:
    scene = Scene(spark, broker, topic, tmp_path / "lake")
    scene.fill(fill)
    return scene


def test_without_marks_a_failure_after_a_commit_shows_duplicates(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    """The control: the same job with its memory taken away.  So the other tests can fail."""
    with monkeypatch.context() as patch:
        fail_after_a_commit(patch, "delta")
        with pytest.raises(Exception, match=FAILURE):
            scene.finish("delta")
    forget(monkeypatch, "delta")
    scene.finish("delta")
    twice = scene.found("delta") - scene.expected
    assert 0 < twice.total() <= ROWS_A_BATCH + 2 * RECORDS_A_BATCH
    assert scene.expected - scene.found("delta") == Counter()


def fail_after_a_commit(patch: pytest.MonkeyPatch, format: str) -> None:
    """What a death leaves behind, in a session that lives on."""
    kind: Any = TABLES[format]
    commit = kind.commit

    def commit_and_fail(table: Any, *given: Any) -> None:
        commit(table, *given)
        if not table.location.endswith("_dlq"):
            raise RuntimeError(FAILURE)

    patch.setattr(kind, "commit", commit_and_fail)


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
