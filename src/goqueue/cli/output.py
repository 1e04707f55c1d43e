"""Results on standard output: tables for people, JSON and YAML for programs.

A table fits the terminal: columns are left out, the least important first, then texts are cut
with `…`.  `--wide` shows all.  What is not a terminal gets all of it, with plain numbers and times.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import typer

if TYPE_CHECKING:
    from rich.table import Table

Rows = Sequence[Sequence[object]]
# An attribute, an attribute as a kind of cell, or what to make of the item.
Column = str | tuple[Callable[[Any], object], str] | Callable[[Any], object]
GAP: Final = 2  # blanks between columns
TEXT_WIDTH_MIN: Final = 12  # a column is left out before its texts get shorter than that


OutputFormat = Literal["table", "json", "yaml"]


class Chosen:
    """How this invocation shows things.  Threads of Spark ask, too: no context variables."""

    format: OutputFormat = "json"
    is_wide = False
    """Whether tables may be wider than the terminal."""


def choose(format: OutputFormat, *, is_wide: bool = False) -> None:
    Chosen.format, Chosen.is_wide = format, is_wide


def for_people() -> bool:
    return Chosen.format == "table"


def show(
    value: Any,
    headings: Sequence[str],
    rows: Rows,
    *,
    drop: Sequence[str] = (),
    whole: Sequence[str] = (),
    empty: str = "",
) -> None:
    """Print `value` for programs, or `rows` under `headings` for people."""
    if for_people():
        show_table(headings, rows, drop=drop, whole=whole, empty=empty)
    else:
        show_value(value)


def rows_of(items: Iterable[Any], *columns: Column) -> Rows:
    """A row an item."""
    return [[_cell(each, column) for column in columns] for each in items]


def _cell(item: Any, column: Column) -> object:
    match column:
        case str():
            return getattr(item, column)
        case (kind, name):
            return kind(getattr(item, name))
        case _:
            return column(item)


def show_text(value: Any, text: str) -> None:
    """Print `value` for programs, or `text` for people."""
    if for_people():
        typer.echo(text)
    else:
        show_value(value)


def show_value(value: Any, format: OutputFormat | None = None) -> None:
    if (format or Chosen.format) == "yaml":
        text = msgspec.yaml.encode(value).decode()
    else:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    sys.stdout.write(text)


def line(value: Any) -> str:
    """One of many values: a line of JSON, or a document of YAML."""
    if Chosen.format == "yaml":
        return "---\n" + msgspec.yaml.encode(value).decode()
    return msgspec.json.encode(value, enc_hook=str).decode() + "\n"


def show_facts(value: Any, facts: Sequence[tuple[str, object]]) -> None:
    """One thing: its facts line by line for people."""
    from goqueue.cli.cells import text_of

    if not for_people():
        show_value(value)
        return
    width = max(len(name) for name, _ in facts)
    for name, fact in facts:
        text = text_of(fact, at_terminal=is_terminal())
        sys.stdout.write(f"{name + ':':<{width + 1}} {text}\n")


def show_table(
    headings: Sequence[str],
    rows: Rows,
    *,
    drop: Sequence[str] = (),
    whole: Sequence[str] = (),
    empty: str = "",
) -> None:
    """`drop` names columns to leave out, the least important first; `whole` those whose texts are
    never cut, since they are for copying; `empty` is said when there are no rows.
    """
    from rich.console import Console

    if not rows and empty:
        typer.secho(empty, err=True, dim=True)
        return
    made = table(headings, rows, drop=drop, whole=whole)
    Console(width=max(1, _width_of(made))).print(made)
    left_out = [each for each in headings if each not in {column.header for column in made.columns}]
    if left_out:
        names = ", ".join(each.lower() for each in left_out)
        typer.secho(f"not shown: {names} (--wide shows all)", err=True, dim=True)


def table(
    headings: Sequence[str], rows: Rows, *, drop: Sequence[str] = (), whole: Sequence[str] = ()
) -> "Table":
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    from goqueue.cli.cells import is_number, is_short, style_of, text_of

    at_terminal = is_terminal()
    texts = [[text_of(cell, at_terminal=at_terminal) for cell in row] for row in rows]
    widths = [
        max(cell_len(text) for text in (heading, *(row[index] for row in texts)))
        for index, heading in enumerate(headings)
    ]
    numbers = [
        bool(rows) and all(is_number(row[index]) or row[index] is None for row in rows)
        for index in range(len(headings))
    ]
    least = [
        width if heading in whole else min(width, max(len(heading), TEXT_WIDTH_MIN))
        for heading, width in zip(headings, widths, strict=True)
    ]
    for index, width in enumerate(widths):
        if all(is_short(row[index]) for row in rows):
            least[index] = width
    order = [headings.index(each) for each in drop]
    chosen = fit_widths(widths, least, order, terminal_width())
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for index, width in chosen.items():
        made.add_column(
            headings[index],
            justify="right" if numbers[index] else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row, words in zip(rows, texts, strict=True):
        made.add_row(*(Text(words[index], style=style_of(row[index])) for index in chosen))
    return made


def is_terminal() -> bool:
    return sys.stdout.isatty()


def terminal_width() -> int | None:
    """Columns to fit a table into; None for all that it needs."""
    if Chosen.is_wide or not is_terminal():
        return None
    from rich.console import Console

    return Console().width


def fit_widths(
    widths: Sequence[int], least: Sequence[int], drop: Sequence[int], room: int | None
) -> dict[int, int]:
    """The width of each column that is shown; `drop` are those to leave out, in this order."""
    kept = list(range(len(widths)))
    if room is None:
        return {index: widths[index] for index in kept}
    for index in drop:
        if sum(least[each] for each in kept) + GAP * (len(kept) - 1) <= room:
            break
        kept.remove(index)
    chosen = {index: widths[index] for index in kept}
    while sum(chosen.values()) + GAP * (len(kept) - 1) > room:
        widest = max(chosen, key=lambda index: (chosen[index] - least[index], chosen[index]))
        if chosen[widest] <= 1:
            break
        chosen[widest] -= 1
    return chosen


def _width_of(made: "Table") -> int:
    return sum((column.width or 0) + GAP for column in made.columns)
