"""Whose checkpoint it is."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from goqueue.spark.sink.checkpoint import CONTENTS_LENGTH_MAX, batch_contents, query_id


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


# --- what a micro-batch holds ---------------------------------------------------------------------


def write_offsets(checkpoint: Path, *sources: str) -> str | None:
    (checkpoint / "offsets").mkdir(exist_ok=True)
    lines = ("v1", '{"batchWatermarkMs":0}', *sources)
    (checkpoint / "offsets" / "7").write_text("\n".join(lines))
    return batch_contents(str(checkpoint), 7)


def test_the_contents_are_where_each_source_ends(checkpoint: Path):
    found = write_offsets(checkpoint, '{"orders":{"0":42}}', "-", "17", "no JSON")
    assert found == '[{"orders":{"0":42}},null,17,"no JSON"]'


def test_long_contents_are_told_apart_by_a_digest(checkpoint: Path):
    first, second = (
        write_offsets(checkpoint, f'"{"x" * CONTENTS_LENGTH_MAX}{each}"') for each in "ab"
    )
    assert first is not None
    assert first.startswith("sha256:")
    assert first != second


def test_contents_that_cannot_be_read_are_unknown(checkpoint: Path):
    assert batch_contents(str(checkpoint), 7) is None
    assert write_offsets(checkpoint) is None
    assert batch_contents("nosuch://bucket/x", 7) is None
