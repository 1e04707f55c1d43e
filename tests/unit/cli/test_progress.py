"""Progress bars: only where somebody looks, and what they count."""

import io
from types import SimpleNamespace

import pytest

from goqueue.cli import progress
from goqueue.cli.publishing import Tally


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What a bar at a terminal is told."""
    told: list[dict[str, object]] = []
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=Terminal()))
    monkeypatch.setattr(
        "rich.progress.Progress.update", lambda _bar, _task, **fields: told.append(fields)
    )
    return told


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]):
    with (
        progress.progress(Tally(keep_results=False), 10) as show,
        progress.counting(10) as count,
        progress.reading(10) as read,
    ):
        show()
        count(5)
        read(5)
    assert capsys.readouterr() == ("", "")


def test_the_end_of_each_line_counts_as_a_byte_of_the_file(changes: list[dict[str, object]]):
    tally = Tally(keep_results=False)
    tally.published, tally.failed, tally.bytes = 3, 1, 40
    with progress.progress(tally, 100) as show:
        show()
    assert changes[0]["completed"] == 44
    assert changes[0]["messages"] == 3


def test_one_bar_is_told_how_many_and_the_other_how_many_more(changes: list[dict[str, object]]):
    with progress.counting(10) as count, progress.reading(10) as read:
        count(5)
        read(7)
    assert changes == [{"completed": 5}, {"advance": 7}]
