"""`goqueue queue`: work topics off message by message, and see who holds what."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.commands.topic import TopicName
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.moments import duration_ms
from goqueue.cli.output import show, show_facts, show_value
from goqueue.cli.pairs import pairs
from goqueue.cli.session import OutputFormat, Session

if TYPE_CHECKING:
    from goqueue.client.http.queue_results import Delivery, Settled, Waiting

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Receive and acknowledge messages one by one; show messages in flight.",
)

VALUE_SHOWN_MAX: Final = 60

GroupOption = Annotated[str, typer.Option("--group", "-g", metavar="GROUP", help="Consumer group.")]
ConsumerOption = Annotated[
    str | None, typer.Option("--consumer", metavar="NAME", help="Consumer name. \\[user@host]")
]
Receipts = Annotated[
    list[str],
    typer.Argument(metavar="RECEIPT...", help="Receipts from `receive`; - reads them from stdin."),
]
Visibility = Annotated[
    str | None,
    typer.Option("--visibility", metavar="TIME", help="Visibility time-out: 30s, 5m."),
]
Delay = Annotated[
    str | None, typer.Option("--delay", metavar="TIME", help="Redeliver after this delay: 5s.")
]


# --- working --------------------------------------------------------------------------------------


@app.command("receive")
def receive(
    context: typer.Context,
    topic: TopicName,
    group: GroupOption,
    count: Annotated[
        int,
        typer.Option("--count", "-n", min=1, max=10_000, metavar="N", help="Number of messages."),
    ] = 1,
    wait: Annotated[
        str, typer.Option(metavar="TIME", help="Time to wait for a message: 10s.")
    ] = "0",
    visibility: Visibility = None,
    consumer: ConsumerOption = None,
    ack: Annotated[
        bool, typer.Option("--ack", help="Acknowledge the messages after they are shown.")
    ] = False,
    receipts: Annotated[
        bool, typer.Option("--receipts", help="Print only the receipts, one per line, for scripts.")
    ] = False,
) -> None:
    """Receive messages.  Ack, nack or reject them by their receipts."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.receive(
            topic,
            group,
            consumer=consumer or consumer_name(),
            max_messages=count,
            wait_ms=duration_ms(wait, "--wait"),
            visibility_ms=_optional_ms(visibility, "--visibility"),
        )
        if receipts:
            for each in found:
                typer.echo(each.receipt)
        else:
            _show_received(chosen, found)
        if ack and found:
            sys.stdout.flush()
            client.ack(*found)


def _show_received(chosen: OutputFormat, found: "list[Delivery]") -> None:
    show(
        chosen,
        [_delivery(each) for each in found],
        ("PARTITION", "OFFSET", "ATTEMPT", "PRIORITY", "KEY", "VALUE", "RECEIPT"),
        [(*_row(each, each.attempt), each.receipt) for each in found],
        drop=("PRIORITY", "ATTEMPT", "PARTITION", "OFFSET", "KEY"),
        whole=("RECEIPT",),
        empty="nothing to receive",
    )


def consumer_name() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"[:249]


def _optional_ms(text: str | None, flag: str) -> int | None:
    return None if text is None else duration_ms(text, flag)


def _delivery(delivery: "Delivery") -> dict[str, Any]:
    from goqueue.cli.moments import as_text
    from goqueue.cli.rendering import as_json

    return {
        **as_json(delivery),
        "priority": delivery.priority,
        "attempt": delivery.attempt,
        "failures": delivery.failures,
        "timeouts": delivery.timeouts,
        "receipt_handle": delivery.receipt,
        "visible_until": as_text(delivery.visible_until),
    }


def _row(message: "Delivery | Waiting", attempts: int) -> tuple[object, ...]:
    return (
        message.partition,
        message.offset,
        attempts,
        message.priority,
        shortened(message.key),
        shortened(message.value),
    )


def shortened(data: bytes | None) -> str:
    """On one line of a table; control characters are shown, not obeyed."""
    if data is None:
        return "-"
    text = data[: 4 * VALUE_SHOWN_MAX].decode(errors="backslashreplace")
    plain = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return plain if len(plain) <= VALUE_SHOWN_MAX else plain[: VALUE_SHOWN_MAX - 1] + "…"


