"""`goqueue dlq`: look at dead letters, drive them back, throw them away.

TOPIC is the topic that the messages came from, not `TOPIC.dlq`.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.command import command
from goqueue.cli.commands.queue import shorten
from goqueue.cli.commands.topic import TopicName
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import (
    for_people,
    rows_of,
    show,
    show_facts,
    show_table,
    show_text,
    show_value,
)
from goqueue.model.options import TimeMs, argument, option

if TYPE_CHECKING:
    from goqueue.api.dlq import RedriveBody
    from goqueue.client import Client, DeadLetter

CHUNK: Final = 1_000  # messages of one request

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="List, redrive and delete dead letters."
)

Place = Annotated[
    str | None,
    argument("Position of one dead letter, as shown by `list`.", metavar="[PARTITION/OFFSET]"),
]


class DeadLetterFilter(msgspec.Struct, frozen=True):
    """Which dead letters; all when nothing is given."""

    key: Annotated[str | None, option("Only with this key.", metavar="KEY")] = None
    reason: Annotated[
        str | None, option("Only with this reason, such as max_failures.", metavar="WORD")
    ] = None
    group: Annotated[str | None, option("Only of this group.", "-g", metavar="GROUP")] = None
    from_time: Annotated[
        TimeMs | None, option("Dead-lettered at this time or later: -1h, or RFC 3339.", "--since")
    ] = None
    to_time: Annotated[TimeMs | None, option("Dead-lettered before this time.", "--before")] = None
    header: Annotated[str | None, option("Only with this header.", metavar="NAME=VALUE")] = None

    def which(self, place: str | None = None) -> dict[str, Any]:
        told = msgspec.structs.asdict(self)
        given = {name: value for name, value in told.items() if value is not None}
        if place is not None:
            given["partition"], given["offset"] = _place(place)
        return given


# --- looking --------------------------------------------------------------------------------------


@command(app, "list")
def list_dead_letters(
    client: "Client",
    topic: TopicName,
    chosen: DeadLetterFilter,
    limit: Annotated[int, option("Number of dead letters.", "-n", min=1, max=10_000)] = 50,
    places: Annotated[bool, option("Print only PARTITION/OFFSET of each, for scripts.")] = False,
) -> None:
    """List dead letters."""
    from goqueue.cli.cells import Moment

    found = client.dead_letters(topic, chosen.which(), limit=limit, reasons=True)
    if places:
        for each in found.messages:
            typer.echo(f"{each.partition}/{each.offset}")
        return
    if not for_people():
        bodies = [_as_json(each) for each in found.messages]
        shown = {"count": found.count, "reasons": found.reasons}
        show_value(shown | {"letters": bodies})  # rule-ok: a name that scripts read
        return
    show_table(
        ("PLACE", "DIED", "REASON", "ERROR", "ATTEMPTS", "GROUP", "KEY", "VALUE"),
        rows_of(
            found.messages,
            lambda each: f"{each.partition}/{each.offset}",
            (Moment, "died_at"),
            lambda each: each.reason or "-",
            lambda each: shorten(each.error.encode()),
            *("attempts", "group", (shorten, "key"), (shorten, "value")),
        ),
        drop=("KEY", "GROUP", "ATTEMPTS", "DIED"),
        whole=("PLACE",),
        empty="no dead letters",
    )
    reasons = ", ".join(f"{count} {name or 'other'}" for name, count in found.reasons.items())
    typer.echo(f"{found.count} in all" + (f": {reasons}" if reasons else ""), err=True)


@command(app, "show")
def show_dead_letter(
    client: "Client",
    topic: TopicName,
    place: Annotated[str, argument("Position, as shown by `list`.", metavar="PARTITION/OFFSET")],
) -> None:
    """Show one dead letter and its history."""
    from goqueue.cli.cells import Moment

    found = client.dead_letter(topic, *_place(place))
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
        *((f"header {name}", shorten(value)) for name, value in found.headers),
        ("key", shorten(found.key)),
        ("value", (found.value or b"").decode(errors="backslashreplace")),
    ]
    show_facts(_as_json(found), facts)


def _as_json(dead_letter: "DeadLetter") -> dict[str, Any]:
    from goqueue.cli.rendering import as_json

    return {**as_json(dead_letter), **dead_letter.history()}


# --- moving ---------------------------------------------------------------------------------------


@command(app, "redrive")
def redrive(
    client: "Client",
    topic: TopicName,
    chosen: DeadLetterFilter,
    place: Place = None,
    to: Annotated[str | None, option("Move them to this topic instead.", metavar="TOPIC")] = None,
    limit: Annotated[int | None, option("At most N dead letters.", "-n", min=1)] = None,
    rate: Annotated[float | None, option("At most N per second.", min=0.01)] = None,
    dry_run: Annotated[bool, option("Count the dead letters; move none.")] = False,
    background: Annotated[
        bool, option("Run in the server's background; see `dlq redrives`.")
    ] = False,
) -> None:
    """Move dead letters back to their topic, exactly once."""
    which = chosen.which(place)
    if place is not None:
        which["offsets"] = [which.pop("offset")]
    if chosen.header is not None:
        which["header"] = _header(chosen.header)
    if background:
        started = client.start_redrive(topic, which, to=to, limit=limit, rate=rate)
        _show_redrives([started])
        return
    if dry_run:
        moved = client.redrive(topic, which, to=to, limit=limit, dry_run=True).moved
    else:
        moved = _redrive(client, topic, which, to, limit, rate)
    show_text(
        {"topic": topic, "to": to or topic, "moved": moved, "dry_run": dry_run},
        f"{moved} {'would move' if dry_run else 'moved'} to {to or topic!r}",
    )


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


@command(app, "redrives")
def redrives(
    client: "Client",
    topic: TopicName,
    cancel: Annotated[str | None, option("Stop this redrive.", metavar="ID")] = None,
) -> None:
    """Show the progress of background redrives."""
    if cancel is not None:
        _show_redrives([client.cancel_redrive(topic, cancel)])
    else:
        _show_redrives(client.redrives(topic))


def _show_redrives(found: "list[RedriveBody]") -> None:
    from goqueue.cli.cells import Moment, State

    show(
        found,
        ("ID", "TO", "STATE", "MOVED", "STARTED", "ERROR"),
        rows_of(
            found,
            *("id", "to", (State, "state"), "moved", (Moment, "started_at")),
            lambda each: each.error or "-",
        ),
        drop=("STARTED", "TO"),
        whole=("ID",),
        empty="no redrives since the server was started",
    )


@command(app, "purge")
def purge(
    client: "Client",
    topic: TopicName,
    chosen: DeadLetterFilter,
    place: Place = None,
    force: Force = False,
) -> None:
    """Delete dead letters permanently."""
    which = chosen.which(place)
    confirm(f"Delete dead letters of {topic}?", "purge", force=force)
    purged = client.purge_dead_letters(topic, which)
    show_text({"topic": topic, "purged": purged}, f"{purged} dead letters of {topic!r} are gone")


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
