"""`goqueue dlq`: look at dead letters, drive them back, throw them away.

TOPIC is the topic that the messages came from, not `TOPIC.dlq`.
"""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.commands.queue import shortened
from goqueue.cli.commands.topic import TopicName
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import show_facts, show_table, show_value
from goqueue.cli.session import OutputFormat, Session

if TYPE_CHECKING:
    from goqueue.api.dlq import RedriveBody
    from goqueue.client import Client
    from goqueue.client.http.queue_results import DeadLetter

CHUNK: Final = 1_000  # messages of one request

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List, redrive and delete dead letters.",
)

Place = Annotated[
    str | None,
    typer.Argument(
        metavar="[PARTITION/OFFSET]", help="Position of one dead letter, as shown by `list`."
    ),
]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only with this key.")]
Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="WORD", help="Only with this reason, such as max_failures."),
]
Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="Only of this group.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Dead-lettered at this time or later: -1h, or RFC 3339."
    ),
]
Header = Annotated[
    str | None, typer.Option("--header", metavar="NAME=VALUE", help="Only with this header.")
]
Before = Annotated[
    str | None, typer.Option("--before", metavar="TIME", help="Dead-lettered before this time.")
]


# --- looking --------------------------------------------------------------------------------------


@app.command("list")
def list_letters(
    context: typer.Context,
    topic: TopicName,
    key: Key = None,
    reason: Reason = None,
    group: Group = None,
    since: Since = None,
    before: Before = None,
    header: Header = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", min=1, max=10_000, metavar="N", help="Number of dead letters."
        ),
    ] = 50,
    places: Annotated[
        bool, typer.Option("--places", help="Print only PARTITION/OFFSET of each, for scripts.")
    ] = False,
) -> None:
    """List dead letters."""
    from goqueue.cli.cells import Moment

    session = context.ensure_object(Session)
    chosen = session.output_format()
    which = _which(None, key, reason, group, since, before, header)
    with session.client() as client:
        found = client.dead_letters(topic, which, limit=limit, reasons=True)
    if places:
        for each in found.letters:
            typer.echo(f"{each.partition}/{each.offset}")
        return
    if chosen != "table":
        letters = [_as_json(each) for each in found.letters]
        show_value(chosen, {"count": found.count, "reasons": found.reasons, "letters": letters})
        return
    show_table(
        ("PLACE", "DIED", "REASON", "ERROR", "ATTEMPTS", "GROUP", "KEY", "VALUE"),
        [
            (
                f"{each.partition}/{each.offset}",
                Moment(each.died_at),
                each.reason or "-",
                shortened(each.error.encode()),
                each.attempts,
                each.group,
                shortened(each.key),
                shortened(each.value),
            )
            for each in found.letters
        ],
        drop=("KEY", "GROUP", "ATTEMPTS", "DIED"),
        whole=("PLACE",),
        empty="no dead letters",
    )
    reasons = ", ".join(f"{count} {name or 'other'}" for name, count in found.reasons.items())
    typer.echo(f"{found.count} in all" + (f": {reasons}" if reasons else ""), err=True)


@app.command("show")
def show_letter(
    context: typer.Context,
    topic: TopicName,
    place: Annotated[
        str, typer.Argument(metavar="PARTITION/OFFSET", help="Position, as shown by `list`.")
    ],
) -> None:
    """Show one dead letter and its history."""
    from goqueue.cli.cells import Moment

    session = context.ensure_object(Session)
    chosen = session.output_format()
    partition, offset = _place(place)
    with session.client() as client:
        found = client.dead_letter(topic, partition, offset)
    facts: list[tuple[str, object]] = [
        ("topic", found.topic),
        ("place", f"{found.partition}/{found.offset}"),
        ("was at", found.source_offset),
        ("reason", found.reason or "-"),
        ("error", found.error or "-"),
        ("attempts", found.attempts),
        ("failures", found.failures),
        ("timeouts", found.timeouts),
        ("group", found.group or "-"),
        ("consumer", found.consumer or "-"),
        ("first delivery", Moment(found.first_delivery)),
        ("last delivery", Moment(found.last_delivery)),
        ("died", Moment(found.died_at)),
        *((f"header {name}", shortened(value)) for name, value in found.headers),
        ("key", shortened(found.key)),
        ("value", (found.value or b"").decode(errors="backslashreplace")),
    ]
    show_facts(chosen, _as_json(found), facts)


def _as_json(letter: "DeadLetter") -> dict[str, Any]:
    from goqueue.cli.rendering import as_json
    from goqueue.client.http.queue_results import STORY

    story = {name: getattr(letter, name) for name in STORY}
    return {**as_json(letter), **story}


# --- moving ---------------------------------------------------------------------------------------


