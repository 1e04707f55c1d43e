"""`goqueue queue`: receive and settle messages, and see who holds which."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.command import command
from goqueue.cli.commands.topic import TopicName
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.output import for_people, rows_of, show, show_facts, show_table, show_value
from goqueue.cli.session import Session
from goqueue.model.options import DurationMs, Pairs, argument, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.client import Client, Delivery, Settled, Waiting

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Receive and acknowledge messages one by one; show messages in flight.",
)

VALUE_SHOWN_MAX: Final = 60

GroupOption = Annotated[str, option("Consumer group.", "--group", "-g", metavar="GROUP")]
ConsumerOption = Annotated[str | None, option("Consumer name. \\[user@host]", metavar="NAME")]
Receipts = Annotated[
    list[str], argument("Receipts from `receive`; - reads them from stdin.", metavar="RECEIPT...")
]
Visibility = Annotated[DurationMs | None, option("Visibility time-out: 30s, 5m.")]
Delay = Annotated[DurationMs | None, option("Redeliver after this delay: 5s.")]


# --- working --------------------------------------------------------------------------------------


@command(app, "receive")
def receive(
    client: "Client",
    topic: TopicName,
    group: GroupOption,
    count: Annotated[int, option("Number of messages.", "-n", min=1, max=10_000)] = 1,
    wait: Annotated[DurationMs, option("Time to wait for a message: 10s.")] = 0,
    visibility: Visibility = None,
    consumer: ConsumerOption = None,
    ack: Annotated[bool, option("Acknowledge the messages after they are shown.")] = False,
    receipts: Annotated[
        bool, option("Print only the receipts, one per line, for scripts.")
    ] = False,
) -> None:
    """Receive messages.  Ack, nack or reject them by their receipts."""
    found = client.receive(
        topic,
        group,
        consumer=consumer or consumer_name(),
        max_messages=count,
        wait_ms=wait,
        visibility_ms=visibility,
    )
    if receipts:
        for each in found:
            typer.echo(each.receipt)
    else:
        _show_received(found)
    if ack and found:
        sys.stdout.flush()
        client.ack(*found)


def _show_received(found: "list[Delivery]") -> None:
    show(
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
        shorten(message.key),
        shorten(message.value),
    )


def shorten(data: bytes | None) -> str:
    """On one line of a table; control characters are shown, not obeyed."""
    if data is None:
        return "-"
    text = data[: 4 * VALUE_SHOWN_MAX].decode(errors="backslashreplace")
    plain = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return plain if len(plain) <= VALUE_SHOWN_MAX else plain[: VALUE_SHOWN_MAX - 1] + "…"


@command(app, "ack")
def ack(client: "Client", receipts: Receipts) -> None:
    """Acknowledge messages: they are not delivered to the group again."""
    _settle(client.ack, receipts)


@command(app, "nack")
def nack(
    client: "Client",
    receipts: Receipts,
    delay: Delay = None,
    reason: Annotated[str, option("Reason, kept in the history of the message.")] = "",
) -> None:
    """Report messages as failed: they are redelivered, or become dead letters."""
    _settle(client.nack, receipts, delay_ms=delay, reason=reason)


@command(app, "reject")
def reject(
    client: "Client",
    receipts: Receipts,
    reason: Annotated[str, option("Why they can never be processed.")],
) -> None:
    """Dead-letter messages immediately."""
    _settle(client.reject, receipts, reason=reason)


@command(app, "extend")
def extend(
    client: "Client",
    receipts: Receipts,
    longer: Annotated[DurationMs, option("Visibility time-out from now: 5m.", "--for")],
) -> None:
    """Extend the visibility time-out."""
    _settle(client.extend, receipts, visibility_ms=longer)


@command(app, "release")
def release(client: "Client", receipts: Receipts, delay: Delay = None) -> None:
    """Return messages to the queue without counting a failed attempt."""
    _settle(client.release, receipts, delay_ms=delay or 0)


def _settle(settle: "Callable[..., list[Settled]]", receipts: list[str], **more: Any) -> None:
    if receipts == ["-"]:
        receipts = sys.stdin.read().split()
    if not receipts:
        raise UsageFailure("no receipts were given")
    results = settle(*receipts, **more)
    show(
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


@command(app, "work", context_settings={"ignore_unknown_options": True})
def work(
    session: Session,
    topic: TopicName,
    command: Annotated[
        list[str],
        argument(
            "Command to run for each message; the value is its stdin.", metavar="-- COMMAND..."
        ),
    ],
    group: GroupOption,
    workers: Annotated[int, option("Number of parallel workers.", "-w", min=1, max=1000)] = 1,
    visibility: Visibility = None,
    consumer: ConsumerOption = None,
    limit: Annotated[int | None, option("Stop after N messages.", "-n", min=1)] = None,
    until_empty: Annotated[bool, option("Stop when no message is left.")] = False,
    quiet: Annotated[bool, option("Print only the output of the command.", "-q")] = False,
) -> None:
    """Run a command for each message: ack when it ends with 0, nack otherwise.

    A single argument is run by the shell.  The environment has GOQUEUE_TOPIC, _PARTITION, _OFFSET,
    _KEY, _ATTEMPT, _PRIORITY and GOQUEUE_HEADER_name of the message.  While the command runs, the
    visibility time-out is extended.  Ctrl-c waits for running commands and releases the other
    messages.
    """
    import asyncio

    from goqueue.cli.working import Worker

    worker = Worker(
        topic,
        group,
        consumer or consumer_name(),
        command,
        workers=workers,
        visibility_ms=visibility,
        limit=limit,
        until_empty=until_empty,
        tell=(lambda _: None) if quiet else (lambda text: typer.echo(text, err=True)),
    )
    asyncio.run(worker.run(session.async_client))
    if not quiet:
        typer.echo(f"{worker.acked} done, {worker.failed} failed", err=True)


# --- looking --------------------------------------------------------------------------------------


@command(app, "peek")
def peek(
    client: "Client",
    topic: TopicName,
    group: GroupOption,
    count: Annotated[int, option("Number of messages.", "-n", min=1, max=1_000)] = 10,
) -> None:
    """Show the next messages without receiving them."""
    from goqueue.cli.rendering import as_json

    found = client.peek(topic, group, count)
    show(
        [{**as_json(each), "priority": each.priority, "attempts": each.attempts} for each in found],
        ("PARTITION", "OFFSET", "ATTEMPTS", "PRIORITY", "KEY", "VALUE"),
        [_row(each, each.attempts) for each in found],
        drop=("PRIORITY", "ATTEMPTS"),
        empty="nothing to deliver",
    )


@command(app, "in-flight")
def in_flight(
    client: "Client",
    group: GroupOption,
    topic: Annotated[str | None, option("Only this topic.", metavar="TOPIC")] = None,
    consumer: Annotated[str | None, option("Only this consumer.", metavar="NAME")] = None,
    limit: Annotated[int, option("Number of messages.", "-n", min=1, max=10_000)] = 100,
) -> None:
    """Show messages in flight: which consumer holds each, and until when."""
    from goqueue.cli.cells import Moment

    found = client.in_flight(group, topic=topic, consumer=consumer, limit=limit)
    show(
        found,
        (
            *("TOPIC", "PARTITION", "OFFSET", "ATTEMPT", "FAILURES", "TIMEOUTS"),
            *("CONSUMER", "UNTIL", "RECEIPT"),
        ),
        rows_of(
            found,
            *("topic", "partition", "offset", "attempt", "failures", "timeouts"),
            *("consumer", (Moment, "visible_until"), "receipt_handle"),
        ),
        drop=("RECEIPT", "TIMEOUTS", "FAILURES", "ATTEMPT"),
        empty="nothing in flight",
    )


@command(app, "stats")
def stats(
    client: "Client",
    group: Annotated[str | None, option("Only this group. \\[all]", "-g", metavar="GROUP")] = None,
) -> None:
    """Show ready, in-flight and delayed messages, and totals of past deliveries."""
    from goqueue.cli.cells import Moment

    found = client.queue_stats(group)
    lanes = client.priority_stats(group).lanes
    if not for_people():
        show_value({**msgspec.to_builtins(found), "lanes": msgspec.to_builtins(lanes)})
        return
    names = ("delivered", "acked", "nacked", "rejected", "timed_out", "expired", "retried")
    titles = [name.upper().replace("_", " ") for name in names]
    show_table(
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
    show_table(
        ("PRIORITY", "READY", "IN FLIGHT", "WAITING", "DELIVERED", "OLDEST"),
        [
            (name, lane.ready, lane.in_flight, lane.waiting, lane.delivered, Moment(lane.oldest))
            for name, lane in lanes.items()
        ],
    )


@command(app, "settings")
def settings(
    client: "Client",
    group: GroupOption,
    changes: Annotated[Pairs | None, option("Change a setting. May be repeated.", "--set")] = None,
    reset: Annotated[bool, option("Reset all other settings to their defaults.")] = False,
) -> None:
    """Show or change the queue settings of a group."""
    wanted = {name: _value(text) for name, text in (changes or {}).items()}
    if wanted or reset:
        found = client.change_queue_settings(group, wanted, reset_others=reset)
    else:
        found = client.queue_settings(group)
    show_facts(found, [(name, _setting(value)) for name, value in found.items()])


def _value(text: str) -> Any:
    """A number, a list of numbers as `50,25,15,7,3`, or a word."""
    numbers = text.split(",")
    if len(numbers) > 1 and all(each.strip().isdigit() for each in numbers):
        return [int(each) for each in numbers]
    try:
        return msgspec.json.decode(text, type=int | float)
    except msgspec.DecodeError:
        return text


def _setting(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value
