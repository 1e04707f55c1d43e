"""`goqueue group`: look at consumer groups, move their offsets, delete them."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.confirming import Force, confirm, refuse_without_terminal
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.output import show, show_table, show_value, table
from goqueue.cli.session import OutputFormat, Session

if TYPE_CHECKING:
    from rich.console import RenderableType

    from goqueue.api.groups import GroupDetail, GroupLag, MovedOffset
    from goqueue.client import Client
    from goqueue.client.http.calls.groups import ResetTo
    from goqueue.model.topic_partition import TopicPartition

ID_LENGTH_MAX: Final = 20

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Show consumer groups, reset their offsets, delete them.",
)


def _names(context: typer.Context) -> list[str]:
    """For the shell's completion, which says nothing when it cannot ask."""
    from goqueue.client.errors import ClientError

    try:
        with context.ensure_object(Session).client() as client:
            return [each.id for each in client.groups()]
    except (ClientError, Failure):
        return []


GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", help="Name of the group.", autocompletion=_names)
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh until ctrl-c.")]
Interval = Annotated[
    float,
    typer.Option("--interval", min=0.1, metavar="SECONDS", help="Time between two refreshes."),
]


# --- looking --------------------------------------------------------------------------------------


@app.command("list")
def list_groups(context: typer.Context) -> None:
    """List groups with members or offsets."""
    from goqueue.cli.cells import State

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.groups()
    show(
        chosen,
        found,
        ("GROUP", "STATE", "MEMBERS", "GENERATION", "TYPE"),
        [(each.id, State(each.state), each.members, each.generation, each.type) for each in found],
        drop=("GENERATION", "TYPE"),
        empty="no groups yet: a group is made by its first member or committed offset",
    )


@app.command("describe")
def describe(
    context: typer.Context, group: GroupName, watch: Watch = False, interval: Interval = 2.0
) -> None:
    """Show the state, members and lag of a group."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        _look(chosen, lambda: _described(client, group), watch, interval)


def _look(chosen: OutputFormat, look: Any, watch: bool, interval: float) -> None:
    from rich.console import Console

    from goqueue.cli import live

    if watch:
        live.watch(chosen, look, interval)
    value, view = look()
    if chosen == "table":
        Console().print(view)
    else:
        show_value(chosen, value)


def _described(client: "Client", name: str) -> "tuple[object, RenderableType]":
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


@app.command("members")
def members(context: typer.Context, group: GroupName) -> None:
    """Show the members of a group and their partitions."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.group(group)
    if chosen == "table":
        from rich.console import Console

        Console().print(_members_table(found))
    else:
        show_value(chosen, found.members)


def _members_table(group: "GroupDetail") -> "RenderableType":
    from goqueue.cli.cells import State

    return table(
        ("MEMBER", "CLIENT", "HOST", "PROTOCOL", "STATE", "PARTITIONS", "TO LET GO"),
        [
            (
                each.instance_id or _shortened(each.id),
                each.client_id or None,
                each.client_host or None,
                each.protocol,
                State(each.state),
                _places(each.partitions),
                _places(each.revoking),
            )
            for each in group.members
        ],
        drop=("TO LET GO", "HOST", "PROTOCOL", "CLIENT"),
    )


def _shortened(member_id: str) -> str:
    """Enough to tell members apart; JSON and YAML have all of it."""
    return member_id if len(member_id) <= ID_LENGTH_MAX else f"{member_id[:ID_LENGTH_MAX]}…"


def _places(places: "list[TopicPartition]") -> str:
    """`orders/0,1,2 refunds/0`"""
    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    return " ".join(f"{t}/{','.join(map(str, some))}" for t, some in by_topic.items()) or "-"


