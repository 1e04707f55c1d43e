"""Whose checkpoint it is."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from goqueue.spark.sink.checkpoint import query_id


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    directory = tmp_path / "with space"
    directory.mkdir()
    (directory / "metadata").write_text('{"id":"c0ffee"}')
    return directory


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_the_id_is_found_however_the_place_is_written(checkpoint: Path, form: str):
    location = str(checkpoint) if form == "{}" else str(checkpoint).replace(" ", "%20")
    assert query_id(form.format(location)) == "c0ffee"


@pytest.mark.parametrize("content", ["", "v1\n{}", '{"id": 7}', "\x00"])
def test_what_is_no_checkpoint_has_no_id(checkpoint: Path, content: str):
    (checkpoint / "metadata").write_text(content)
    assert query_id(str(checkpoint)) is None


@pytest.mark.parametrize("location", ["nowhere", "nosuch://bucket/x", "file:", ""])
def test_a_place_that_cannot_be_read_has_no_id(tmp_path: Path, location: str, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert query_id(location) is None
