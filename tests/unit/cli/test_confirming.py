"""Who is asked before something is lost, and who is not."""

import sys

import pytest
import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.failures import UsageFailure


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that a user at a terminal is asked."""
    questions: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda question, **_: questions.append(question))
    return questions


def test_a_user_at_a_terminal_is_asked(asked: list[str]):
    confirm("Delete orders?", "delete", force=False)
    assert asked == ["Delete orders?"]


def test_with_force_nobody_is_asked(asked: list[str]):
    confirm("Delete orders?", "delete", force=True)
    assert asked == []


def test_a_script_is_refused_and_told_how(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(UsageFailure, match="pass --force to delete"):
        confirm("Delete orders?", "delete", force=False)
