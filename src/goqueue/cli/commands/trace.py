"""`goqueue trace`: where did my message go?"""

import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer
from typer.core import TyperGroup

from goqueue.cli.command import command
from goqueue.cli.failures import UsageFailure
from goqueue.cli.live import watch
from goqueue.cli.moments import duration_ms, milliseconds
from goqueue.cli.output import for_people, line, rows_of, show, show_facts, show_value
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.api.traces import TraceBody, TracePage
    from goqueue.client import Client

FOLLOW_SECONDS: Final = 1.0
PLACE: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})/(\d{1,9})/(\d{1,18})")
TRACE_ID: Final = re.compile(r"[0-9a-fA-F]{32}")
COLUMNS: Final = ("TOPIC", "PARTITION", "OFFSET", "STATUS", "STARTED", "MS", "STEPS", "LAST STEP")


class PlacesAsCommands(TyperGroup):
    """`goqueue trace orders/2/45678` is `goqueue trace show orders/2/45678`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and ("/" in args[0] or TRACE_ID.match(args[0])):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=PlacesAsCommands,
    add_completion=False,
    no_args_is_help=True,
    help="Show every step that messages took: `goqueue trace orders/2/45678`.",
)

Limit = Annotated[int, option("Most journeys to list.", "-n", min=1, max=1_000)]
Follow = Annotated[bool, option("Go on, and show what is new, until ctrl-c.", "-f")]


@command(app, "show")
def show_journey(
    client: "Client",
    what: Annotated[str, argument("TOPIC/PARTITION/OFFSET, or a trace id.", metavar="MESSAGE")],
    follow: Follow = False,
) -> None:
    """Show the journey of a message: who had it when, and what became of it."""
    look = _finder(client, what)
    if follow:
        _follow_one(look)
        return
    _show_one(look())


def _finder(client: "Client", what: str) -> "Callable[[], TraceBody]":
    place = PLACE.fullmatch(what)
    if place is not None:
        topic, partition, offset = place[1], int(place[2]), int(place[3])
        return lambda: client.journey(topic, partition, offset)
    if TRACE_ID.fullmatch(what):
        return lambda: client.trace(what)
    raise UsageFailure(
        f"{what!r}: name a message as TOPIC/PARTITION/OFFSET, as in orders/2/45678, or by its"
        " trace id of 32 hexadecimal digits"
    )


def _show_one(found: "TraceBody") -> None:
    if not for_people():
        show_value(found)
        return
    from rich.console import Console

    from goqueue.cli.timelines import draw

    Console(highlight=False, soft_wrap=False).print(draw(found))
    _tell_missing(found.missing_nodes)


def _follow_one(look: "Callable[[], TraceBody]") -> None:
    from goqueue.cli.timelines import draw

    if for_people():
        watch(lambda: ((found := look()), draw(found)), FOLLOW_SECONDS)
    told = 0
    while True:  # a line for each step
        found = look()
        for span in found.spans[told:]:
            sys.stdout.write(line(span))
        told = max(told, len(found.spans))
        sys.stdout.flush()
        time.sleep(FOLLOW_SECONDS)


@command(app, "recent")
def recent(client: "Client", limit: Limit = 20, follow: Follow = False) -> None:
    """List the journeys of the newest messages."""
    if follow:
        _follow_many(lambda: client.recent_traces(limit=limit))
        return
    _show_page(client.recent_traces(limit=limit))


class Wanted(msgspec.Struct, frozen=True):
    """What a search is for."""

    topic: Annotated[str | None, option("Only of this topic.")] = None
    partition: Annotated[int | None, option("Only of this partition.", "-p", min=0)] = None
    group: Annotated[str | None, option("Only what this group has seen.", "-g")] = None
    consumer: Annotated[str | None, option("Only what this worker or client id has seen.")] = None
    key: Annotated[str | None, option("Only with this key; needs --topic.", "-k")] = None
    start: Annotated[
        str | None, option("From this time on: RFC 3339, or -1h.", "--from", metavar="TIME")
    ] = None
    end: Annotated[str | None, option("Up to this time.", "--to", metavar="TIME")] = None
    status: Annotated[
        Literal["completed", "pending", "error", "retrying", "delayed", "expired"] | None,
        option("Only with this status."),
    ] = None
    min_duration: Annotated[
        str | None, option("Only those that took so long or longer: 500ms, 2s.", metavar="TIME")
    ] = None


@command(app, "search")
def search(client: "Client", wanted: Wanted, limit: Limit = 20, follow: Follow = False) -> None:
    """List the newest journeys that match all that is given."""

    def look() -> "TracePage":
        return client.search_traces(
            topic=wanted.topic,
            partition=wanted.partition,
            consumer_group=wanted.group,
            consumer=wanted.consumer,
            key=wanted.key,
            start=None if wanted.start is None else milliseconds(wanted.start),
            end=None if wanted.end is None else milliseconds(wanted.end),
            status=wanted.status,
            min_duration=_min_duration(wanted.min_duration),
            limit=limit,
        )

    if follow:
        _follow_many(look)
        return
    _show_page(look())


def _min_duration(text: str | None) -> str | None:
    return None if text is None else f"{duration_ms(text, '--min-duration')}ms"


def _show_page(page: "TracePage") -> None:
    show(
        page,
        COLUMNS,
        _rows(page),
        drop=("STEPS", "STARTED"),
        empty="no journeys",
    )
    _tell_missing(page.missing_nodes)


def _rows(page: "TracePage") -> Any:
    return rows_of(
        page.traces,
        "topic",
        "partition",
        "offset",
        "status",
        "start_time",
        "duration_ms",
        "span_count",
        "last_event",
    )


def _follow_many(look: "Callable[[], TracePage]") -> None:
    """Each journey when it is new, and again when it has another step."""
    told = dict[str, int]()
    while True:
        for each in reversed(look().traces):
            if told.get(each.trace_id) != each.span_count:
                told[each.trace_id] = each.span_count
                text = f"{each.topic}/{each.partition}/{each.offset}"
                if for_people():
                    typer.echo(f"{each.end_time}  {text:<30} {each.status:<10} {each.last_event}")
                else:
                    sys.stdout.write(line(each))
        sys.stdout.flush()
        time.sleep(FOLLOW_SECONDS)


@command(app, "stats")
def stats(client: "Client") -> None:
    """Count the events that each node has recorded."""
    found = client.trace_stats()
    if len(found.nodes) == 1:
        node = found.nodes[0]
        show_facts(
            found,
            [
                ("enabled", "yes" if node.enabled else "no"),
                ("sampling rate", node.sampling_rate),
                ("events in memory", f"{node.spans_in_buffer} of {node.buffer_capacity}"),
                ("recorded", node.recorded_total),
                ("written to __traces", node.written_total),
                ("bytes written", node.written_bytes),
                ("dropped", node.dropped_total),
                ("exporters", ", ".join(node.exporters_enabled) or "none"),
            ],
        )
        return
    show(
        found,
        ("NODE", "ENABLED", "IN MEMORY", "RECORDED", "WRITTEN", "BYTES", "DROPPED"),
        rows_of(
            found.nodes,
            "node",
            "enabled",
            "spans_in_buffer",
            "recorded_total",
            "written_total",
            "written_bytes",
            "dropped_total",
        ),
    )
    _tell_missing(found.missing_nodes)


def _tell_missing(nodes: list[int]) -> None:
    if nodes:
        names = ", ".join(map(str, nodes))
        typer.echo(f"nodes that did not answer: {names}; what only they saw is missing", err=True)
