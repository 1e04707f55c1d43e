"""`goqueue pipeline sql`: topics as tables at the terminal."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import JobOptions, reached_broker
from goqueue.cli.output import for_people, line, show, show_table
from goqueue.cli.session import Session
from goqueue.model.options import Pairs, TimeMs, argument, option

if TYPE_CHECKING:
    from goqueue.spark.runtime.job_runner import Runner

ROWS_MAX: Final = 100_000
TIMEOUT_SECONDS: Final = 30.0


class Period(msgspec.Struct, frozen=True):
    from_time: Annotated[
        TimeMs | None, option("Only messages since this time: RFC 3339, or -1h for an hour ago.")
    ] = None
    to_time: Annotated[TimeMs | None, option("Only messages before this time.")] = None


def sql(
    session: Session,
    text: Annotated[str, argument("The query; - reads it from stdin.", metavar="SQL")],
    period: Period,
    limit: Annotated[int, option("Rows to show.", "-n", min=1, max=ROWS_MAX)] = 100,
    schema: Annotated[
        Pairs | None,
        option(
            "Columns of a topic's JSON: orders='id bigint, at timestamp'. May be repeated.",
            metavar="TOPIC=COLUMNS",
        ),
    ] = None,
    follow: Annotated[
        bool,
        option("Show new messages, or changes of an aggregate of all, until ctrl-c.", "-f"),
    ] = False,
    *,
    job: JobOptions,
) -> None:
    """Query topics with SQL: "select store, count(*) from orders group by store".

    A topic is a table; quote names with a dot or a dash in backticks.  The fields of JSON values
    are columns (`describe orders` lists them); other values are the column `value`.  Further
    columns: _key, _topic, _partition, _offset, _timestamp, _headers and _value.
    """
    from goqueue.client.kafka import KafkaClient
    from goqueue.spark.sql.job import TopicRange, query

    if follow and period.to_time is not None:
        raise UsageFailure("--follow has no end: leave out --to-time")
    text = sys.stdin.read() if text == "-" else text
    address = reached_broker(session, job)
    with (
        KafkaClient(address, client_id="goqueue-sql", timeout_s=TIMEOUT_SECONDS) as client,
        job.run(session, "sql", has_results=True) as running,
    ):

        def build(only_new: bool) -> Any:
            return query(
                running.spark,
                client,
                address,
                text,
                messages=TopicRange(period.from_time, period.to_time, only_new=only_new),
                schemas=schema or {},
                is_stream=follow,
            )

        if follow:
            _follow(running, build, limit)
        else:
            _show(running, build(False), limit)


# --- what is there --------------------------------------------------------------------------------


def _show(running: "Runner", frame: Any, limit: int) -> None:
    from goqueue.spark.sql.rows import plain_rows

    rows = running.job("sql", frame.limit(limit + 1).collect)
    shown = plain_rows(rows[:limit])
    show(shown, frame.columns, [list(map(_cell, each.values())) for each in shown])
    if len(rows) > limit:
        typer.echo(f"there are more rows; --limit shows more than {limit}", err=True)


def _cell(value: Any) -> object:
    """Structures as JSON; numbers as they are, so that they stand to the right."""
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


# --- what comes -----------------------------------------------------------------------------------


def _follow(running: "Runner", build: Callable[[bool], Any], limit: int) -> None:
    """A micro-batch at a time, at most `limit` rows of each."""
    from goqueue.spark.sql.live_query import follow, live_frame

    def present(batch: int, rows: list[dict[str, Any]]) -> None:
        if not rows:
            return
        if for_people():
            show_table(list(rows[0]), [list(map(_cell, each.values())) for each in rows])
        else:
            sys.stdout.write("".join(line(each) for each in rows))
        sys.stdout.flush()

    frame = live_frame(build, running.spark)
    with follow(running.spark, frame, present, rows_max=limit) as stream:
        running.streams([stream])
