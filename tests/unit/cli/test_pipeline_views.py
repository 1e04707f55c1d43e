"""What people and programs see of pipelines."""

import datetime

import msgspec
import pytest

from goqueue.cli import pipeline_views
from goqueue.cli.pipeline_views import show_description, show_rows
from goqueue.spark.pipelines.describing import Description, Target, View


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_views, "for_people", lambda: True)


def test_programs_get_a_line_of_json_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pipeline_views, "for_people", lambda: False)
    at = datetime.date(2026, 1, 31)
    show_rows("console", 3, [{"id": 1, "on": at}, {"id": 2, "on": None}])
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {"sink": "console", "batch": 3, "row": {"id": 1, "on": "2026-01-31"}},
        {"sink": "console", "batch": 3, "row": {"id": 2, "on": None}},
    ]


@pytest.mark.usefixtures("people")
def test_people_get_a_table_a_batch(capsys: pytest.CaptureFixture[str]):
    show_rows("console", 3, [{"id": 1, "store": "Bern"}])
    show_rows("console", 4, [])
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        ["console,", "batch", "3"],
        ["id", "store"],
        ["1", "Bern"],
        ["console,", "batch", "4"],
    ]


def target(batches_done: int | None) -> Target:
    return Target(
        name="copy",
        what="topic copies",
        reads="orders",
        mode="append",
        columns={"id": "bigint", "store": "string"},
        trigger="1 minute",
        checkpoint="/checkpoints/copy",
        batches_done=batches_done,
        plan="== Physical Plan ==",
    )


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("batches_done", "told"), [(None, "starts over"), (7, "goes on after 7 batches")]
)
def test_a_plan_says_where_each_sink_goes_on(
    batches_done: int | None, told: str, capsys: pytest.CaptureFixture[str]
):
    found = Description(
        name="copy",
        bootstrap="broker:9092",
        sources=[View(name="orders", what="topic orders", columns={"id": "bigint"})],
        steps=[],
        sinks=[target(batches_done)],
    )
    show_description(found, explain=False)
    plain = capsys.readouterr().out
    assert told in plain
    assert "    id     bigint\n    store  string\n" in plain
    assert "Physical Plan" not in plain
    show_description(found, explain=True)
    assert "Physical Plan" in capsys.readouterr().out
