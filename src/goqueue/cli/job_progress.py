"""Progress of Spark jobs: a table that is redrawn at a terminal, lines for programs."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cli.moments import as_text
from goqueue.cli.output import OutputFormat, line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from goqueue.spark.runtime.job_runner import Tell
    from goqueue.spark.runtime.progress import Progress

LINES_SECONDS: Final = 1.0  # between two lines about the same job, unless its state changes
BAR_WIDTH: Final = 12
# With the width that numbers need; names give way.
HEADINGS: Final = {
    "JOB": None,
    "STATE": 8,
    "DONE": BAR_WIDTH,
    "ROWS": 9,
    "ROWS/S": 7,
    "LAG": 7,
    "BATCH": 5,
    "TOOK": 8,
}
COLOURS: Final = {
    "starting": "dim",
    "running": "cyan",
    "waiting": "green",
    "parked": "green",
    "finished": "bold green",
    "stopped": "yellow",
    "failed": "bold red",
}


@contextlib.contextmanager
def telling(chosen: OutputFormat) -> "Iterator[Tell]":
    """Gives what to call with the jobs as they stand now."""
    if chosen != "table":
        yield Lines(time.monotonic).tell
    elif sys.stderr.isatty():
        with drawing() as tell:
            yield tell
    else:
        yield lambda _: None


# --- for programs ---------------------------------------------------------------------------------


class Lines:
    """A line of JSON, or a YAML document, for each report on standard output."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[str, tuple[Progress, float]] = {}

    def tell(self, standings: "Sequence[Progress]") -> None:
        now = self._clock()
        for each in standings:
            if self._is_news(each, now):
                self._told[each.name] = each, now
                sys.stdout.write(line({"time": _time(), **msgspec.to_builtins(each)}))
        sys.stdout.flush()

    def _is_news(self, progress: "Progress", now: float) -> bool:
        if progress.name not in self._told:
            return True
        before, then = self._told[progress.name]
        if progress == before:
            return False
        return progress.ended or now - then >= LINES_SECONDS


def _time() -> str:
    return as_text(time.time_ns() // 1_000_000)


# --- for people -----------------------------------------------------------------------------------


@contextlib.contextmanager
def drawing() -> "Iterator[Tell]":
    """Draws in place on standard error; what is printed meanwhile goes above it."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(console=console, auto_refresh=False, redirect_stdout=sys.stdout.isatty()) as live:
        yield lambda standings: live.update(picture(standings), refresh=True)


def picture(standings: "Sequence[Progress]") -> "RenderableType":
    """The jobs as a table, and what they found wrong."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading, width in HEADINGS.items():
        numbers = heading not in ("JOB", "STATE", "DONE")
        made.add_column(
            heading, justify="right" if numbers else "left", min_width=width, no_wrap=True
        )
    for each in standings:
        made.add_row(
            Text(each.name),
            Text(each.state, style=COLOURS[each.state]),
            _bar(each),
            f"{each.rows:,}",
            f"{each.rows_per_second:,.0f}",
            "-" if each.lag is None else f"{each.lag:,}",
            "-" if each.batch is None else str(each.batch),
            "-" if each.batch_ms is None else f"{each.batch_ms:,} ms",
        )
    return Group(made, *(Text(each, style="yellow") for each in _unmet(standings)))


def _unmet(standings: "Sequence[Progress]") -> list[str]:
    """Two sinks that read one view count the same rows, each for itself."""
    counts: dict[str, int] = {}
    for each in standings:
        for name, count in each.unmet.items():
            counts[name] = max(counts.get(name, 0), count)
    return [f"{name}: {count:,} rows not as expected" for name, count in counts.items() if count]


def _bar(progress: "Progress") -> "RenderableType":
    """Of what there is to read, or of the tasks."""
    from rich.progress_bar import ProgressBar

    if progress.tasks:
        return ProgressBar(progress.tasks, progress.tasks_done or 0, width=BAR_WIDTH)
    if progress.lag is None:
        return ProgressBar(None, 0, width=BAR_WIDTH, pulse=not progress.ended)
    if not progress.lag:
        return ProgressBar(1, 1, width=BAR_WIDTH)
    return ProgressBar(progress.rows + progress.lag, progress.rows, width=BAR_WIDTH)
