"""`goqueue pipeline dlq`: why messages died, and redriving those that match an SQL condition."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.command import command
from goqueue.cli.commands.topic import TopicName
from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import JobOptions, reached_broker
from goqueue.cli.output import for_people, show_table, show_value
from goqueue.cli.session import Session
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.client import Client
    from goqueue.spark.runtime.job_runner import Runner

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Analyse dead letters, and redrive those that match an SQL condition.",
)

COUNT: Final = "letters"  # rule-ok: a column that scripts read
TIMES: Final = ("first", "last")
DROPPED: Final = ("newest", "first", "attempts_max", "consumer", "last")  # in this order

Where = Annotated[
    str | None,
    option(
        "Condition: \"reason = 'rejected' and attempts > 1 and headers['tenant'] = 'a'\".",
        metavar="SQL",
    ),
]


@command(app, "triage")
def triage(
    session: Session,
    client: "Client",
    topic: TopicName,
    where: Where = None,
    by: Annotated[
        str, option("Columns to group by.", metavar="COLUMNS")
    ] = "reason,group,consumer,error",
    *,
    job: JobOptions,
) -> None:
    """Count dead letters by reason, group, consumer and error."""
    columns = _columns(by)
    address = reached_broker(session, job)
    with job.run(session, "dlq", has_results=True) as running:
        found = _dead_letters(running, client, topic, address, where)
        rows = [] if found is None else _count(running, found, columns)
    if not for_people():
        show_value(rows)
        return
    show_triage(columns, rows)


def show_triage(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """What does not fit the terminal is left out, the least telling first."""
    from goqueue.cli.cells import Moment

    shown = (*columns, COUNT, "attempts_max", "first", "last", "newest")
    cells = [[Moment(row[name]) if name in TIMES else row[name] for name in shown] for row in rows]
    drop = [name.upper() for name in DROPPED if name in shown]
    show_table([name.upper() for name in shown], cells, drop=drop)
    typer.echo(f"{sum(row[COUNT] for row in rows)} in all", err=True)


@command(app, "redrive")
def redrive(
    session: Session,
    client: "Client",
    topic: TopicName,
    where: Where = None,
    to: Annotated[str | None, option("Move them to this topic instead.", metavar="TOPIC")] = None,
    limit: Annotated[int | None, option("At most N dead letters.", "-n", min=1)] = None,
    rate: Annotated[float | None, option("At most N per second.", min=0.01)] = None,
    dry_run: Annotated[bool, option("Show what would be moved; move nothing.")] = False,
    *,
    job: JobOptions,
) -> None:
    """Redrive the dead letters that match an SQL condition, exactly once."""
    from goqueue.spark.dlq.job import redrive as redrive_dead_letters

    reasons: list[dict[str, Any]] = []
    picked = moved = 0
    address = reached_broker(session, job)
    with job.run(session, "dlq", has_results=True) as running:
        found = _dead_letters(running, client, topic, address, where)
        if dry_run and found is not None:
            rows = _count(running, found, ("reason", "error"))
            reasons = [{name: row[name] for name in ("reason", "error", COUNT)} for row in rows]
            picked = sum(row[COUNT] for row in reasons)
        elif found is not None:
            done = running.job(
                "redrive",
                lambda: redrive_dead_letters(found, client, topic, to=to, limit=limit, rate=rate),
            )
            picked, moved = done.picked, done.moved
    if not for_people():
        value = {"topic": topic, "to": to or topic, "picked": picked, "moved": moved}
        show_value({**value, "dry_run": dry_run, "reasons": reasons})
        return
    if reasons:
        show_table(("REASON", "ERROR", COUNT.upper()), [tuple(row.values()) for row in reasons])
    verb = "would go" if dry_run else "went"
    typer.echo(f"{picked if dry_run else moved} of {picked} {verb} to {to or topic!r}")


def _dead_letters(
    running: "Runner", client: "Client", topic: str, servers: str, where: str | None
) -> Any:
    from goqueue.spark.dlq import job

    found = job.dead_letter_table(running.spark, client, topic, servers)
    return None if found is None else job.pick(found, where)


def _count(running: "Runner", found: Any, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    from goqueue.spark.dlq import job
    from goqueue.spark.sql.rows import plain_rows

    counted = job.triage(found, columns).limit(job.ROWS_MAX)
    return plain_rows(running.job("triage", counted.collect))


def _columns(by: str) -> tuple[str, ...]:
    known = ("reason", "group", "consumer", "error", "topic", "partition", "key", "attempts")
    columns = tuple(dict.fromkeys(name.strip() for name in by.split(",") if name.strip()))
    unknown = [name for name in columns if name not in known]
    if unknown or not columns:
        raise UsageFailure(f"--by {by}: choose some of {', '.join(known)}, with commas between")
    return columns