@app.command("lag")
def lag(
    context: typer.Context, group: GroupName, watch: Watch = False, interval: Interval = 2.0
) -> None:
    """Show the lag of a group in each partition."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        _look(chosen, lambda: _lag(client.group_lag(group)), watch, interval)


def _lag(found: "GroupLag") -> "tuple[object, RenderableType]":
    rows: list[tuple[object, ...]] = [
        (each.topic, each.partition, each.committed, each.end, each.lag, each.client_id or None)
        for each in found.partitions
    ]
    rows.append(("total", "", "", "", found.total_lag, ""))
    return found, table(
        ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT"), rows, drop=("CLIENT",)
    )


@app.command("offsets")
def offsets(context: typer.Context, group: GroupName) -> None:
    """Show the committed offsets of a group."""
    from goqueue.cli.cells import Moment

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.group_offsets(group)
    show(
        chosen,
        found,
        ("TOPIC", "PARTITION", "OFFSET", "COMMITTED", "METADATA"),
        [
            (
                each.topic,
                each.partition,
                each.offset,
                Moment(each.committed_at),
                each.metadata or None,
            )
            for each in found
        ],
        drop=("METADATA", "COMMITTED"),
        empty="nothing committed",
    )


# --- changing -------------------------------------------------------------------------------------


@app.command("reset-offsets")
def reset_offsets(
    context: typer.Context,
    group: GroupName,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", metavar="NAME", help="\\[all topics with offsets]"),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="\\[all]")
    ] = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the oldest message.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Start at the end: only new messages.")
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, metavar="N", help="To this offset.")
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="To the first message of this time: RFC 3339, epoch milliseconds, or -1h.",
        ),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option("--shift", metavar="N", help="By N messages forward, or back: --shift=-10."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    force: Force = False,
) -> None:
    """Reset the offsets of a group.  It must have no active members."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    to, value = _destination(to_earliest, to_latest, to_offset, to_time, shift)
    if not dry_run and not force:
        refuse_without_terminal("move offsets")
    with session.client() as client:

        def reset(*, dry_run: bool) -> "list[MovedOffset]":
            return client.reset_offsets(
                group, to, value=value, topic=topic, partition=partition, dry_run=dry_run
            )

        if dry_run or force:
            _show_moves(chosen, reset(dry_run=dry_run))
            return
        _show_moves("table", reset(dry_run=True))
        confirm(f"Move the offsets of {group} as shown?", "move offsets", force=False)
        moved = reset(dry_run=False)
    if chosen != "table":
        _show_moves(chosen, moved)


def _destination(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: str | None,
    shift: int | None,
) -> "tuple[ResetTo, int | None]":
    from goqueue.cli.moments import milliseconds

    given = (to_earliest, to_latest, to_offset is not None, to_time is not None, shift is not None)
    if sum(given) != 1:
        raise UsageFailure(
            "give one of --to-earliest, --to-latest, --to-offset, --to-time and --shift"
        )
    if to_offset is not None:
        return "offset", to_offset
    if to_time is not None:
        return "timestamp", milliseconds(to_time, time.time_ns() // 1_000_000)
    if shift is not None:
        return "shift", shift
    return ("earliest" if to_earliest else "latest"), None


def _show_moves(chosen: OutputFormat, moves: "list[MovedOffset]") -> None:
    if chosen != "table":
        show_value(chosen, moves)
        return
    rows = [(each.topic, each.partition, each.before, each.after) for each in moves]
    show_table(("TOPIC", "PARTITION", "BEFORE", "AFTER"), rows)


@app.command("delete")
def delete(
    context: typer.Context,
    groups: Annotated[
        list[str], typer.Argument(metavar="GROUP...", help="Names.", autocompletion=_names)
    ],
    force: Force = False,
) -> None:
    """Delete groups with their offsets.  They must have no active members."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    confirm(f"Delete {', '.join(groups)} with all offsets?", "delete", force=force)
    with session.client() as client:
        for group in groups:
            client.delete_group(group)
            if chosen == "table":
                typer.echo(f"group {group!r} deleted")
            else:
                show_value(chosen, {"group": group, "deleted": True})
