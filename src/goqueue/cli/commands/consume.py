"""`goqueue consume`: read messages, up to the end or as they come."""

import itertools
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from goqueue.cli.commands.topic import TopicName
from goqueue.cli.failures import UsageFailure
from goqueue.cli.pairs import pairs
from goqueue.cli.session import Session

if TYPE_CHECKING:
    from goqueue.client import Received

app = typer.Typer(add_completion=False)


class Start(msgspec.Struct, frozen=True):
    """Where to begin: at an offset, or at a time."""

    offset: "int | Literal['earliest', 'latest'] | None" = None
    from_time: int | None = None


@app.command()
def consume(
    context: typer.Context,
    topic: TopicName,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="\\[all]")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Start offset (with --partition); -N counts back from the end."
        ),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the oldest message. \\[default]")
    ] = False,
    from_latest: Annotated[
        bool, typer.Option("--from-latest", help="Start at the end: only new messages.")
    ] = False,
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Start time: RFC 3339, epoch milliseconds, or -1h for an hour ago."
        ),
    ] = None,
    to_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop before the first message of this time.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, metavar="N", help="Stop after N messages."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new messages at the end.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORM",
            help="raw, json, or a template: '{partition}:{offset} {key} {value}\\n'. \\[raw]",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="NAME",
            help="Read as a member of this consumer group and commit the offsets.",
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only messages with this key.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME=VALUE",
            help="Only messages with this header. May be repeated.",
        ),
    ] = None,
) -> None:
    """Read messages.  Messages from several partitions are merged by timestamp.

    Fields of templates: topic, partition, offset, timestamp, timestamp_ms, key, value and headers.
    `--output table`, `json` or `yaml` are other ways to show messages.
    """
    from goqueue.cli.moments import milliseconds

    session = context.ensure_object(Session)
    now_ms = time.time_ns() // 1_000_000
    if follow and to_time is not None:
        raise UsageFailure("--follow has no end: leave out --to-time")
    start = _start(partition, offset, from_beginning, from_latest, from_time, now_ms)
    wanted = _filter(key, pairs(header, "--header"))
    show = _shower(form or session.chosen_output() or "raw", flush=follow)
    if group is not None:
        if partition is not None or offset or from_time or to_time or from_beginning:
            raise UsageFailure("a group knows where it is: --group takes only --from-latest")
        from goqueue.cli.group_consuming import consume_as_member

        consume_as_member(
            session, group, topic, wanted, limit, show, from_latest=from_latest, follow=follow
        )
    elif follow:
        _follow(session, topic, partition, start, wanted, limit, show)
    else:
        end = None if to_time is None else milliseconds(to_time, now_ms)
        _read(session, topic, partition, start, end, wanted, limit, show)


# --- where to begin -------------------------------------------------------------------------------


def _start(
    partition: int | None,
    offset: str | None,
    from_beginning: bool,
    from_latest: bool,
    from_time: str | None,
    now_ms: int,
) -> Start:
    from goqueue.cli.moments import milliseconds

    if sum((offset is not None, from_beginning, from_latest, from_time is not None)) > 1:
        raise UsageFailure("give one of --offset, --from-beginning, --from-latest and --from-time")
    if offset is not None:
        return _from_offset(offset, partition)
    if from_latest:
        return Start("latest")
    if from_time is not None:
        return Start(from_time=milliseconds(from_time, now_ms))
    return Start("earliest")


def _from_offset(text: str, partition: int | None) -> Start:
    match text:
        case "earliest" | "latest":
            return Start(text)
        case _ if text.removeprefix("-").isdecimal():
            number = int(text)
        case _:
            raise UsageFailure(f"--offset {text}: write a number, -N, earliest or latest")
    if number >= 0 and partition is None:
        raise UsageFailure("an offset is a partition's own: add --partition")
    return Start(number)


# --- what to show ---------------------------------------------------------------------------------


def _filter(key: str | None, headers: dict[str, str]) -> "Callable[[Received], bool] | None":
    if key is None and not headers:
        return None
    wanted_key = None if key is None else key.encode()
    wanted_headers = {(name, value.encode()) for name, value in headers.items()}

    def matches(message: "Received") -> bool:
        return (wanted_key is None or message.key == wanted_key) and wanted_headers.issubset(
            message.headers
        )

    return matches


def _shower(form: str, *, flush: bool) -> "Callable[[Received], None]":
    from goqueue.cli.rendering import heading, renderer

    render = renderer(form)
    out = sys.stdout.buffer
    if form == "table":
        out.write(heading())

    def show(message: "Received") -> None:
        out.write(render(message))
        if flush:
            out.flush()

    return show


# --- reading --------------------------------------------------------------------------------------


def _read(
    session: Session,
    topic: str,
    partition: int | None,
    start: Start,
    end: int | None,
    wanted: "Callable[[Received], bool] | None",
    limit: int | None,
    show: "Callable[[Received], None]",
) -> None:
    with session.client() as client:
        found = client.read(
            topic,
            partition=partition,
            offset=start.offset,
            from_time=start.from_time,
            to_time=end,
            limit=None if wanted else limit,
        )
        for message in itertools.islice(filter(wanted, found) if wanted else found, limit):
            show(message)


def _follow(
    session: Session,
    topic: str,
    partition: int | None,
    start: Start,
    wanted: "Callable[[Received], bool] | None",
    limit: int | None,
    show: "Callable[[Received], None]",
) -> None:
    import asyncio
    from contextlib import aclosing

    async def follow() -> None:
        left = limit
        async with session.async_client() as client:
            messages = client.follow(
                topic, partition=partition, offset=start.offset, from_time=start.from_time
            )
            async with aclosing(messages):
                async for message in messages:
                    if wanted is not None and not wanted(message):
                        continue
                    show(message)
                    left = None if left is None else left - 1
                    if left == 0:
                        return

    asyncio.run(follow())
