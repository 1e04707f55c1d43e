"""Passwords and keys that a person types, or a script hands over: never as an argument, which
other users of the machine could read in the list of processes."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from goqueue.cli.failures import UsageFailure
from goqueue.model.options import option

STANDARD_INPUT: Final = "-"

PasswordFile = Annotated[
    str | None,
    option(
        "File with the password on its first line; - is standard input. Else it is asked for.",
        metavar="FILE",
    ),
]


def read_secret(question: str, file: str | None, *, is_new: bool = False) -> str:
    """From the file, or typed without echo; a new one is typed twice."""
    if file is not None:
        secret = _first_line(file)
        if not secret:
            raise UsageFailure(f"{_name(file)} is empty: the {question.lower()} is its first line")
        return secret
    if not sys.stdin.isatty():
        raise UsageFailure(
            f"not a terminal to ask for the {question.lower()} at: use --password-file FILE, or -"
            " for standard input"
        )
    typed: str = typer.prompt(question, hide_input=True, confirmation_prompt=is_new, err=True)
    return typed


def _first_line(file: str) -> str:
    try:
        if file == STANDARD_INPUT:
            return sys.stdin.readline().rstrip("\r\n")
        with Path(file).open(encoding="utf-8") as stream:
            return stream.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageFailure(f"{_name(file)} cannot be read: {error}") from error


def _name(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file
