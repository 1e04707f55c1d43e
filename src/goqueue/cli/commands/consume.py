"""`goqueue consume`: read messages, up to the end or as they come."""

import itertools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from goqueue.cli.command import command
from goqueue.cli.commands.topic import TopicName
from goqueue.cli.failures import UsageFailure
from goqueue.cli.session import Session
from goqueue.model.options import Pairs, TimeMs, option

if TYPE_CHECKING:
    from goqueue.client import Received

app = typer.Typer(add_completion=False)


class Start(msgspec.Struct, frozen=True):
    """Where to begin: one of these, or with the oldest message."""

    partition: Annotated[int | None, option("Only this partition. \\[all]", "-p", min=0)] = None
    given_offset: Annotated[
        str | None,
        option(
            "Start offset (with --partition); -N counts back from the end.", "--offset", metavar="N"
        ),
    ] = None
    from_beginning: Annotated[bool, option("Start with the oldest message. \\[default]")] = False
    from_latest: Annotated[bool, option("Start at the end: only new messages.")] = False
    from_time: Annotated[
        TimeMs | None, option("Start time: RFC 3339, epoch milliseconds, or -1h for an hour ago.")
    ] = None

    def check(self) -> None:
        chosen = (self.given_offset is not None, self.from_beginning, self.from_latest)
        if sum((*chosen, self.from_time is not None)) > 1:
            raise UsageFailure(
                "give one of --offset, --from-beginning, --from-latest and --from-time"
            )

    @property
    def offset(self) -> "int | Literal['earliest', 'latest'] | None":
        match self.given_offset:
            case None if self.from_time is not None:
                return None
            case None:
                return "latest" if self.from_latest else "earliest"
            case "earliest" | "latest" as word:
                return word
            case text if text.removeprefix("-").isdecimal():
                number = int(text)
            case text:
                raise UsageFailure(f"--offset {text}: write a number, -N, earliest or latest")
        if number >= 0 and self.partition is None:
            raise UsageFailure("an offset is a partition's own: add --partition")
        return number


class Wanted(msgspec.Struct, frozen=True):
    """Which messages to show."""

    key: Annotated[str | None, option("Only messages with this key.", metavar="TEXT")] = None
    header: Annotated[Pairs, option("Only messages with this header. May be repeated.")] = {}

    def filter(self) -> "Callable[[Received], bool] | None":
        if self.key is None and not self.header:
            return None
        key = None if self.key is None else self.key.encode()
        headers = {(name, value.encode()) for name, value in self.header.items()}
        return lambda message: (
            (key is None or message.key == key) and headers.issubset(message.headers)
        )


@command(app)
def consume(
    session: Session,
    topic: TopicName,
    start: Start,
    wanted: Wanted,
    to_time: Annotated[TimeMs | None, option("Stop before the first message of this time.")] = None,
    limit: Annotated[int | None, option("Stop after N messages.", "-n", min=1)] = None,
    follow: Annotated[bool, option("Wait for new messages at the end.", "-f")] = False,
    form: Annotated[
        str | None,
        option(
            "raw, json, or a template: '{partition}:{offset} {key} {value}\\n'. \\[raw]",
            "--format",
            metavar="FORM",
        ),
    ] = None,
    group: Annotated[
        str | None,
        option(
            "Read as a member of this consumer group and commit the offsets.", "-g", metavar="NAME"
        ),
    ] = None,
) -> None:
    """Read messages.  Messages from several partitions are merged by timestamp.

    Fields of templates: topic, partition, offset, timestamp, timestamp_ms, key, value and headers.
    `--output table`, `json` or `yaml` are other ways to show messages.
    """
    if follow and to_time is not None:
        raise UsageFailure("--follow has no end: leave out --to-time")
    start.check()
    show = _shower(form or session.chosen_output() or "raw", flush=follow)
    if group is not None:
        if to_time is not None or start != Start(from_latest=start.from_latest):
            raise UsageFailure("a group knows where it is: --group takes only --from-latest")
        from goqueue.cli.group_consuming import consume_as_member

        consume_as_member(
            session,
            group,
            topic,
            wanted.filter(),
            limit,
            show,
            from_latest=start.from_latest,
            follow=follow,
        )
    elif follow:
        _follow(session, topic, start, wanted.filter(), limit, show)
    else:
        _read(session, topic, start, to_time, wanted.filter(), limit, show)


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
    start: Start,
    end: int | None,
    wanted: "Callable[[Received], bool] | None",
    limit: int | None,
    show: "Callable[[Received], None]",
) -> None:
    with session.client() as client:
        found = client.read(
            topic,
            partition=start.partition,
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
                topic, partition=start.partition, offset=start.offset, from_time=start.from_time
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
