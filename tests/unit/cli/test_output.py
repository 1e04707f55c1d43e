"""Tables fit the terminal, and facts read as people say them."""

import pytest

from goqueue.cli import output
from goqueue.cli.cells import Moment, Size, Span, State
from goqueue.cli.output import fit_widths, show_table

HEADINGS = ("TOPIC", "MESSAGES", "SIZE", "STATE", "NOTE")
ROW = ("orders-of-all-shops-in-the-world", 31_197, Size(1_200_000_000), State("Stable"), "n" * 90)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty columns."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.usefixtures("terminal")
def test_a_row_is_a_line_that_fits(capsys: pytest.CaptureFixture[str]):
    show_table(HEADINGS, [ROW, ROW], drop=("NOTE", "STATE"))
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["TOPIC", "MESSAGES", "SIZE", "STATE", "NOTE"]
    assert len(lines) == 2
    assert all(len(line) <= 80 for line in lines)
    assert "31,197" in lines[0]
    assert "1.2 GB" in lines[0]
    assert lines[0].rstrip().endswith("…")


@pytest.mark.usefixtures("terminal")
def test_columns_are_left_out_by_importance_and_named(capsys: pytest.CaptureFixture[str]):
    headings = [f"COLUMN {letter}" for letter in "ABCDEFGH"]
    show_table(headings, [["some words"] * 8], drop=("COLUMN B", "COLUMN H", "COLUMN C"))
    said = capsys.readouterr()
    assert "COLUMN B" not in said.out
    assert "COLUMN H" not in said.out
    assert "COLUMN C" in said.out
    assert "not shown: column b, column h (--wide" in said.err


@pytest.mark.usefixtures("terminal")
def test_wide_shows_all(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output.Chosen, "is_wide", True)
    show_table(HEADINGS, [ROW], drop=HEADINGS[1:])
    assert "n" * 90 in capsys.readouterr().out


def test_what_is_no_terminal_gets_plain_facts(capsys: pytest.CaptureFixture[str]):
    at = "2026-01-31T12:00:00.000Z"
    show_table(("A", "B", "C", "D"), [(31_197, Size(1_200_000), Span(60_000), Moment(at))])
    assert capsys.readouterr().out.splitlines()[1].split() == ["31197", "1200000", "60000", at]


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]):
    show_table(("A",), [], empty="nothing in flight")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "nothing in flight\n")


def test_widths_are_as_wide_as_there_is_room():
    assert fit_widths([5, 50], [5, 10], [], None) == {0: 5, 1: 50}
    assert fit_widths([5, 50], [5, 10], [], 30) == {0: 5, 1: 30 - 5 - output.GAP}
    assert fit_widths([5, 50], [5, 10], [1], 12) == {0: 5}
    assert fit_widths([50, 50], [50, 50], [], 22) == {0: 10, 1: 10}
