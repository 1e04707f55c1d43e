"""`goqueue pipeline replay`: an archive, or a range of a topic, into a topic, exactly once."""

import time
from typing import Annotated, Any

import msgspec
import typer

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import LOCAL, Bootstrap, Master, Settings, reached_broker, spark_job
from goqueue.cli.moments import as_text, milliseconds
from goqueue.cli.output import show_value
from goqueue.cli.session import Session


def replay(
    context: typer.Context,
    to: Annotated[
        str, typer.Option("--to", metavar="TOPIC", help="Target topic; created if missing.")
    ],
    archive: Annotated[
        str | None,
        typer.Option("--archive", "-d", metavar="DIR", help="Table of an archive to replay."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Topic to replay.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Start time: 2026-01-31T12:00:00Z."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="TIME", help="End time, exclusive.")
    ] = None,
    from_offset: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Start offset in each partition.")
    ] = None,
    before_offset: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="End offset in each partition, exclusive."),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(min=0, metavar="N", help="Only this partition. May be repeated."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Condition: \"price > 100 and customer = 'a'\"."),
    ] = None,
    by_key: Annotated[
        bool,
        typer.Option("--by-key", help="Choose partitions by key instead of keeping them."),
    ] = False,
    new_times: Annotated[
        bool, typer.Option("--new-times", help="Use the time of the replay as timestamp.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the replay. Each name runs once; use a new one to repeat."),
    ] = None,
    source_bootstrap: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Broker of --topic, if different."),
    ] = None,
    state: Annotated[
        str, typer.Option(metavar="DIR", help="Directory for the state that a restart needs.")
    ] = "replays",
    window: Annotated[
        int,
        typer.Option(min=1, max=1 << 40, metavar="N", help="Offsets per transaction."),
    ] = 500_000,
    bootstrap: Bootstrap = None,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Write messages of an archive or a topic to a topic again, in order and exactly once.

    An archive also has messages that retention has deleted. After a crash, run the same command
    again: the replay continues.
    """
    session = context.ensure_object(Session)
    chosen = session.output_format()
    if (archive is None) == (topic is None):
        raise UsageFailure("name what to replay: --archive DIR or --topic TOPIC")
    choice: dict[str, Any] = {
        "from_ms": _moment(since, "--since"),
        "until_ms": _moment(before, "--before"),
        "from_offset": from_offset,
        "until_offset": before_offset,
        "partitions": tuple(sorted(set(partition or ()))),
        "where": where,
    }
    address = reached_broker(session, bootstrap)
    from goqueue.spark.replay.job import ReplayOptions
    from goqueue.spark.replay.job import replay as replay_messages
    from goqueue.spark.replay.sources import Choice

    options = ReplayOptions(
        bootstrap=address,
        to=to,
        archive=archive,
        topic=topic,
        source_bootstrap=source_bootstrap,
        choice=Choice(**choice),
        partitions="key" if by_key else "keep",
        times="now" if new_times else "keep",
        name=name,
        state=state,
        window=window,
    )
    with spark_job(
        session, "replay", master=master, settings=settings, has_results=True
    ) as running:
        done = running.job("replay", lambda: replay_messages(running.spark, options))
    if chosen != "table":
        show_value(chosen, msgspec.to_builtins(done))
    elif done.was_finished:
        typer.echo(f"{done.name} was done before: --name another one to do it again")
    else:
        typer.echo(f"{done.messages} messages replayed to {to!r} as {done.name}")


def _moment(text: str | None, flag: str) -> int | None:
    """Written out: started again after a crash, the replay must be the same one."""
    if text is None:
        return None
    moment = milliseconds(text, time.time_ns() // 1_000_000)
    if text == "now" or text.startswith("-"):
        raise UsageFailure(
            f"{flag} {text}: this is another time whenever the replay is started again;"
            f" write {as_text(moment)}"
        )
    return moment
