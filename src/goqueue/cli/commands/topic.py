"""`goqueue topic`: make, look at, change and delete topics."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from goqueue.cli.command import command, completion
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import (
    for_people,
    is_terminal,
    rows_of,
    show,
    show_facts,
    show_table,
    show_text,
    show_value,
)
from goqueue.model.options import Pairs, argument, option

if TYPE_CHECKING:
    from goqueue.api.topics import SettingInfo, TopicDetail, TopicSummary
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Create, show, change and delete topics."
)


TOPIC_NAMES = completion(lambda client: [each.name for each in client.topics()])
TopicName = Annotated[str, argument("Name of the topic.", metavar="TOPIC", complete=TOPIC_NAMES)]
Settings = Annotated[
    Pairs | None, option("A setting, by Kafka's name: retention.ms=7d. May be repeated.", "--set")
]


@command(app, "list")
def list_topics(client: "Client") -> None:
    """List the topics.

    MESSAGES and SIZE are unknown (`-`) for topics that were not used since the server started;
    `describe` reads them.
    """
    from goqueue.cli.cells import Moment, Size

    found = client.topics()
    show(
        found,
        ("NAME", "PARTITIONS", "MESSAGES", "SIZE", "CREATED", "SETTINGS"),
        rows_of(
            found,
            *("name", "partitions", "messages"),
            *((Size, "size_bytes"), (Moment, "created_at"), _settings),
        ),
        drop=("SETTINGS", "CREATED", "PARTITIONS"),
        empty="no topics yet: goqueue topic create NAME",
    )


def _settings(topic: "TopicSummary") -> str:
    from goqueue.cli.cells import setting, text_of

    at_terminal = is_terminal()
    return (
        " ".join(
            f"{name}={text_of(setting(name, value), at_terminal=at_terminal)}"
            for name, value in sorted(topic.settings.items())
        )
        or "-"
    )


@command(app, "describe")
def describe(client: "Client", topic: TopicName) -> None:
    """Show a topic's partitions, sizes and settings."""
    found, settings = client.topic(topic), client.settings(topic)
    if not for_people():
        show_value({**msgspec.to_builtins(found), "settings": _values(settings)})
        return
    _describe(found)
    typer.echo()
    _show_settings(settings)


def _describe(topic: "TopicDetail") -> None:
    from goqueue.cli.cells import Moment, Size

    facts: list[tuple[str, object]] = [
        ("name", topic.name),
        ("id", topic.topic_id),
        ("created", Moment(topic.created_at)),
        # By offsets, since nothing counts messages: markers of transactions have some, and so do
        # aborted messages and those that compaction removed.
        ("messages, at most", topic.total_messages),
        ("size", Size(topic.total_size_bytes)),
    ]
    show_facts(topic, facts)
    typer.echo()
    show_table(
        ("PARTITION", "EARLIEST", "LATEST"),
        [
            (index, each.earliest, each.latest)
            for index, each in sorted(topic.partition_offsets.items())
        ],
    )


def _show_settings(settings: "dict[str, SettingInfo]") -> None:
    from goqueue.cli.cells import setting

    rows = [
        (name, setting(name, each.value), "default" if each.is_default else "this topic")
        for name, each in sorted(settings.items())
    ]
    show_table(("SETTING", "VALUE", "FROM"), rows)


def _values(settings: "dict[str, SettingInfo]") -> dict[str, str]:
    return {name: each.value for name, each in sorted(settings.items())}


@command(app, "create")
def create(
    client: "Client",
    topic: TopicName,
    partitions: Annotated[
        int | None, option("Number of partitions. \\[the server's default]", "-p", min=1)
    ] = None,
    replication: Annotated[
        int | None,
        option("Replicas of each partition, on as many nodes. \\[the server's default]", min=1),
    ] = None,
    settings: Settings = None,
    if_not_exists: Annotated[bool, option("Succeed if the topic exists already.")] = False,
) -> None:
    """Create a topic."""
    from goqueue.client.errors import TopicExists

    try:
        made = client.create_topic(
            topic,
            partitions=partitions,
            replication_factor=replication,
            settings=settings or {},
        )
    except TopicExists:
        if not if_not_exists:
            raise
        count = client.topic(topic).partitions
        show_text(
            {"name": topic, "partitions": count, "created": False},
            f"topic {topic!r} is there already, with {count} partitions",
        )
        return
    show_text(
        {"name": made.name, "partitions": made.partitions, "created": True},
        f"topic {made.name!r} created with {made.partitions} partitions",
    )


@command(app, "delete")
def delete(
    client: "Client",
    topics: Annotated[
        list[str], argument("Names of the topics.", metavar="TOPIC...", complete=TOPIC_NAMES)
    ],
    force: Force = False,
) -> None:
    """Delete topics with all their messages."""
    confirm(f"Delete {', '.join(topics)} with all messages?", "delete", force=force)
    for topic in topics:
        client.delete_topic(topic)
        show_text({"name": topic, "deleted": True}, f"topic {topic!r} deleted")


@command(app, "alter")
def alter(
    client: "Client",
    topic: TopicName,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None, option("Reset a setting to its default. May be repeated.", metavar="NAME")
    ] = None,
) -> None:
    """Change a topic's settings."""
    changes: dict[str, str | None] = {**(settings or {}), **dict.fromkeys(unset or ())}
    if not changes:
        raise UsageFailure("nothing to change: give --set NAME=VALUE or --unset NAME")
    now = client.change_settings(topic, changes)
    if for_people():
        _show_settings(now)
    else:
        show_value(_values(now))


@command(app, "add-partitions")
def add_partitions(
    client: "Client",
    topic: TopicName,
    partitions: Annotated[int, option("New total number of partitions.", "-p", min=1)],
) -> None:
    """Add partitions to a topic.  Keys may then map to other partitions."""
    grown = client.add_partitions(topic, partitions)
    before, now = grown.old_partition_count, grown.new_partition_count
    show_text(
        {"name": topic, "partitions": now, "partitions_before": before},
        f"topic {topic!r} has {now} partitions now, and had {before}",
    )
