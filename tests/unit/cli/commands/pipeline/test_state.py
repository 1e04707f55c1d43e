"""`goqueue pipeline state` and `compare`: what they refuse before Spark, and how they show rows."""

from pathlib import Path

from goqueue.cli.commands.pipeline.state import _flatten
from tests.unit.cli.invocation import run

PIPELINE = """
name: shop
sources: {lines: {topic: t}}
sinks: {out: {topic: o, from: lines}}
"""


def test_a_sink_that_is_not_there(tmp_path: Path):
    file = tmp_path / "shop.yaml"
    file.write_text(PIPELINE)
    told = run("pipeline", "state", file, "totals", code=2).stderr
    assert "there is no sink 'totals'" in told
    assert "out" in told


def test_a_file_with_a_mistake(tmp_path: Path):
    file, wrong = tmp_path / "shop.yaml", tmp_path / "wrong.yaml"
    file.write_text(PIPELINE)
    wrong.write_text(PIPELINE.replace("from: lines", "from: line"))
    told = run("pipeline", "compare", file, wrong, "lines", code=2).stderr
    assert "wrong.yaml:4: sinks.out.from: there is no source or step 'line'" in told


def test_fields_of_key_and_value_are_shown_beside_each_other():
    row = {"key": {"window": "10:00", "store": "a"}, "value": {"count": 3, "store": "b"}}
    assert _flatten(row) == {"window": "10:00", "store": "a", "count": 3, "value.store": "b"}
    assert _flatten({"key": "k", "value": 1}) == {"key": "k", "value": 1}
