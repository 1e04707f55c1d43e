"""`goqueue pipeline compact`: Spark finds what is superseded, the broker drops it."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.commands.topic import TopicName
from goqueue.cli.jobs import JobOptions, reached_broker
from goqueue.cli.output import for_people, show
from goqueue.cli.session import Session
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.client import Client


def compact(
    session: Session,
    client: "Client",
    topic: TopicName,
    dry_run: Annotated[bool, option("Show what would be deleted; delete nothing.")] = False,
    *,
    job: JobOptions,
) -> None:
    """Keep only the last message of each key of a topic, however many keys there are."""
    from goqueue.spark.compaction.job import compact as compact_topic

    servers = reached_broker(session, job)
    with job.run(session, "compact", has_results=True) as running:
        done = running.job(
            "compact", lambda: compact_topic(running.spark, client, topic, servers, dry_run=dry_run)
        )
    show(
        done,
        ("PARTITION", "RECORDS BEFORE", "AFTER", "BYTES BEFORE", "AFTER"),
        [
            (each.partition, r.records_before, r.records_after, r.bytes_before, r.bytes_after)
            for each in done
            for r in [each.result]
        ],
    )
    if dry_run and for_people():
        typer.echo("nothing was changed", err=True)
