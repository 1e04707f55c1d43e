"""Asks before something is lost."""

import sys
from typing import Annotated

import typer

from goqueue.cli.failures import UsageFailure
from goqueue.model.options import option

Force = Annotated[bool, option("Do not ask for confirmation.", "--force", "-f", "--yes", "-y")]


def confirm(question: str, doing: str, *, force: bool) -> None:
    """Ends the command unless the user agrees; `doing` as in "pass --force to delete"."""
    if force:
        return
    refuse_without_terminal(doing)
    typer.confirm(question, abort=True, err=True)


def refuse_without_terminal(doing: str) -> None:
    if not sys.stdin.isatty():
        raise UsageFailure(f"not a terminal: pass --force to {doing} without confirmation")
