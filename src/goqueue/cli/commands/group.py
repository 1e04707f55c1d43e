"""`goqueue group`: look at consumer groups, move their offsets, delete them."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.command import command, completion
from goqueue.cli.confirming import Force, confirm, refuse_without_terminal
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import (
    Rows,
    for_people,
    rows_of,
    show,
    show_table,
    show_text,
    show_value,
    table,
)
from goqueue.model.options import TimeMs, argument, option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from goqueue.api.groups import GroupDetail, GroupLag, MovedOffset
    from goqueue.client import Client
    from goqueue.client.http.calls.groups import ResetTo
    from goqueue.model.topic_partition import TopicPartition

ID_LENGTH_MAX: Final = 20
MOVE: Final = ("TOPIC", "PARTITION", "BEFORE", "AFTER")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Show consumer groups, reset their offsets, delete them.",
)


GROUP_NAMES = completion(lambda client: [each.id for each in client.groups()])
GroupName = Annotated[str, argument("Name of the group.", metavar="GROUP", complete=GROUP_NAMES)]
Watch = Annotated[bool, option("Refresh until ctrl-c.", "-w")]
Interval = Annotated[float, option("Time between two refreshes.", min=0.1, metavar="SECONDS")]


# --- looking --------------------------------------------------------------------------------------


@command(app, "list")
def list_groups(client: "Client") -> None:
    """List groups with members or offsets."""
    from goqueue.cli.cells import State

    found = client.groups()
    show(
        found,
        ("GROUP", "STATE", "MEMBERS", "GENERATION", "TYPE"),
        rows_of(found, "id", (State, "state"), "members", "generation", "type"),
        drop=("GENERATION", "TYPE"),
        empty="no groups yet: a group is made by its first member or committed offset",
    )


@command(app, "describe")
def describe(
    client: "Client", group: GroupName, watch: Watch = False, interval: Interval = 2.0
) -> None:
    """Show the state, members and lag of a group."""
    _look(lambda: _describe(client, group), watch, interval)


def _look(look: Any, watch: bool, interval: float) -> None:
    from rich.console import Console

    from goqueue.cli import live

    if watch:
        live.watch(look, interval)
    value, view = look()
    if for_people():
        Console().print(view)
    else:
        show_value(value)


def _describe(client: "Client", name: str) -> "tuple[object, RenderableType]":
    from rich.console import Group as Stack
    from rich.text import Text

    found, lag = client.group(name), client.group_lag(name)
    value = {**msgspec.to_builtins(found), "total_lag": lag.total_lag}
    facts = (
        ("group", found.id),
        ("state", found.state),
        ("type", found.type),
        ("assignor", found.assignor or "-"),
        ("generation", found.generation),
        ("topics", ", ".join(found.topics) or "-"),
        ("changed", found.changed_at or "-"),
        ("lag", lag.total_lag),
    )
    head = "\n".join(f"{fact + ':':<12} {what}" for fact, what in facts)
    return value, Stack(Text(head + "\n"), _members_table(found))


@command(app, "members")
def members(client: "Client", group: GroupName) -> None:
    """Show the members of a group and their partitions."""
    found = client.group(group)
    _look(lambda: (found.members, _members_table(found)), watch=False, interval=0)


def _members_table(group: "GroupDetail") -> "RenderableType":
    from goqueue.cli.cells import State

    return table(
        ("MEMBER", "CLIENT", "HOST", "PROTOCOL", "STATE", "PARTITIONS", "TO LET GO"),
        rows_of(
            group.members,
            lambda each: each.instance_id or _shorten(each.id),
            lambda each: each.client_id or None,
            lambda each: each.client_host or None,
            *("protocol", (State, "state"), (_places, "partitions"), (_places, "revoking")),
        ),
        drop=("TO LET GO", "HOST", "PROTOCOL", "CLIENT"),
    )


def _shorten(member_id: str) -> str:
    """Enough to tell members apart; JSON and YAML have all of it."""
    return member_id if len(member_id) <= ID_LENGTH_MAX else f"{member_id[:ID_LENGTH_MAX]}…"


def _places(places: "list[TopicPartition]") -> str:
    """`orders/0,1,2 refunds/0`"""
    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    return " ".join(f"{t}/{','.join(map(str, some))}" for t, some in by_topic.items()) or "-"


@command(app, "lag")
def lag(client: "Client", group: GroupName, watch: Watch = False, interval: Interval = 2.0) -> None:
    """Show the lag of a group in each partition."""
    _look(lambda: _lag(client.group_lag(group)), watch, interval)


def _lag(found: "GroupLag") -> "tuple[object, RenderableType]":
    rows: list[tuple[object, ...]] = [
        (each.topic, each.partition, each.committed, each.end, each.lag, each.client_id or None)
        for each in found.partitions
    ]
    rows.append(("total", "", "", "", found.total_lag, ""))
    return found, table(
        ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT"), rows, drop=("CLIENT",)
    )


@command(app, "offsets")
def offsets(client: "Client", group: GroupName) -> None:
    """Show the committed offsets of a group."""
    from goqueue.cli.cells import Moment

    found = client.group_offsets(group)
    show(
        found,
        ("TOPIC", "PARTITION", "OFFSET", "COMMITTED", "METADATA"),
        rows_of(
            found,
            *("topic", "partition", "offset", (Moment, "committed_at")),
            lambda each: each.metadata or None,
        ),
        drop=("METADATA", "COMMITTED"),
        empty="nothing committed",
    )


# --- changing -------------------------------------------------------------------------------------


class Destination(msgspec.Struct, frozen=True):
    """Where offsets are reset to: one of these."""

    to_earliest: Annotated[bool, option("To the oldest message.")] = False
    to_latest: Annotated[bool, option("To the end: only new messages.")] = False
    to_offset: Annotated[int | None, option("To this offset.", min=0)] = None
    to_time: Annotated[
        TimeMs | None,
        option("To the first message of this time: RFC 3339, epoch milliseconds, or -1h."),
    ] = None
    shift: Annotated[int | None, option("By N messages forward, or back: --shift=-10.")] = None

    def choose(self) -> "tuple[ResetTo, int | None]":
        told: dict[ResetTo, int | None] = {
            "earliest": self.to_earliest or None,
            "latest": self.to_latest or None,
            "offset": self.to_offset,
            "timestamp": self.to_time,
            "shift": self.shift,
        }
        given = [(to, value) for to, value in told.items() if value is not None]
        if len(given) != 1:
            raise UsageFailure(
                "give one of --to-earliest, --to-latest, --to-offset, --to-time and --shift"
            )
        ((to, value),) = given
        return to, None if value is True else value


@command(app, "reset-offsets")
def reset_offsets(
    client: "Client",
    group: GroupName,
    destination: Destination,
    topic: Annotated[
        str | None, option("Only this topic. \\[all topics with offsets]", "-t", metavar="NAME")
    ] = None,
    partition: Annotated[int | None, option("Only this partition. \\[all]", "-p", min=0)] = None,
    dry_run: Annotated[bool, option("Show what would change, and change nothing.")] = False,
    force: Force = False,
) -> None:
    """Reset the offsets of a group.  It must have no active members."""
    to, value = destination.choose()
    if not dry_run and not force:
        refuse_without_terminal("move offsets")

    def reset(*, dry_run: bool) -> "list[MovedOffset]":
        return client.reset_offsets(
            group, to, value=value, topic=topic, partition=partition, dry_run=dry_run
        )

    if dry_run or force:
        _show_moves(reset(dry_run=dry_run))
        return
    show_table(MOVE, _moves(reset(dry_run=True)))
    confirm(f"Move the offsets of {group} as shown?", "move offsets", force=False)
    moved = reset(dry_run=False)
    if not for_people():
        _show_moves(moved)


def _show_moves(moves: "list[MovedOffset]") -> None:
    show(moves, MOVE, _moves(moves))


def _moves(moves: "list[MovedOffset]") -> Rows:
    return rows_of(moves, "topic", "partition", "before", "after")


@command(app, "delete")
def delete(
    client: "Client",
    groups: Annotated[
        list[str], argument("Names of the groups.", metavar="GROUP...", complete=GROUP_NAMES)
    ],
    force: Force = False,
) -> None:
    """Delete groups with their offsets.  They must have no active members."""
    confirm(f"Delete {', '.join(groups)} with all offsets?", "delete", force=force)
    for group in groups:
        client.delete_group(group)
        show_text({"group": group, "deleted": True}, f"group {group!r} deleted")
