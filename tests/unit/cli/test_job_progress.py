"""Progress of Spark jobs, as lines and as a table."""

import io

import msgspec
import pytest
from rich.console import Console

from goqueue.cli import output
from goqueue.cli.job_progress import Lines, picture
from goqueue.spark.runtime.progress import Progress

RUNNING = Progress("totals", "running", rows=1000, rows_per_second=2500.4, lag=250, batch=3)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lines_are_json_once_a_second_and_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output.Chosen, "format", "json")
    clock = Clock()
    lines = Lines(clock)
    lines.tell([RUNNING])
    clock.now = 0.5
    lines.tell([msgspec.structs.replace(RUNNING, rows=1001)])  # too soon
    clock.now = 1.0
    lines.tell([msgspec.structs.replace(RUNNING, rows=1002)])
    clock.now = 5.0
    lines.tell([msgspec.structs.replace(RUNNING, rows=1002)])  # nothing new
    lines.tell([msgspec.structs.replace(RUNNING, rows=1003, state="finished")])
    told = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["rows"], each["state"]) for each in told] == [
        (1000, "running"),
        (1002, "running"),
        (1003, "finished"),
    ]
    assert all(each["time"].endswith("Z") and each["lag"] == 250 for each in told)


def test_yaml_is_a_document_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output.Chosen, "format", "yaml")
    Lines(Clock()).tell([RUNNING])
    shown = capsys.readouterr().out
    assert shown.startswith("---\n")
    assert msgspec.yaml.decode(shown)["rows"] == 1000


def test_the_table_has_rates_and_lag():
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(
        picture([RUNNING, Progress("new", "starting"), Progress("j", "running", tasks=4)])
    )
    head, totals, new, _ = console.export_text().splitlines()
    assert head.split() == ["JOB", "STATE", "DONE", "ROWS", "ROWS/S", "LAG", "BATCH", "TOOK"]
    assert [each for each in totals.split() if "━" not in each] == (
        ["totals", "running", "1,000", "2,500", "250", "3", "-"]
    )
    assert "starting" in new


def test_below_the_table_stands_what_was_not_as_expected():
    console = Console(width=120, record=True, file=io.StringIO())
    unmet = [{"paid.positive": 3, "paid.known": 0}, {"paid.positive": 1200}]
    console.print(picture([Progress("job", "running", unmet=each) for each in unmet]))
    assert console.export_text().splitlines()[3:] == ["paid.positive: 1,200 rows not as expected"]
