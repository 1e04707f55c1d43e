"""`make demo`: orders through a declared pipeline, killed on the way, and counted at the end.

    a broker            in a process of its own, on free ports
    a publisher         writes orders to a topic, at a pace
    a pipeline          declared in orders.yaml: totals by window, large ones, an archive; killed
                        with SIGKILL in the middle and run again
    a replay            the archive into another topic
    a query, a report   over what came out
    the counts          of everything, to the message

With `--lake s3` the archive is an Iceberg table in an object store, under a REST catalog.

The exit code says whether they are right.  The lake, the topics and the report stay in a folder,
for whoever wants to look at them; the next run puts its own in their place.
"""

import argparse
import contextlib
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.checking import Check, check_all, count_delta_rows
from demo.object_lake import CATALOG, NAMESPACE, PLACE, ObjectLake, count_rows
from demo.orders import STORES, expected
from demo.processes import Broker, Failed, Job
from demo.publishing import Publisher
from goqueue import Client
from goqueue.cli.job_progress import picture
from goqueue.client.errors import NotFound
from goqueue.spark.runtime.progress import Progress

MADE: Final = ("broker", "catalog", "checkpoints", "lake", "pipeline", "report", "state")
PIPELINE: Final = Path(__file__).with_name("orders.yaml")
LAKES: Final = ("folder", "s3")
IN_A_FOLDER: Final = """\
    archive: ${DEMO_FOLDER:-../data}/lake
    format: delta
"""
IN_A_STORE: Final = f"""\
    archive: {PLACE}
    format: iceberg
    catalog: {CATALOG}
"""
REPLAYED: Final = "orders.replayed"
GROUPS: Final = tuple(
    f"spark-orders.{each}" for each in ("totals", "large", "archive", "orders.bad")
)
SHOW_TABLE: Final = (
    "from deltalake import DeltaTable; print(DeltaTable('{}').to_pyarrow_dataset().head(5))"
)
SHOW_ICEBERG: Final = (
    "from pyiceberg.catalog import load_catalog;"
    f" print(load_catalog('{CATALOG}', **{{'s3.endpoint': '$AWS_ENDPOINT_URL'}})"
    f".load_table('{NAMESPACE}.orders').scan(limit=5).to_arrow())"
)
QUERY: Final = (
    "select region, count(distinct minute) as minutes, max(orders) as busiest"
    " from `orders.per-minute` group by region order by region"
)


def main() -> int:
    options = _options()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    _clean(folder)
    try:
        return Demo(options, console, folder).run()
    except Failed as problem:
        console.print(f"[bold red]failed:[/] {problem}")
        return 1
    finally:
        if options.discard:
            _clean(folder)


def _clean(folder: Path) -> None:
    """Without what a demo made there; nothing else is touched."""
    for name in MADE:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("broker.log", "lake.log"):
        (folder / name).unlink(missing_ok=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__.split("\n")[0])
    parser.add_argument("--orders", type=int, default=40_000, help="how many to publish")
    parser.add_argument("--rate", type=int, default=2_000, help="orders a second")
    parser.add_argument(
        "--lake",
        choices=LAKES,
        default="folder",
        help="s3: an Iceberg table in an object store, under a REST catalog",
    )
    parser.add_argument("--quick", action="store_true", help="no crash, no query, no report")
    parser.add_argument(
        "--folder", type=Path, default=Path("data/demo"), help="for topics, lake and report"
    )
    parser.add_argument("--discard", action="store_true", help="leave nothing in the folder")
    parser.add_argument("--progress", type=Path, help="write the pipeline's progress to this file")
    return parser.parse_args()


