"""`goqueue pipeline check`: a file's problems, without Spark or a broker."""

from pathlib import Path

from tests.unit.cli.commands.pipeline.test_pipeline import refusal
from tests.unit.cli.invocation import facts, run
from tests.unit.cli.test_pipeline_files import GOOD


def test_a_sound_file_is_counted(tmp_path: Path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(GOOD)
    assert facts("pipeline", "check", file)["name"] == "copy"
    shown = run("pipeline", "check", file, "-o", "table", code=0).stdout
    assert "pipeline 'copy', 1 sources, 0 steps, 1 sinks" in " ".join(shown.split())


def test_a_broken_file_ends_with_2(tmp_path: Path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(GOOD.replace("from: orders", "from: nowhere"))
    assert "nowhere" in refusal("check", str(file))
