"""`goqueue pipeline journeys`: what messages took, and what became of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.jobs import JobOptions
from goqueue.cli.output import for_people, show_table, show_value
from goqueue.cli.session import Session
from goqueue.model.options import option
from goqueue.spark.journeys.options import JourneyOptions

if TYPE_CHECKING:
    from goqueue.client import Client

HEADINGS = ("TOPIC", "GROUP", "STEP", "MESSAGES", "P50 MS", "P95 MS", "P99 MS", "MAX MS")


def journeys(
    session: Session,
    client: "Client",
    told: JourneyOptions,
    out: Annotated[
        Path | None, option("Also write the tables there, as Parquet.", "-d", metavar="DIR")
    ] = None,
    *,
    job: JobOptions,
) -> None:
    """Report how long messages took from step to step, and what became of deliveries.

    Reads the history of events that `goqueue trace` tells from.
    """
    from goqueue.spark.journeys.job import make_journeys, write_journeys

    for topic in told.topics:
        client.topic(topic)  # a name that is wrong is told at once
    target = session.target()
    connect = {"base_url": target.server, **target.options()}
    with job.run(session, "journeys", has_results=True) as running:
        figures = running.job("journeys", lambda: make_journeys(running.spark, connect, told))
    if out is not None:
        write_journeys(figures, out)
    if not for_people():
        show_value(figures)
        return
    show_table(HEADINGS, [_cells(row) for row in figures.latencies], empty="no journeys")
    for row in figures.slowest:
        place = f"{row['topic']}/{row['partition']}/{row['offset']}"
        typer.echo(f"{row['took_ms']:,.0f} ms  goqueue trace {place}  ({row['group']})", err=True)


def _cells(row: dict[str, Any]) -> list[object]:
    times = [round(row[f"{name}_ms"], 1) for name in ("p50", "p95", "p99", "max")]
    return [row["topic"], row["group"], row["step"], row["messages"], *times]