@app.command("ack")
def ack(context: typer.Context, receipts: Receipts) -> None:
    """Acknowledge messages: they are not delivered to the group again."""
    _settle(context, "ack", receipts)


@app.command("nack")
def nack(
    context: typer.Context,
    receipts: Receipts,
    delay: Delay = None,
    reason: Annotated[str, typer.Option(help="Reason, kept in the history of the message.")] = "",
) -> None:
    """Report messages as failed: they are redelivered, or become dead letters."""
    _settle(context, "nack", receipts, delay_ms=_optional_ms(delay, "--delay"), reason=reason)


@app.command("reject")
def reject(
    context: typer.Context,
    receipts: Receipts,
    reason: Annotated[str, typer.Option(help="Why they can never be processed.")],
) -> None:
    """Dead-letter messages immediately."""
    _settle(context, "reject", receipts, reason=reason)


@app.command("extend")
def extend(
    context: typer.Context,
    receipts: Receipts,
    longer: Annotated[
        str, typer.Option("--for", metavar="TIME", help="Visibility time-out from now: 5m.")
    ],
) -> None:
    """Extend the visibility time-out."""
    _settle(context, "extend", receipts, visibility_ms=duration_ms(longer, "--for"))


@app.command("release")
def release(context: typer.Context, receipts: Receipts, delay: Delay = None) -> None:
    """Return messages to the queue without counting a failed attempt."""
    _settle(context, "release", receipts, delay_ms=duration_ms(delay or "0", "--delay"))


def _settle(context: typer.Context, verb: str, receipts: list[str], **more: Any) -> None:
    session = context.ensure_object(Session)
    chosen = session.output_format()
    if receipts == ["-"]:
        receipts = sys.stdin.read().split()
    if not receipts:
        raise UsageFailure("no receipts were given")
    with session.client() as client:
        results: list[Settled] = getattr(client, verb)(*receipts, **more)
    show(
        chosen,
        results,
        ("TOPIC", "PARTITION", "OFFSET", "ATTEMPT", "OUTCOME", "REDELIVERED"),
        [_outcome(each) for each in results],
        drop=("ATTEMPT",),
    )
    refused = sum(each.error is not None for each in results)
    if refused:
        raise Failure(f"{refused} of {len(results)} receipts were refused")


def _outcome(settled: "Settled") -> tuple[object, ...]:
    from goqueue.cli.cells import Moment, State

    if settled.error is not None:
        return ("-", "-", "-", "-", settled.error.message, "-")
    return (
        settled.topic,
        settled.partition,
        settled.offset,
        settled.attempt,
        State(settled.action),
        Moment(settled.next_visible_at),
    )


@app.command("work", context_settings={"ignore_unknown_options": True})
def work(
    context: typer.Context,
    topic: TopicName,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...", help="Command to run for each message; the value is its stdin."
        ),
    ],
    group: GroupOption,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", "-w", min=1, max=1000, metavar="N", help="Number of parallel workers."
        ),
    ] = 1,
    visibility: Visibility = None,
    consumer: ConsumerOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="Stop after N messages.")
    ] = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Stop when no message is left.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the output of the command.")
    ] = (False),
) -> None:
    """Run a command for each message: ack when it ends with 0, nack otherwise.

    A single argument is run by the shell.  The environment has GOQUEUE_TOPIC, _PARTITION, _OFFSET,
    _KEY, _ATTEMPT, _PRIORITY and GOQUEUE_HEADER_name of the message.  While the command runs, the
    visibility time-out is extended.  Ctrl-c waits for running commands and releases the other
    messages.
    """
    import asyncio

    from goqueue.cli.working import Worker

    session = context.ensure_object(Session)
    worker = Worker(
        topic,
        group,
        consumer or consumer_name(),
        command,
        workers=workers,
        visibility_ms=_optional_ms(visibility, "--visibility"),
        limit=limit,
        until_empty=until_empty,
        tell=(lambda _: None) if quiet else (lambda text: typer.echo(text, err=True)),
    )
    asyncio.run(worker.run(session.async_client))
    if not quiet:
        typer.echo(f"{worker.acked} done, {worker.failed} failed", err=True)


# --- looking --------------------------------------------------------------------------------------


