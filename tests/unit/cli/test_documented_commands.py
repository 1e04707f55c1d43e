"""Commands that the docs name in passing: they exist, and so do their options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from goqueue.cli.main import app

ROOT = Path(__file__).parents[3]
WRITTEN_FROM_THE_COMMANDS = "cli.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"`(goqueue [a-z][^`]*)`")
PLACEHOLDERS = re.compile(r"…|\.\.\.|\[|\{|\*")


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        if page.name == WRITTEN_FROM_THE_COMMANDS:
            continue
        for text in COMMAND.findall(page.read_text()):
            if not PLACEHOLDERS.search(text):
                yield page.name, text


@pytest.mark.parametrize(("page", "text"), sorted(set(commands())))
def test_a_command_named_in_the_docs_is_understood(page: str, text: str):
    words = shlex.split(text, comments=True)[1:]
    command = get_command(app)
    context = command.make_context("goqueue", list(words), resilient_parsing=True)
    while isinstance(command, TyperGroup) and words:
        _, found, words = command.resolve_command(context, words)
        assert found is not None, f"{text}: there is no such command"
        command = found
    if words:
        command.make_context(text, list(words), parent=context)
