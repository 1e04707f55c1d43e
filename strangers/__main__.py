"""Run other projects' test-suites against the installed GoQueue, and print a table.

    python -m strangers                            all suites
    python -m strangers librdkafka 0011 0077       some tests of one

The exit code is 1 if a test failed that is not expected to.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.brokers import GoQueue, installed_goqueue
from bench.process import Failed
from strangers.franz_go import FranzGo
from strangers.kafka_python import KafkaPython
from strangers.librdkafka import Librdkafka
from strangers.suite import Outcome, Result, Suite, Unavailable, cache_directory

SUITES: Sequence[type[Suite]] = (KafkaPython, Librdkafka, FranzGo)
COLOURS = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.TIMED_OUT: "red",
    Outcome.SKIPPED: "dim",
    Outcome.KNOWN: "yellow",
}


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception: brokers are ended
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    report = Path(options.report or tempfile.mkdtemp(prefix="goqueue-strangers-")).resolve()
    chosen = [each for each in SUITES if options.suite in (None, each.name)]
    results = {suite.name: _run(suite, options.tests, report, console) for suite in chosen}
    _summarize(results, console)
    console.print(f"output of the suites: {report}")
    return 1 if any(_is_bad(result) for each in results.values() for result in each or []) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("strangers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", nargs="?", choices=[suite.name for suite in SUITES])
    parser.add_argument("tests", nargs="*", help="tests of that suite, by its own names")
    parser.add_argument("--report", metavar="DIR", help="where the suites' output goes")
    return parser.parse_args()


def _run(
    kind: type[Suite], tests: Sequence[str], report: Path, console: Console
) -> list[Result] | None:
    """What its tests came to; None if the suite cannot be run here."""
    suite = kind(cache_directory())
    folder = report / suite.name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with console.status(f"{suite.name} {suite.version}: fetching and building"):
            suite.prepare()
        broker = GoQueue(folder / "broker", installed_goqueue(), suite.server_arguments)
        broker.start()
    except (Unavailable, Failed) as problem:
        console.print(f"[yellow]{suite.name} is left out:[/] {problem}")
        return None
    try:
        with console.status(f"{suite.name} {suite.version}: running"):
            found = suite.run(broker.kafka, tests, folder)
    finally:
        broker.stop()
        shutil.rmtree(folder / "broker" / "data", ignore_errors=True)
    results = [suite.judge(result) for result in found]
    _show(suite, results, console)
    return results


def _show(suite: Suite, results: list[Result], console: Console) -> None:
    table = Table(title=f"{suite.name} {suite.version}", title_justify="left")
    for column in ("test", "outcome", "seconds", "note"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    for result in results:
        if result.outcome is not Outcome.PASSED or os.environ.get("VERBOSE"):
            outcome = f"[{COLOURS[result.outcome]}]{result.outcome.value}[/]"
            table.add_row(result.test, outcome, f"{result.seconds:.1f}", result.note)
    if table.row_count:
        console.print(table)


def _summarize(results: dict[str, list[Result] | None], console: Console) -> None:
    table = Table(title="all suites", title_justify="left")
    table.add_column("suite")
    for outcome in Outcome:
        table.add_column(outcome.value, justify="right", style=COLOURS[outcome])
    for name, found in results.items():
        counts = Counter(result.outcome for result in found or [])
        cells = [str(counts[outcome]) if found is not None else "–" for outcome in Outcome]
        table.add_row(name, *cells)
    console.print(table)


def _is_bad(result: Result) -> bool:
    return result.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)


if __name__ == "__main__":
    sys.exit(main())
