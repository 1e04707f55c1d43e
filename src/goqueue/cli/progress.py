"""A progress bar on standard error, when somebody is there to see it."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from goqueue.cli.publishing import Tally


@contextlib.contextmanager
def progress(tally: Tally, bytes_in_all: int | None) -> Iterator[Callable[[], None]]:
    """Gives what to call when the tally has changed."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        *((BarColumn(), DownloadColumn()) if bytes_in_all else ()),
        TextColumn("{task.fields[messages]:,} messages"),
        TextColumn("{task.fields[rate]:,.0f}/s"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=bytes_in_all, messages=0, rate=0.0)

        def show() -> None:
            rate = tally.published / tally.seconds
            # A line's end is a byte of the file, too.
            done = tally.bytes + tally.published + tally.failed
            bar.update(task, completed=done, messages=tally.published, rate=rate)

        yield show


@contextlib.contextmanager
def counting(total: int) -> Iterator[Callable[[int], None]]:
    """Gives what to call with how many of `total` are done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


@contextlib.contextmanager
def reading(bytes_in_all: int) -> Iterator[Callable[[int], None]]:
    """Gives what to call with how many more bytes are done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=bytes_in_all)
        yield lambda more: bar.advance(task, more)
