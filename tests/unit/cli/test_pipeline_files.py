"""Pipelines as files: what cannot be read, and where problems are."""

from pathlib import Path

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.pipeline_files import PipelineFile

GOOD = """\
name: copy
sources:
  orders: {topic: orders}
sinks:
  copy: {topic: copies, from: orders}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pipeline.yaml"


def test_a_sound_file_is_read_and_relative_places_are_beside_it(file: Path):
    file.write_text(GOOD)
    declared = PipelineFile(str(file))
    assert declared.pipeline.name == "copy"
    places = declared.places("broker:9092")
    assert places.checkpoint("copy").startswith(str(file.parent.resolve()))


def test_all_problems_come_at_once_each_with_its_line(file: Path):
    file.write_text(GOOD.replace("{topic: orders}", "{topik: orders}") + "colour: red\n")
    with pytest.raises(UsageFailure) as refused:
        PipelineFile(str(file))
    head, *problems = refused.value.text.splitlines()
    assert head == f"{len(problems)} problems"
    assert len(problems) >= 2
    lines = {int(each.removeprefix(f"{file}:").partition(":")[0]) for each in problems}
    assert lines <= set(range(1, 7))
    assert {3, 6} <= lines


def test_what_is_no_text_or_no_file_is_told(file: Path):
    with pytest.raises(UsageFailure, match="cannot be read: No such file"):
        PipelineFile(str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageFailure, match="not a text in UTF-8"):
        PipelineFile(str(file))
