"""`goqueue pipeline export`: a project in a new folder, or a reason why not."""

from pathlib import Path

import pytest

from tests.unit.cli.commands.pipeline.test_pipeline import refusal
from tests.unit.cli.invocation import facts, run
from tests.unit.cli.test_pipeline_files import GOOD

CONSOLE = "  screen: {console: 10, from: orders}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.yaml"
    file.write_text(GOOD)
    return file


def test_what_can_be_exported_is_written_and_the_rest_is_named(file: Path, tmp_path: Path):
    file.write_text(GOOD + CONSOLE)
    made = facts("pipeline", "export", file, tmp_path / "project")
    assert set(made["left_out"]) == {"screen"}
    assert list((tmp_path / "project").rglob("*.py"))


def test_a_folder_that_is_there_is_left_alone(file: Path, tmp_path: Path):
    folder = tmp_path / "project"
    folder.mkdir()
    assert "is there already" in refusal("export", str(file), str(folder))
    assert list(folder.iterdir()) == []


def test_without_anything_to_export_no_folder_is_made(file: Path, tmp_path: Path):
    file.write_text(GOOD.replace("  copy: {topic: copies, from: orders}\n", CONSOLE))
    result = run("pipeline", "export", file, tmp_path / "project", code=1)
    assert "no sink can be exported" in result.stderr
    assert not (tmp_path / "project").exists()
