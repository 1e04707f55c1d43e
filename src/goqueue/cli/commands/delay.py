"""`goqueue delay`: messages that wait for their time."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.command import command
from goqueue.cli.commands.topic import TopicName
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import rows_of, show, show_facts, show_text
from goqueue.model.durations import parse_duration_ms
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.api.delays import DelayedBody, DelayedEntry
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="List, cancel and move delayed messages."
)

PAGE_MESSAGES = 1_000

PartitionNumber = Annotated[int, argument("The message's partition.", metavar="PARTITION")]
OffsetNumber = Annotated[
    int, argument("Its offset among the delayed ones, as `produce` told.", metavar="OFFSET")
]


@command(app, "list")
def list_delays(
    client: "Client",
    topic: TopicName,
    limit: Annotated[int, option("Most messages to list.", "-n", min=1)] = 100,
) -> None:
    """List the messages that wait, those that are due next first."""
    found: list[DelayedEntry] = []
    cursor = None
    while len(found) < limit:
        count = min(limit - len(found), PAGE_MESSAGES)
        page = client.delayed_messages(topic, limit=count, cursor=cursor)
        found += page.messages
        for each in page.missing:
            typer.echo(f"partition {each.partition} is missing: {each.message}", err=True)
        cursor = page.cursor
        if cursor is None:
            break
    show(
        found,
        ("PARTITION", "OFFSET", "DELIVER AT", "REMAINING MS"),
        rows_of(found, "partition", "offset", "deliver_at", "remaining_ms"),
        empty="no delayed messages",
    )


@command(app, "show")
def show_delay(
    client: "Client", topic: TopicName, partition: PartitionNumber, offset: OffsetNumber
) -> None:
    """Show a delayed message, and whether it waits, was delivered or cancelled."""
    found = client.delayed_message(topic, partition, offset)
    show_facts(
        found,
        [
            ("topic", found.topic),
            ("partition", found.partition),
            ("offset", found.offset),
            ("state", found.state),
            ("deliver at", found.deliver_at),
            ("published at", found.published_at),
            ("key", found.key),
            ("headers", " ".join(f"{each.name}={each.value}" for each in found.headers) or None),
            ("value", found.value),
        ],
    )


@command(app, "cancel")
def cancel(
    client: "Client", topic: TopicName, partition: PartitionNumber, offset: OffsetNumber
) -> None:
    """Cancel a delayed message: it is never delivered."""
    found = client.cancel_delay(topic, partition, offset)
    show_text(found, f"{_name(found)} is cancelled")


@command(app, "reschedule")
def reschedule(
    client: "Client",
    topic: TopicName,
    partition: PartitionNumber,
    offset: OffsetNumber,
    delay: Annotated[str | None, option("From now on: 30m, 1.5s, 7d.", metavar="TIME")] = None,
    deliver_at: Annotated[
        str | None, option("RFC 3339 with an offset, or epoch milliseconds.", metavar="TIME")
    ] = None,
) -> None:
    """Deliver a delayed message earlier or later."""
    if (delay is None) == (deliver_at is None):
        raise UsageFailure("give --delay or --deliver-at")
    found = client.reschedule_delay(
        topic,
        partition,
        offset,
        delay_ms=None if delay is None else read_delay(delay),
        deliver_at=deliver_at,
    )
    show_text(found, f"{_name(found)} is due at {found.deliver_at}")


@command(app, "stats")
def stats(client: "Client") -> None:
    """Count delayed messages by topic."""
    found = client.delay_stats()
    show(
        found,
        ("TOPIC", "PENDING", "SCHEDULED", "DELIVERED", "CANCELLED", "EXPIRED"),
        [
            (topic, each.pending, each.scheduled, each.delivered, each.cancelled, each.expired)
            for topic, each in found.topics.items()
        ],
        empty="no delayed messages",
    )


def read_delay(text: str) -> int:
    """Milliseconds."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageFailure(f"--delay: {error}") from error


def _name(found: "DelayedBody") -> str:
    return f"{found.topic} {found.partition}/{found.offset}"