@app.command("redrive")
def redrive(
    context: typer.Context,
    topic: TopicName,
    place: Place = None,
    key: Key = None,
    reason: Reason = None,
    group: Group = None,
    since: Since = None,
    before: Before = None,
    header: Header = None,
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
        bool, typer.Option("--dry-run", help="Count the dead letters; move none.")
    ] = False,
    background: Annotated[
        bool,
        typer.Option("--background", help="Run in the server's background; see `dlq redrives`."),
    ] = False,
) -> None:
    """Move dead letters back to their topic, exactly once."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    which = _which(place, key, reason, group, since, before, header)
    if header is not None:
        which["header"] = _header(header)
    with session.client() as client:
        if background:
            started = client.start_redrive(topic, which, to=to, limit=limit, rate=rate)
            _show_redrives(chosen, [started])
            return
        if dry_run:
            moved = client.redrive(topic, which, to=to, limit=limit, dry_run=True).moved
        else:
            moved = _redrive(client, topic, which, to, limit, rate)
    if chosen == "table":
        verb = "would move" if dry_run else "moved"
        typer.echo(f"{moved} {verb} to {to or topic!r}")
    else:
        value = {"topic": topic, "to": to or topic, "moved": moved, "dry_run": dry_run}
        show_value(chosen, value)


def _redrive(
    client: "Client",
    topic: str,
    which: dict[str, Any],
    to: str | None,
    limit: int | None,
    rate: float | None,
) -> int:
    """In small requests, for the bar; no more than there were, for they may die again meanwhile."""
    from goqueue.cli.progress import counting

    there = client.dead_letters(topic, {}, limit=1).count
    left = there if limit is None else min(limit, there)
    chunk = CHUNK if rate is None else max(1, min(CHUNK, int(rate)))
    moved = 0
    with counting(left) as count:
        while left > 0:
            done = client.redrive(topic, which, to=to, limit=min(chunk, left), rate=rate).moved
            if not done:
                break
            moved, left = moved + done, left - done
            count(moved)
    return moved


@app.command("redrives")
def redrives(
    context: typer.Context,
    topic: TopicName,
    cancel: Annotated[
        str | None, typer.Option("--cancel", metavar="ID", help="Stop this redrive.")
    ] = None,
) -> None:
    """Show the progress of background redrives."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        if cancel is not None:
            _show_redrives(chosen, [client.cancel_redrive(topic, cancel)])
        else:
            _show_redrives(chosen, client.redrives(topic))


def _show_redrives(chosen: OutputFormat, found: "list[RedriveBody]") -> None:
    from goqueue.cli.cells import Moment, State

    if chosen != "table":
        show_value(chosen, msgspec.to_builtins(found))
        return
    show_table(
        ("ID", "TO", "STATE", "MOVED", "STARTED", "ERROR"),
        [
            (
                each.id,
                each.to,
                State(each.state),
                each.moved,
                Moment(each.started_at),
                each.error or "-",
            )
            for each in found
        ],
        drop=("STARTED", "TO"),
        whole=("ID",),
        empty="no redrives since the server was started",
    )


@app.command("purge")
def purge(
    context: typer.Context,
    topic: TopicName,
    place: Place = None,
    key: Key = None,
    reason: Reason = None,
    group: Group = None,
    since: Since = None,
    before: Before = None,
    header: Header = None,
    force: Force = False,
) -> None:
    """Delete dead letters permanently."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    which = _which(place, key, reason, group, since, before, header)
    if "offsets" in which:
        (which["offset"],) = which.pop("offsets")
    confirm(f"Delete dead letters of {topic}?", "purge", force=force)
    with session.client() as client:
        purged = client.purge_dead_letters(topic, which)
    if chosen == "table":
        typer.echo(f"{purged} dead letters of {topic!r} are gone")
    else:
        show_value(chosen, {"topic": topic, "purged": purged})


def _which(
    place: str | None,
    key: str | None,
    reason: str | None,
    group: str | None,
    since: str | None,
    before: str | None,
    header: str | None,
) -> dict[str, Any]:
    from goqueue.cli.moments import milliseconds

    now_ms = time.time_ns() // 1_000_000
    given: dict[str, Any] = {
        "key": key,
        "reason": reason,
        "group": group,
        "from_time": None if since is None else milliseconds(since, now_ms),
        "to_time": None if before is None else milliseconds(before, now_ms),
        "header": header,
    }
    if place is not None:
        partition, offset = _place(place)
        given.update(partition=partition, offsets=[offset])
    return {name: value for name, value in given.items() if value is not None}


def _header(text: str) -> dict[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise UsageFailure(f"--header {text}: write NAME=VALUE")
    return {"name": name, "value": value}


def _place(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition("/")
    try:
        return msgspec.convert((int(partition), int(offset)), tuple[int, int])
    except ValueError:
        raise UsageFailure(f"{text}: write PARTITION/OFFSET, as `list` shows it") from None
