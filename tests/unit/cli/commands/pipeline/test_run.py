"""`goqueue pipeline run`: how it ends."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from goqueue.cli.commands.pipeline.run import _check_complete
from goqueue.cli.failures import ExitCode, Failure
from tests.unit.cli.commands.pipeline.test_pipeline import refusal


def stop_flag(requested: bool) -> SimpleNamespace:
    return SimpleNamespace(stop=SimpleNamespace(requested=requested))


def test_being_stopped_is_how_an_endless_job_ends():
    _check_complete(stop_flag(True), is_endless=True)  # type: ignore[arg-type]
    _check_complete(stop_flag(False), is_endless=False)  # type: ignore[arg-type]


def test_a_job_that_had_work_left_was_interrupted():
    with pytest.raises(Failure) as failed:
        _check_complete(stop_flag(True), is_endless=False)  # type: ignore[arg-type]
    assert failed.value.code == ExitCode.INTERRUPTED


def test_a_file_that_is_not_there_is_told_before_a_broker_is_asked(tmp_path: Path):
    assert "cannot be read" in refusal("run", str(tmp_path / "pipeline.yaml"))
