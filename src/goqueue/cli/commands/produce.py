"""`goqueue produce`: publish messages from arguments, a file or a pipe."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from goqueue.cli.command import command
from goqueue.cli.commands.delay import read_delay
from goqueue.cli.commands.topic import TopicName
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.output import for_people, show_table, show_value
from goqueue.cli.session import Session
from goqueue.model.options import Pairs, TimeMs, option

if TYPE_CHECKING:
    from goqueue.cli.intake import Defaults
    from goqueue.cli.publishing import Tally
    from goqueue.client import Message

app = typer.Typer(add_completion=False)


@command(app)
def produce(
    session: Session,
    topic: TopicName,
    message: Annotated[
        list[str] | None, option("A message. May be repeated.", "-m", metavar="TEXT")
    ] = None,
    key: Annotated[str | None, option("Key of every message.", "-k", metavar="TEXT")] = None,
    header: Annotated[
        Pairs | None, option("Header of every message. May be repeated.", "-H")
    ] = None,
    partition: Annotated[
        int | None, option("Partition to write to. \\[by key, else in turn]", "-p", min=0)
    ] = None,
    timestamp: Annotated[
        TimeMs | None,
        option("Timestamp: RFC 3339, epoch milliseconds, or -1h for an hour ago. \\[now]"),
    ] = None,
    delay: Annotated[
        str | None, option("Deliver every message so much later: 30m, 1.5s, 7d.", metavar="TIME")
    ] = None,
    deliver_at: Annotated[
        str | None,
        option(
            "Deliver every message then: RFC 3339 with an offset, or epoch milliseconds.",
            metavar="TIME",
        ),
    ] = None,
    tombstone: Annotated[
        bool, option("Publish one message without a value, which deletes --key.")
    ] = False,
    file: Annotated[
        Path | None, option("Read one message per line; - is stdin.", "-f", metavar="FILE")
    ] = None,
    form: Annotated[
        str,
        option(
            "Format of the lines: raw, or json as written by `consume`.", "--format", metavar="FORM"
        ),
    ] = "raw",
    key_separator: Annotated[
        str | None, option("Separates key and value in raw lines.", metavar="TEXT")
    ] = None,
    in_flight: Annotated[
        int, option("Concurrent requests. With more than 1, the order may change.", min=1, max=64)
    ] = 1,
) -> None:
    """Publish messages from `-m`, from a file, or from stdin (one per line).

    The exit code is 1 if any message was not published.
    """
    from goqueue.cli.intake import Defaults
    from goqueue.cli.publishing import Tally

    headers = (*(header or {}).items(), *_delay_headers(delay, deliver_at))
    defaults = Defaults(key, headers, partition, timestamp)
    if tombstone and (key is None or message or file):
        raise UsageFailure("--tombstone goes with --key, and with neither --message nor --file")
    given = [None] if tombstone else message
    tally = Tally(keep_results=given is not None)
    try:
        if given is not None:
            _publish(session, topic, _make_messages(given, defaults), tally, in_flight, None)
        else:
            with _open_input(file) as stream:
                found = _read(stream, form, key_separator, defaults)
                _publish(session, topic, found, tally, in_flight, _size(file))
    finally:
        _report(topic, tally)
    if tally.failed:
        raise Failure(_problems(tally))


def _delay_headers(delay: str | None, deliver_at: str | None) -> list[tuple[str, str]]:
    """What the server takes them from."""
    if delay is not None and deliver_at is not None:
        raise UsageFailure("give --delay or --deliver-at, not both")
    if delay is not None:
        return [("gq-delay-ms", str(read_delay(delay)))]
    return [] if deliver_at is None else [("gq-deliver-at", deliver_at)]


def _make_messages(values: Iterable[str | None], defaults: "Defaults") -> "Iterator[Message]":
    from goqueue.client import Message

    for value in values:
        yield Message(value, defaults.key, defaults.headers, defaults.partition, defaults.timestamp)


@contextlib.contextmanager
def _open_input(file: Path | None) -> Iterator[BinaryIO]:
    from goqueue.cli.intake import is_terminal

    if file is not None and str(file) != "-":
        try:
            stream = file.open("rb")
        except OSError as error:
            raise UsageFailure(f"{file} cannot be read: {error.strerror}") from error
        with stream:
            yield stream
        return
    if is_terminal(sys.stdin.buffer):
        typer.secho("a line is a message; ctrl-d ends", err=True, dim=True)
    yield sys.stdin.buffer


def _size(file: Path | None) -> int | None:
    return file.stat().st_size if file is not None and file.is_file() else None


def _read(
    stream: BinaryIO, form: str, key_separator: str | None, defaults: "Defaults"
) -> "Iterator[Message | None]":
    from goqueue.cli.intake import message_maker, messages_of

    return messages_of(stream, message_maker(form, key_separator, defaults))


def _publish(
    session: Session,
    topic: str,
    messages: "Iterable[Message | None]",
    tally: "Tally",
    in_flight: int,
    bytes_in_all: int | None,
) -> None:
    from goqueue.cli.intake import batches
    from goqueue.cli.progress import progress
    from goqueue.cli.publishing import publish_all

    with session.client() as client, progress(tally, bytes_in_all) as on_progress:
        publish_all(
            client, topic, batches(messages), tally, in_flight=in_flight, on_progress=on_progress
        )


def _report(topic: str, tally: "Tally") -> None:
    if not (tally.published or tally.failed or tally.unknown):
        return
    if not for_people():
        show_value(_facts(topic, tally))
        return
    if tally.results:
        rows = [
            (r.partition, r.offset, r.deliver_at or "", r.error.message if r.error else "")
            for r in tally.results
        ]
        show_table(("PARTITION", "OFFSET", "DELIVER AT", "ERROR"), rows)
        return
    rate = tally.published / tally.seconds
    typer.echo(
        f"{tally.published:,} messages published to {topic!r}"
        f" in {tally.seconds:.2f} s ({rate:,.0f}/s)"
    )
    if tally.unknown:
        typer.echo(f"{tally.unknown:,} more were sent, and it is not known what became of them")


def _facts(topic: str, tally: "Tally") -> dict[str, Any]:
    facts: dict[str, Any] = {
        "topic": topic,
        "published": tally.published,
        "failed": tally.failed,
        "unknown": tally.unknown,
        "bytes": tally.bytes,
        "seconds": round(tally.seconds, 3),
    }
    if tally.results is not None:
        facts["results"] = tally.results
    return facts


def _problems(tally: "Tally") -> str:
    first = "\n".join(f"  {each.message}" for each in tally.problems)
    return f"{tally.failed:,} messages were not published\n{first}".rstrip()