@app.command("peek")
def peek(
    context: typer.Context,
    topic: TopicName,
    group: GroupOption,
    count: Annotated[
        int,
        typer.Option("--count", "-n", min=1, max=1_000, metavar="N", help="Number of messages."),
    ] = 10,
) -> None:
    """Show the next messages without receiving them."""
    from goqueue.cli.rendering import as_json

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.peek(topic, group, count)
    show(
        chosen,
        [{**as_json(each), "priority": each.priority, "attempts": each.attempts} for each in found],
        ("PARTITION", "OFFSET", "ATTEMPTS", "PRIORITY", "KEY", "VALUE"),
        [_row(each, each.attempts) for each in found],
        drop=("PRIORITY", "ATTEMPTS"),
        empty="nothing to deliver",
    )


@app.command("in-flight")
def in_flight(
    context: typer.Context,
    group: GroupOption,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only this topic.")] = None,
    consumer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this consumer.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, max=10_000, metavar="N", help="Number of messages."),
    ] = 100,
) -> None:
    """Show messages in flight: which consumer holds each, and until when."""
    from goqueue.cli.cells import Moment

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.in_flight(group, topic=topic, consumer=consumer, limit=limit)
    show(
        chosen,
        found,
        (
            *("TOPIC", "PARTITION", "OFFSET", "ATTEMPT", "FAILURES", "TIMEOUTS"),
            *("CONSUMER", "UNTIL", "RECEIPT"),
        ),
        [
            (
                each.topic,
                each.partition,
                each.offset,
                each.attempt,
                each.failures,
                each.timeouts,
                each.consumer,
                Moment(each.visible_until),
                each.receipt_handle,
            )
            for each in found
        ],
        drop=("RECEIPT", "TIMEOUTS", "FAILURES", "ATTEMPT"),
        empty="nothing in flight",
    )


@app.command("stats")
def stats(
    context: typer.Context,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="GROUP", help="\\[all]")
    ] = None,
) -> None:
    """Show ready, in-flight and delayed messages, and totals of past deliveries."""
    from goqueue.cli.cells import Moment

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.queue_stats(group)
        lanes = client.priority_stats(group).lanes
    if chosen != "table":
        show_value(chosen, {**msgspec.to_builtins(found), "lanes": msgspec.to_builtins(lanes)})
        return
    names = ("delivered", "acked", "nacked", "rejected", "timed_out", "expired", "retried")
    titles = [name.upper().replace("_", " ") for name in names]
    show(
        chosen,
        found,
        ("GROUP", "READY", "IN FLIGHT", "WAITING", *titles, "DEAD"),
        [
            (
                each.group,
                each.ready,
                each.in_flight,
                each.waiting,
                *(getattr(each.totals, name) for name in names),
                sum(each.totals.dead_lettered.values()),
            )
            for each in found.groups
        ],
        drop=titles[::-1],
        empty="no queue groups yet",
    )
    typer.echo()
    show(
        chosen,
        lanes,
        ("PRIORITY", "READY", "IN FLIGHT", "WAITING", "DELIVERED", "OLDEST"),
        [
            (name, lane.ready, lane.in_flight, lane.waiting, lane.delivered, Moment(lane.oldest))
            for name, lane in lanes.items()
        ],
    )


@app.command("settings")
def settings(
    context: typer.Context,
    group: GroupOption,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting. May be repeated."),
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Reset all other settings to their defaults.")
    ] = False,
) -> None:
    """Show or change the queue settings of a group."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    wanted = {name: _value(text) for name, text in pairs(changes, "--set").items()}
    with session.client() as client:
        if wanted or reset:
            found = client.change_queue_settings(group, wanted, reset_others=reset)
        else:
            found = client.queue_settings(group)
    _show_settings(chosen, found)


def _value(text: str) -> Any:
    """A number, a list of numbers as `50,25,15,7,3`, or a word."""
    numbers = text.split(",")
    if len(numbers) > 1 and all(each.strip().isdigit() for each in numbers):
        return [int(each) for each in numbers]
    try:
        return msgspec.json.decode(text, type=int | float)
    except msgspec.DecodeError:
        return text


def _show_settings(chosen: OutputFormat, found: dict[str, Any]) -> None:
    show_facts(chosen, found, [(name, _setting(value)) for name, value in found.items()])


def _setting(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value
