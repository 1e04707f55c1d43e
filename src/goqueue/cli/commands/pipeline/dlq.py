"""`goqueue pipeline dlq`: why messages died, and driving back what an SQL condition picks."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.commands.topic import TopicName
from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import LOCAL, Bootstrap, Master, Settings, reached_broker, spark_job
from goqueue.cli.output import show_table, show_value
from goqueue.cli.session import Session

if TYPE_CHECKING:
    from goqueue.client import Client
    from goqueue.spark.runtime.job_runner import Runner

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Analyse dead letters, and redrive those that match an SQL condition.",
)

Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Condition: \"reason = 'rejected' and attempts > 1 and headers['tenant'] = 'a'\".",
    ),
]


@app.command("triage")
def triage(
    context: typer.Context,
    topic: TopicName,
    where: Where = None,
    by: Annotated[
        str, typer.Option(metavar="COLUMNS", help="Columns to group by.")
    ] = "reason,group,consumer,error",
    bootstrap: Bootstrap = None,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Count dead letters by reason, group, consumer and error."""
    from goqueue.spark.dlq import job

    session = context.ensure_object(Session)
    chosen = session.output_format()
    columns = _columns(by)
    address = reached_broker(session, bootstrap)
    with (
        session.client() as client,
        spark_job(session, "dlq", master=master, settings=settings, has_results=True) as running,
    ):
        letters = _letters(running, client, topic, address, where)
        rows: list[dict[str, Any]] = []
        if letters is not None:
            counted = job.triage(letters, columns).limit(job.ROWS_MAX)
            rows = [row.asDict() for row in running.job("triage", counted.collect)]
    if chosen != "table":
        show_value(chosen, rows)
        return
    shown = (*columns, "letters", "attempts_max", "first", "last", "newest")
    show_table([name.upper() for name in shown], [[row[name] for name in shown] for row in rows])
    typer.echo(f"{sum(row['letters'] for row in rows)} in all", err=True)


@app.command("redrive")
def redrive(
    context: typer.Context,
    topic: TopicName,
    where: Where = None,
    to: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Move them to this topic instead.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, metavar="N", help="At most N dead letters."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.01, metavar="N", help="At most N per second.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be moved; move nothing.")
    ] = False,
    bootstrap: Bootstrap = None,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Redrive the dead letters that match an SQL condition, exactly once."""
    from goqueue.spark.dlq import job

    session = context.ensure_object(Session)
    chosen = session.output_format()
    address = reached_broker(session, bootstrap)
    with (
        session.client() as client,
        spark_job(session, "dlq", master=master, settings=settings, has_results=True) as running,
    ):
        letters = _letters(running, client, topic, address, where)
        if dry_run or letters is None:
            reasons = [] if letters is None else _reasons(running, letters)
            picked, moved = sum(row["letters"] for row in reasons), 0
        else:
            done = running.job(
                "redrive",
                lambda: job.redrive(letters, client, topic, to=to, limit=limit, rate=rate),
            )
            picked, moved, reasons = done.picked, done.moved, []
    if chosen != "table":
        value = {"topic": topic, "to": to or topic, "picked": picked, "moved": moved}
        show_value(chosen, {**value, "dry_run": dry_run, "reasons": reasons})
        return
    if reasons:
        show_table(("REASON", "ERROR", "LETTERS"), [tuple(row.values()) for row in reasons])
    verb = "would go" if dry_run else "went"
    typer.echo(f"{picked if dry_run else moved} of {picked} {verb} to {to or topic!r}")


def _letters(
    running: "Runner", client: "Client", topic: str, servers: str, where: str | None
) -> Any:
    from goqueue.spark.dlq import job

    letters = job.letters_table(running.spark, client, topic, servers)
    return None if letters is None else job.picked(letters, where)


def _reasons(running: "Runner", letters: Any) -> list[dict[str, Any]]:
    from goqueue.spark.dlq import job

    counted = job.triage(letters, ("reason", "error")).limit(job.ROWS_MAX)
    rows = running.job("triage", counted.collect)
    return [{name: row[name] for name in ("reason", "error", "letters")} for row in rows]


def _columns(by: str) -> tuple[str, ...]:
    known = ("reason", "group", "consumer", "error", "topic", "partition", "key", "attempts")
    columns = tuple(dict.fromkeys(name.strip() for name in by.split(",") if name.strip()))
    unknown = [name for name in columns if name not in known]
    if unknown or not columns:
        raise UsageFailure(f"--by {by}: choose some of {', '.join(known)}, with commas between")
    return columns
