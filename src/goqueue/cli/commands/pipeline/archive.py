"""`goqueue pipeline archive`: topics as tables of a lake, exactly once."""

from typing import Annotated, Any

import typer

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import (
    LOCAL,
    Bootstrap,
    Master,
    Settings,
    bootstrap_of,
    check_broker,
    spark_job,
)
from goqueue.cli.moments import duration_ms
from goqueue.cli.session import Session

FORMATS = ("parquet", "delta", "iceberg")


def archive(
    context: typer.Context,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC...]", help="Topics to archive.")
    ] = None,
    to: Annotated[
        str,
        typer.Option("--to", "-d", metavar="DIR", help="Directory of the tables, one per topic."),
    ] = "archive",
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="parquet, delta or iceberg.")
    ] = "parquet",
    pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Topics whose names match, also those created later."),
    ] = None,
    decode: Annotated[
        str, typer.Option(metavar="HOW", help="json: fields of values become columns; or none.")
    ] = "none",
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", help="Columns with known types: 'id bigint, price double'."
        ),
    ] = None,
    keep_value: Annotated[
        bool, typer.Option(help="Also keep the original values; a replay needs them.")
    ] = True,
    start: Annotated[
        str, typer.Option(metavar="WHERE", help="Where a new archive begins: earliest or latest.")
    ] = "earliest",
    every: Annotated[
        str, typer.Option(metavar="TIME", help="Time between commits: 30s, 5m.")
    ] = "1m",
    once: Annotated[
        bool, typer.Option("--once", help="Archive the existing messages, then stop.")
    ] = False,
    batch_mib: Annotated[
        int, typer.Option(min=1, max=1 << 20, metavar="N", help="Approximate size of a commit.")
    ] = 1024,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Spark's checkpoint. \\[in the directory of --to]"),
    ] = None,
    bootstrap: Bootstrap = None,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Write topics to Parquet, Delta or Iceberg tables, exactly once and continuously.

    Rows that cannot be decoded go to the table TOPIC_dlq, with the reason.
    """
    session = context.ensure_object(Session)
    session.output_format()
    _check(format, "--format", FORMATS)
    _check(decode, "--decode", ("none", "json"))
    told: dict[str, Any] = {
        "topics": tuple(dict.fromkeys(topics or ())),
        "pattern": pattern,
        "target": to,
        "format": format,
        "decode": decode,
        "fields": fields,
        "keep_value": keep_value,
        "start": start,
        "trigger": "available-now" if once else f"{duration_ms(every, '--every')} milliseconds",
        "batch_bytes": batch_mib << 20,
        "checkpoint": checkpoint,
        "bootstrap": bootstrap_of(session, bootstrap),
    }
    from goqueue.spark.archive.job import ArchiveOptions, check_options, topic_facts
    from goqueue.spark.archive.job import archive as start_archive

    options = ArchiveOptions(**told)
    problem = check_options(options)
    if problem is not None:
        raise UsageFailure(problem)
    check_broker(options.bootstrap)
    for topic in options.topics:  # before Spark starts: a name that is wrong is told at once
        topic_facts(options.bootstrap, topic)
    with spark_job(session, "archive", master=master, settings=settings) as running:
        running.streams([start_archive(running.spark, options)])


def _check(given: str, flag: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise UsageFailure(f"{flag} {given}: choose one of {', '.join(known)}")