class Demo:
    def __init__(self, options: argparse.Namespace, console: Console, folder: Path) -> None:
        self._options = options
        self._console = console
        self._folder = folder
        self._start = time.monotonic()
        self._environment = {"DEMO_FOLDER": str(folder)}
        self._pipeline_file = PIPELINE
        self._table = [str(folder / "lake" / "orders")]  # as `replay --archive` takes it
        self._lake: ObjectLake | None = None

    def run(self) -> int:
        with contextlib.ExitStack() as stack:
            broker = Broker(self._folder)
            stack.callback(broker.close)
            if self._options.lake == "s3":
                self._say("lake", "an object store and a REST catalog are starting")
                self._lake = ObjectLake(self._folder)
                stack.callback(self._lake.close)
                self._move_lake(self._lake)
            return self._story(broker)

    def _move_lake(self, lake: ObjectLake) -> None:
        """The same pipeline, but for where its archive is."""
        self._environment |= lake.environment
        self._table = [f"{PLACE}/orders", "--catalog", CATALOG]
        text = PIPELINE.read_text(encoding="utf-8")
        assert IN_A_FOLDER in text, "the archive's lines are exchanged"
        file = self._folder / "pipeline" / PIPELINE.name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace(IN_A_FOLDER, IN_A_STORE), encoding="utf-8")
        shutil.copy(STORES, file.parent)
        self._pipeline_file = file
        self._say("lake", f"object store {lake.store}, Iceberg REST catalog {lake.catalog}")

    def _story(self, broker: Broker) -> int:
        self._environment["GOQUEUE_BOOTSTRAP"] = broker.kafka
        self._environment["GOQUEUE_SERVER"] = broker.http
        self._say("broker", f"kafka {broker.kafka}, {broker.http}, data in {self._folder}")
        with Client(broker.http) as client:
            client.create_topic("orders", partitions=4)
            publisher = self._publish(broker)
            self._pipeline(client, publisher)
            publisher.join()
        self._replay()
        if not self._options.quick:
            self._query()
            self._report()
        verdict = self._verdict(broker)
        if not self._options.discard:
            self._say_what_is_left()
        return verdict

    def _publish(self, broker: Broker) -> Publisher:
        count, rate = self._options.orders, self._options.rate
        publisher = Publisher(broker.http, "orders", count, rate)
        publisher.start()
        self._say("publisher", f"{count:,} orders, {rate:,} a second, some of them unreadable")
        return publisher

    # --- the pipeline -----------------------------------------------------------------------------

    def _pipeline(self, client: Client, publisher: Publisher) -> None:
        shown = self._pipeline_file.parent.name
        self._say("pipeline", f"goqueue pipeline run {shown}/{PIPELINE.name}")
        if not self._options.quick:
            self._crash(publisher)
        job = self._started("run", str(self._pipeline_file))
        self._watch(job, publisher, until=lambda _: publisher.is_done and _lag(client) == 0)
        stopped = time.monotonic()
        job.stop()
        took = time.monotonic() - stopped
        wanted = expected(self._options.orders).messages
        self._say("SIGTERM", f"all {wanted:,} messages are worked off; it ended in {took:.1f} s")

    def _crash(self, publisher: Publisher) -> None:
        def is_under_way(seen: dict[str, Progress]) -> bool:
            return "orders.totals" in seen and seen["orders.totals"].rows > 0

        job = self._started("run", str(self._pipeline_file))
        self._watch(job, publisher, until=is_under_way)
        job.kill()
        self._say("kill -9", "it and all its processes, in the middle of their work")
        self._say("pipeline", "the same command again: it goes on where it was")

    def _started(self, *arguments: str) -> Job:
        return Job(*arguments, environment=self._environment)

    def _watch(
        self, job: Job, publisher: Publisher, until: Callable[[dict[str, Progress]], bool]
    ) -> None:
        """Draws the job's progress until then; before there is any, that Spark is starting."""
        seen: dict[str, Progress] = {}
        start = time.monotonic()

        def draw() -> RenderableType:
            if seen:
                return picture(list(seen.values()))
            seconds = time.monotonic() - start
            waiting = f"{publisher.published:,} orders are there already"
            return Text(f"       Spark is starting: {seconds:.0f} s, {waiting}", style="dim")

        with Live(console=self._console, get_renderable=draw, transient=True):
            for report in job.reports():
                self._note(report)
                progress = msgspec.convert(report, Progress)
                seen[progress.name] = progress
                if until(seen):
                    break
            else:
                job.finished()
                raise Failed("the pipeline ended by itself")
        self._console.print(picture(list(seen.values())))

    def _note(self, report: dict[str, Any]) -> None:
        if self._options.progress is not None:
            with self._options.progress.open("a") as file:
                file.write(json.dumps(report) + "\n")

    # --- what comes after -------------------------------------------------------------------------

    def _replay(self) -> None:
        shown = "lake/orders" if self._lake is None else " ".join(self._table)
        self._say("replay", f"goqueue pipeline replay --archive {shown} --to {REPLAYED}")
        job = self._started(
            "replay",
            "--archive",
            *self._table,
            "--to",
            REPLAYED,
            "--state",
            str(self._folder / "state"),
        )
        done = json.loads(job.finished())
        self._console.print(f"    {done['messages']:,} messages")

    def _query(self) -> None:
        self._say("sql", f'goqueue pipeline sql "{QUERY}"')
        rows = json.loads(self._started("sql", QUERY).finished())
        shown = Table(box=None, padding=(0, 2, 0, 4))
        for name in rows[0]:
            shown.add_column(name)
        for row in rows:
            shown.add_row(*map(str, row.values()))
        self._console.print(shown)

    def _report(self) -> None:
        out = self._folder / "report"
        origin = "json:$.at"  # where an order tells when it was made
        self._say("report", f"goqueue pipeline report orders orders.large --origin '{origin}'")
        arguments = ("orders", "orders.large", "--origin", origin, "--out", str(out))
        self._started("report", *arguments).finished()
        pages = sorted(out.glob("*.html"))
        if not pages:
            raise Failed(f"there is no page in {out}")
        self._console.print(f"    {pages[0].resolve().as_uri()}")

    def _verdict(self, broker: Broker) -> int:
        self._say("counts", "of everything, to the message")
        with Client(broker.http) as client:
            wanted = expected(self._options.orders)
            found = check_all(client, wanted, self._count_archived(), REPLAYED)
        self._console.print(_table(found))
        right = all(each.holds for each in found)
        self._say("done" if right else "wrong", f"{time.monotonic() - self._start:.0f} seconds")
        return 0 if right else 1

    def _count_archived(self) -> int:
        if self._lake is not None:
            return count_rows(self._lake, "orders")
        return count_delta_rows(self._folder / "lake" / "orders")

    def _say_what_is_left(self) -> None:
        if self._lake is not None:
            self._keep_lake(self._lake)
            return
        self._say("yours", f"what was made stays in {self._folder} until the next demo")
        lake = self._folder / "lake" / "orders"
        for text in (
            "the lake, a Delta table that any engine reads:",
            f'    .venv/bin/python -c "{SHOW_TABLE.format(lake)}"',
            "the topics:",
            f"    .venv/bin/goqueue server --data-dir {self._folder / 'broker'}",
            "    .venv/bin/goqueue pipeline sql 'select city, id from `orders.large` limit 5'",
        ):
            self._console.print(f"    {text}", soft_wrap=True, markup=False)

    def _keep_lake(self, lake: ObjectLake) -> None:
        """It is in the memory of the store's process: at a terminal that goes on until ctrl-c."""
        variables = " ".join(f"{name}={value}" for name, value in lake.environment.items())
        if not sys.stdin.isatty():
            return
        self._say("yours", "the lake, until ctrl-c:")
        for text in (
            f"    export {variables}",
            f'    .venv/bin/python -c "{SHOW_ICEBERG}"',
            f"    .venv/bin/goqueue pipeline compact-files {PLACE} --catalog {CATALOG}",
        ):
            self._console.print(f"    {text}", soft_wrap=True, markup=False)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()

    def _say(self, step: str, text: str) -> None:
        seconds = time.monotonic() - self._start
        self._console.print(f"[dim]{seconds:5.1f}[/]  [bold cyan]{step:<10}[/] {text}")


def _lag(client: Client) -> int | None:
    """Messages that some sink has not read, as any tool for consumer groups sees it."""
    try:
        return sum(client.group_lag(each).total_lag for each in GROUPS)
    except NotFound:  # one of them has not read anything yet
        return None


def _table(checks: list[Check]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 4), show_header=False)
    shown.add_column()
    shown.add_column(justify="right")
    shown.add_column()
    for each in checks:
        mark = "[green]✓[/]" if each.holds else f"[bold red]✗ wanted {each.wanted}[/]"
        found = f"{each.found:,}" if type(each.found) is int else "yes" if each.found else "no"
        shown.add_row(each.what, found, mark)
    return shown


if __name__ == "__main__":
    sys.exit(main())
