"""What a folder of pipeline files declares."""

import os
from pathlib import Path

import pytest

from goqueue.spark.service.files import FILE_BYTES_MAX, Folder

SOUND = "name: {name}\nsources: {{lines: {{topic: t}}}}\nsinks: {{o: {{topic: o, from: lines}}}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "a.yaml").write_text(SOUND.format(name="orders"))
    (tmp_path / "b.yml").write_text("name: [")
    (tmp_path / "notes.txt").write_text("no pipeline")
    return Folder(tmp_path, {})


def test_files_are_pipelines_or_problems(folder: Folder):
    good, bad = folder.look()
    assert (good.name, good.problem) == ("orders", None)
    assert good.pipeline is not None
    assert bad.name == "b.yml"
    assert bad.problem is not None
    assert bad.problem.startswith("b.yml:")


def test_a_changed_file_has_another_version_and_keeps_its_name_while_it_is_broken(folder: Folder):
    before = folder.look()[0]
    assert folder.look()[0] is before
    file = folder.path / "a.yaml"
    file.write_text("name: orders\nsources: {}")
    os.utime(file, ns=(1, 1))
    changed = folder.look()[0]
    assert changed.name == "orders"
    assert changed.version != before.version
    assert "sinks: at least one is needed" in (changed.problem or "")


def test_two_files_with_one_name_do_not_run_both(folder: Folder):
    (folder.path / "c.yaml").write_text(SOUND.format(name="orders"))
    names = {each.name: each.problem for each in folder.look()}
    assert names["orders"] is None
    assert names["c.yaml"] == "a.yaml is a pipeline of this name, too"


def test_what_cannot_be_read_is_a_problem(folder: Folder):
    (folder.path / "c.yaml").write_bytes(b"\xff\xfe")
    (folder.path / "d.yaml").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    problems = {each.name: each.problem for each in folder.look()}
    assert problems["c.yaml"] == "not a text in UTF-8"
    assert problems["d.yaml"] == "larger than 1 MiB"


def test_a_folder_that_is_away_changes_nothing(folder: Folder):
    before = folder.look()
    folder.path.rename(folder.path.with_name("away"))
    assert folder.look() == before
