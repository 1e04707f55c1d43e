"""`goqueue pipeline report`: how topics do, as a page with charts and as Parquet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import JobOptions, reached_broker
from goqueue.cli.output import show_text
from goqueue.cli.session import Session
from goqueue.model.options import option
from goqueue.spark.report.options import ReportOptions

if TYPE_CHECKING:
    from goqueue.client import Client

ORIGINS = ("header:", "json:$")


def report(
    session: Session,
    client: "Client",
    told: ReportOptions,
    out: Annotated[
        Path, option("Directory for the page and the tables.", "-d", metavar="DIR")
    ] = Path("report"),
    *,
    job: JobOptions,
) -> None:
    """Report throughput, latency, lag, hot keys and dead letters of topics."""
    import datetime

    if told.origin is not None and not told.origin.startswith(ORIGINS):
        raise UsageFailure(f"--origin {told.origin}: write header:NAME or json:$.field")
    options = msgspec.structs.replace(told, servers=reached_broker(session, job))
    from goqueue.spark.report.job import make_report, write_report

    with job.run(session, "report", has_results=True) as running:
        for topic in options.topics:
            client.topic(topic)  # before Spark starts to read: a name that is wrong is told at once
        figures = running.job(
            "report",
            lambda: make_report(
                running.spark, client, options, now=datetime.datetime.now(datetime.UTC)
            ),
        )
        page = write_report(figures, out)
    totals = {each.topic: each.totals for each in figures.topics}
    show_text({"page": str(page), "topics": totals}, f"{page}")
