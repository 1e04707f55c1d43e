"""`goqueue pipeline compact`: Spark finds what is superseded, the broker drops it."""

from typing import Annotated

import msgspec
import typer

from goqueue.cli.commands.topic import TopicName
from goqueue.cli.jobs import LOCAL, Bootstrap, Master, Settings, reached_broker, spark_job
from goqueue.cli.output import show_table, show_value
from goqueue.cli.session import Session


def compact(
    context: typer.Context,
    topic: TopicName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")
    ] = False,
    bootstrap: Bootstrap = None,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Keep only the last message of each key, with any number of keys."""
    from goqueue.spark.compaction.job import compact as compact_topic

    session = context.ensure_object(Session)
    chosen = session.output_format()
    servers = reached_broker(session, bootstrap)
    with (
        session.client() as client,
        spark_job(
            session, "compact", master=master, settings=settings, has_results=True
        ) as running,
    ):
        done = running.job(
            "compact",
            lambda: compact_topic(running.spark, client, topic, servers, dry_run=dry_run),
        )
    if chosen != "table":
        show_value(chosen, [msgspec.to_builtins(each) for each in done])
        return
    show_table(
        ("PARTITION", "RECORDS BEFORE", "AFTER", "BYTES BEFORE", "AFTER"),
        [
            (
                each.partition,
                each.result.records_before,
                each.result.records_after,
                each.result.bytes_before,
                each.result.bytes_after,
            )
            for each in done
        ],
    )
    if dry_run:
        typer.echo("nothing was changed", err=True)
