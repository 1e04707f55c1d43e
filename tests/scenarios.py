"""Scenarios as text: commands, and below each block of them the output that is expected.

    # A line that begins with # is a comment.
    a init
    a send paid
    ----
    a is producer 0, epoch 0
    a sent paid to orders/0

With `GOQUEUE_REWRITE_SCENARIOS=1` the tests write the output into the files instead, so that a
change of behaviour can be read as a diff.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

Run = Callable[[str], Iterable[str]]  # a command, to the lines of its output
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def play(text: str, run: Run) -> str:
    """The same text with the output as it is."""
    parts = []
    for block in text.strip("\n").split("\n\n"):
        commands, _, _ = block.partition("\n----")
        lines = [line for line in commands.splitlines() if not line.startswith("#")]
        if not lines:
            parts.append(block)
            continue
        output = [line for command in lines for line in run(command)]
        parts.append("\n".join([commands, "----", *output]))
    return "\n\n".join(parts) + "\n"


def check(file: Path, run: Run) -> None:
    """The file has the output that the commands in it give."""
    expected = file.read_text()
    actual = play(expected, run)
    if os.environ.get("GOQUEUE_REWRITE_SCENARIOS"):
        file.write_text(actual)
    else:
        assert actual == expected


def milliseconds(span: str) -> int:
    """As in `advance 10s`."""
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", span)
    assert match is not None, span
    return int(match[1]) * UNITS[match[2]]
