"""Passwords come from a person or a file, never from the command line."""

import io
from pathlib import Path

import pytest
import typer

from goqueue.cli.failures import UsageFailure
from goqueue.cli.secrets import read_secret


def test_the_first_line_of_a_file_or_of_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "password"
    file.write_text(" s3cret \nmore\n")
    assert read_secret("Password", str(file)) == " s3cret "
    monkeypatch.setattr("sys.stdin", io.StringIO("typed\r\n"))
    assert read_secret("Password", "-") == "typed"


def test_without_a_terminal_and_a_file_there_is_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(UsageFailure, match="--password-file"):
        read_secret("Password", None)
    with pytest.raises(UsageFailure, match="standard input is empty"):
        read_secret("Password", "-")
    with pytest.raises(UsageFailure, match="cannot be read"):
        read_secret("Password", str(tmp_path / "none"))


def test_at_a_terminal_it_is_asked_for_without_echo(monkeypatch: pytest.MonkeyPatch):
    asked: list[dict[str, object]] = []

    def prompt(text: str, **options: object) -> str:
        asked.append({"text": text, **options})
        return "typed"

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert read_secret("Password", None, is_new=True) == "typed"
    assert asked == [
        {"text": "Password", "hide_input": True, "confirmation_prompt": True, "err": True}
    ]
