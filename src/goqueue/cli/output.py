"""Results on standard output: tables for people, JSON and YAML for programs."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.cli.session import OutputFormat

if TYPE_CHECKING:
    from rich.table import Table

Rows = Sequence[Sequence[object]]


def show(chosen: OutputFormat, value: Any, headings: Sequence[str], rows: Rows) -> None:
    """Print `value` for programs, or `rows` under `headings` for people."""
    if chosen == "table":
        show_table(headings, rows)
    else:
        show_value(chosen, value)


def show_value(chosen: OutputFormat, value: Any) -> None:
    if chosen == "yaml":
        text = msgspec.yaml.encode(value).decode()
    else:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    sys.stdout.write(text)


def show_facts(chosen: OutputFormat, value: Any, facts: Sequence[tuple[str, object]]) -> None:
    """One thing: its facts line by line for people."""
    if chosen != "table":
        show_value(chosen, value)
        return
    width = max(len(name) for name, _ in facts)
    for name, fact in facts:
        sys.stdout.write(f"{name + ':':<{width + 1}} {_text(fact)}\n")


def show_table(headings: Sequence[str], rows: Rows) -> None:
    from rich.console import Console

    Console().print(table(headings, rows))


def table(headings: Sequence[str], rows: Rows) -> "Table":
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for index, heading in enumerate(headings):
        numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        made.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(_text(cell)) for cell in row))
    return made


def _text(fact: object) -> str:
    match fact:
        case None:
            return "-"
        case bool():
            return "yes" if fact else "no"
        case int():
            return f"{fact:,}".replace(",", " ") if abs(fact) >= 10_000 else str(fact)
        case _:
            return str(fact)
