"""`goqueue pipeline report`: how topics do, as a page with charts and as Parquet."""

import time
from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import LOCAL, Bootstrap, Master, Settings, reached_broker, spark_job
from goqueue.cli.moments import duration_ms, milliseconds
from goqueue.cli.output import show_value
from goqueue.cli.session import Session

ORIGINS = ("header:", "json:$")


def report(
    context: typer.Context,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Topics of the report.")],
    out: Annotated[
        Path,
        typer.Option("--out", "-d", metavar="DIR", help="Directory for the page and the tables."),
    ] = Path("report"),
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Start time: -1h, or RFC 3339."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="TIME", help="End time, exclusive.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where a message has its time of origin: header:NAME or json:$.field.",
        ),
    ] = None,
    sla: Annotated[
        str | None, typer.Option(metavar="TIME", help="Latency objective: 500ms, 2s.")
    ] = None,
    keys: Annotated[
        int, typer.Option(min=1, max=1_000, metavar="N", help="Number of hot keys.")
    ] = 20,
    bootstrap: Bootstrap = None,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Throughput, latency, lag, hot keys and dead letters of topics."""
    import datetime

    session = context.ensure_object(Session)
    chosen = session.output_format()
    if origin is not None and not origin.startswith(ORIGINS):
        raise UsageFailure(f"--origin {origin}: write header:NAME or json:$.field")
    now_ms = time.time_ns() // 1_000_000
    from goqueue.spark.report import ReportOptions, make_report, write_report

    options = ReportOptions(
        topics=tuple(dict.fromkeys(topics)),
        servers=reached_broker(session, bootstrap),
        from_ms=None if since is None else milliseconds(since, now_ms),
        to_ms=None if before is None else milliseconds(before, now_ms),
        origin=origin,
        sla_ms=None if sla is None else float(duration_ms(sla, "--sla")),
        keys=keys,
    )
    with (
        session.client() as client,
        spark_job(session, "report", master=master, settings=settings, has_results=True) as running,
    ):
        for topic in options.topics:
            client.topic(topic)  # before Spark starts to read: a name that is wrong is told at once
        figures = running.job(
            "report",
            lambda: make_report(
                running.spark, client, options, now=datetime.datetime.now(datetime.UTC)
            ),
        )
        page = write_report(figures, out)
    if chosen == "table":
        typer.echo(f"{page}")
    else:
        totals = {each.topic: each.totals for each in figures.topics}
        show_value(chosen, {"page": str(page), "topics": totals})
