"""The run's figures: tables for people, JSON for everything else."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.session import Section


def show(console: Console, section: Section) -> None:
    table = Table(title=section.title, title_justify="left", title_style="bold")
    for column in section.columns:
        numbers = [row[section.columns.index(column)] for row in section.rows]
        is_number = any(cell[:1].isdigit() for cell in numbers)
        table.add_column(column, justify="right" if is_number else "left")
    for row in section.rows:
        table.add_row(*row)
    console.print(table)
    for note in section.notes:
        console.print(f"  {note}", style="dim", highlight=False)


def show_machine(console: Console, machine: dict[str, Any]) -> None:
    for name, value in machine.items():
        console.print(f"[dim]{name:>14}[/]  {_text(value)}", highlight=False)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return str(value)


def write(path: Path, machine: dict[str, Any], argv: list[str], sections: list[Section]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": machine,
        "command": argv,
        "parts": {section.name: section.figures for section in sections},
        "tables": {
            section.name: {
                "title": section.title,
                "columns": section.columns,
                "rows": section.rows,
                "notes": section.notes,
            }
            for section in sections
        },
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def markdown(section: Section) -> str:
    """The table as `docs/benchmarks.md` holds it."""
    lines = [f"| {' | '.join(section.columns)} |", f"|{'---|' * len(section.columns)}"]
    lines += [f"| {' | '.join(row)} |" for row in section.rows]
    return "\n".join(lines)
