"""`goqueue pipeline dlq`: the columns to group by, and how they are shown."""

import pytest

from goqueue.cli import output
from goqueue.cli.commands.pipeline.dlq import _columns, show_triage
from goqueue.cli.failures import UsageFailure


def test_columns_are_named_once_and_in_order():
    assert _columns("error, reason,error,") == ("error", "reason")


@pytest.mark.parametrize("by", ["", ",", "reason,colour"])
def test_what_is_no_column_is_refused(by: str):
    with pytest.raises(UsageFailure):
        _columns(by)


def test_eighty_columns_show_whole_words_and_short_times(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    row = {
        **{"reason": "rejected", "group": "billing", "consumer": "billing-worker-3"},
        **{"error": "no such customer: 4711 in any region", "letters": 12, "attempts_max": 3},
        **{"first": "2026-01-31T12:00:00.000Z", "last": "2026-01-31T12:30:00.000Z"},
        "newest": "0/4711",
    }
    show_triage(("reason", "group", "consumer", "error"), [row])
    said = capsys.readouterr()
    heading, line = said.out.splitlines()
    assert len(line) <= 80
    for word in ("REASON", "GROUP", "ERROR", "LETTERS"):
        assert word in heading.split()
    assert "rejected" in line.split()
    assert "000" not in line
    assert "12 in all" in said.err
