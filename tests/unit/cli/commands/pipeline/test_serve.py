"""`goqueue pipeline serve`: what it refuses before it starts Spark."""

import fcntl
from pathlib import Path

import pytest

from goqueue.cli.commands.pipeline.serve import LOCK
from tests.unit.cli.invocation import run


def test_what_is_no_folder(tmp_path: Path):
    assert "is not a folder" in run("pipeline", "serve", tmp_path / "no", code=2).stderr


def test_two_services_of_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("goqueue.cli.commands.pipeline.serve.reached_broker", lambda *_: "b:1")
    with (tmp_path / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = run("pipeline", "serve", tmp_path, code=1).stderr
    assert "another service runs the pipelines of" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--tables", "hdfs://lake"), "--tables: hdfs://lake: a lake is a folder"),
        (("--tables-catalog", "prod"), "where the tables are is said by --tables"),
    ],
)
def test_where_tables_cannot_be(
    tmp_path: Path, options: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("goqueue.cli.commands.pipeline.serve.reached_broker", lambda *_: "b:1")
    assert told in run("pipeline", "serve", tmp_path, *options, code=2).stderr
