"""`goqueue pipeline serve`: run all pipelines of a folder, and keep them running."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.jobs import JobOptions, reached_broker
from goqueue.cli.session import Session
from goqueue.model.errors import InvalidSetting
from goqueue.model.options import DurationMs, argument, option

if TYPE_CHECKING:
    from goqueue.model.config import Address
    from goqueue.spark.service.tables import TableOptions

LOCK: Final = ".goqueue-serve.lock"


def serve(
    session: Session,
    folder: Annotated[str, argument("Folder with the files of pipelines.", metavar="DIR")],
    metrics: Annotated[
        str | None,
        option("Serve metrics for Prometheus there: 127.0.0.1:9464.", metavar="HOST:PORT"),
    ] = None,
    tables: Annotated[
        str | None,
        option(
            "Keep topics with the setting `goqueue.table.format` as tables in this directory, or"
            " s3:// URL.",
            metavar="DIR",
        ),
    ] = None,
    tables_catalog: Annotated[
        str | None,
        option("Catalog of those that are Iceberg tables, as PyIceberg names it.", metavar="NAME"),
    ] = None,
    tables_every: Annotated[
        DurationMs, option("How often their new messages are committed: 1m, 30s.")
    ] = 60_000,
    upkeep: Annotated[
        DurationMs, option("How often archives are compacted and vacuumed: 1h, 30m.")
    ] = 3_600_000,
    live_queries: Annotated[
        int,
        option(
            "How many queries are live at a time, some 135 MiB each. Further pipelines take turns:"
            " one whose topics have nothing new is closed for one that waits.",
            min=1,
        ),
    ] = 10,
    *,
    options: JobOptions,
) -> None:
    """Run every pipeline of a folder in one Spark session, and keep them running.

    What fails is started again, after 1 s at first and at most 5 minutes. Files that appear, change
    or go are noticed. `goqueue pipeline list`, `status`, `logs`, `stop`, `restart` and `reset` work
    from any machine that reaches the broker.
    """
    from goqueue.spark.service import job

    if not Path(folder).is_dir():
        raise UsageFailure(f"{folder} is not a folder")
    chosen = job.ServeOptions(
        Path(folder),
        reached_broker(session, options),
        tables=_tables(tables, tables_catalog, tables_every),
        upkeep_seconds=upkeep / 1000,
        metrics=_address(metrics),
        queries_max=live_queries,
    )
    with (
        _only_service(chosen.folder),
        session.client() as client,
        options.run(session, "serve", has_results=True) as running,
    ):
        job.serve(running, client, chosen, lambda text: typer.echo(text, err=True))


def _tables(place: str | None, catalog: str | None, every_ms: int) -> "TableOptions | None":
    from goqueue.client.errors import ClientError
    from goqueue.spark.service.tables import table_options

    if place is None:
        if catalog is not None:
            raise UsageFailure("--tables-catalog: where the tables are is said by --tables")
        return None
    try:
        return table_options(place, catalog, every_ms)
    except ClientError as error:
        raise UsageFailure(f"--tables: {error}") from error


def _address(text: str | None) -> "Address | None":
    from goqueue.model.config import parse_address

    try:
        return None if text is None else parse_address(text)
    except InvalidSetting as error:
        raise UsageFailure(f"--metrics: {error}") from error


@contextlib.contextmanager
def _only_service(folder: Path) -> Iterator[None]:
    """Two that run one pipeline would take each other's checkpoints for their own."""
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failure(f"another service runs the pipelines of {folder}") from None
        yield
