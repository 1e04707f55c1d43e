"""A progress bar on standard error, when somebody is there to see it."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from goqueue.cli.cells import Size, text_of
from goqueue.cli.publishing import Tally


@contextlib.contextmanager
def progress(tally: Tally, bytes_in_all: int | None) -> Iterator[Callable[[], None]]:
    """Gives what to call when the tally has changed."""
    from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        *((BarColumn(), DownloadColumn()) if bytes_in_all else ()),
        TextColumn("{task.fields[messages]:,} messages"),
        TextColumn("{task.fields[rate]:,.0f}/s"),
    )
    with _bar(bytes_in_all, *columns, messages=0, rate=0.0) as update:

        def show() -> None:
            rate = tally.published / tally.seconds
            # A line's end is a byte of the file, too.
            done = tally.bytes + tally.published + tally.failed
            update(completed=done, messages=tally.published, rate=rate)

        yield show


@contextlib.contextmanager
def counting(total: int) -> Iterator[Callable[[int], None]]:
    """Gives what to call with how many of `total` are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    with _bar(total, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as update:
        yield lambda done: update(completed=done)


@contextlib.contextmanager
def reading(bytes_in_all: int) -> Iterator[Callable[[int], None]]:
    """Gives what to call with how many more bytes are done."""
    from rich.progress import BarColumn, DownloadColumn, TransferSpeedColumn

    with _bar(bytes_in_all, BarColumn(), DownloadColumn(), TransferSpeedColumn()) as update:
        yield lambda more: update(advance=more)


@contextlib.contextmanager
def copying() -> Iterator[Callable[[int, int, float, int], None]]:
    """Gives what to call with bytes that are done and in all, bytes a second, and moves left."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn

    columns = (
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[rate]}/s"),
        TextColumn("{task.fields[moves]} moving"),
    )
    with _bar(None, *columns, rate="0 B", moves=0) as update:

        def show(done: int, total: int, rate: float, moves: int) -> None:
            text = text_of(Size(int(rate)), at_terminal=True)
            update(completed=done, total=max(1, total), rate=text, moves=moves)

        yield show


@contextlib.contextmanager
def _bar(total: int | None, *columns: Any, **fields: Any) -> Iterator[Callable[..., None]]:
    """Gives what to call with changes of the bar; nothing is shown where nobody looks."""
    if not sys.stderr.isatty():
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, **fields)
        yield lambda **changes: bar.update(task, **changes)
