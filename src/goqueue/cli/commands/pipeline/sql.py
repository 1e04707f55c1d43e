"""`goqueue pipeline sql`: topics as tables at the terminal."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import (
    LOCAL,
    Bootstrap,
    Master,
    Settings,
    reached_broker,
    spark_job,
)
from goqueue.cli.moments import milliseconds
from goqueue.cli.output import show, show_table
from goqueue.cli.pairs import pairs
from goqueue.cli.session import OutputFormat, Session

if TYPE_CHECKING:
    from goqueue.spark.runtime.job_runner import Runner
    from goqueue.spark.sql.job import TopicRange

ROWS_MAX: Final = 100_000
TIMEOUT_SECONDS: Final = 30.0


def sql(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="SQL", help="The query; - reads it from stdin.")],
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=ROWS_MAX, metavar="N", help="Rows to show.")
    ] = 100,
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only messages since this time: RFC 3339, or -1h for an hour ago."
        ),
    ] = None,
    to_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only messages before this time.")
    ] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            metavar="TOPIC=COLUMNS",
            help="Columns of a topic's JSON: orders='id bigint, at timestamp'. May be repeated.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new messages until ctrl-c.")
    ] = False,
    bootstrap: Bootstrap = None,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Query topics with SQL: "select store, count(*) from orders group by store".

    A topic is a table; quote names with a dot or a dash in backticks.  The fields of JSON values
    are columns (`describe orders` lists them); other values are the column `value`.  Further
    columns: _key, _topic, _partition, _offset, _timestamp, _headers and _value.
    """
    from goqueue.client.kafka import KafkaClient
    from goqueue.spark.sql.job import query

    session = context.ensure_object(Session)
    chosen = session.output_format()
    text = sys.stdin.read() if text == "-" else text
    messages = _range(from_time, to_time, follow=follow)
    schemas = pairs(schema, "--schema")
    address = reached_broker(session, bootstrap)
    with (
        KafkaClient(address, client_id="goqueue-sql", timeout_s=TIMEOUT_SECONDS) as client,
        spark_job(session, "sql", master=master, settings=settings, has_results=True) as running,
    ):
        frame = query(
            running.spark,
            client,
            address,
            text,
            messages=messages,
            schemas=schemas,
            is_stream=follow,
        )
        if follow:
            _follow(running, frame, chosen, limit)
        else:
            _show(running, frame, chosen, limit)


def _range(from_time: str | None, to_time: str | None, *, follow: bool) -> "TopicRange":
    from goqueue.spark.sql.job import TopicRange

    if follow and to_time is not None:
        raise UsageFailure("--follow has no end: leave out --to-time")
    now_ms = time.time_ns() // 1_000_000
    return TopicRange(
        None if from_time is None else milliseconds(from_time, now_ms),
        None if to_time is None else milliseconds(to_time, now_ms),
        only_new=True,
    )


# --- what is there --------------------------------------------------------------------------------


def _show(running: "Runner", frame: Any, chosen: OutputFormat, limit: int) -> None:
    from goqueue.spark.sql.rows import plain_rows

    rows = running.job("sql", frame.limit(limit + 1).collect)
    shown = plain_rows(rows[:limit])
    show(chosen, shown, frame.columns, [list(map(_cell, each.values())) for each in shown])
    if len(rows) > limit:
        typer.echo(f"there are more rows; --limit shows more than {limit}", err=True)


def _cell(value: Any) -> object:
    """Structures as JSON; numbers as they are, so that they stand to the right."""
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


# --- what comes -----------------------------------------------------------------------------------


def _follow(running: "Runner", frame: Any, chosen: OutputFormat, limit: int) -> None:
    """A micro-batch at a time, at most `limit` rows of each."""
    from goqueue.spark.sql.live_query import following

    def present(batch: int, rows: list[dict[str, Any]]) -> None:
        if not rows:
            return
        if chosen == "table":
            show_table(list(rows[0]), [list(map(_cell, each.values())) for each in rows])
        else:
            sys.stdout.write("".join(_line(chosen, each) for each in rows))
        sys.stdout.flush()

    with following(running.spark, frame, present, rows_max=limit) as stream:
        running.streams([stream])


def _line(chosen: OutputFormat, row: dict[str, Any]) -> str:
    if chosen == "yaml":
        return "---\n" + msgspec.yaml.encode(row).decode()
    return msgspec.json.encode(row).decode() + "\n"
