"""`goqueue topic`: make, look at, change and delete topics."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.output import is_terminal, show, show_facts, show_table, show_value
from goqueue.cli.pairs import pairs
from goqueue.cli.session import OutputFormat, Session

if TYPE_CHECKING:
    from goqueue.api.topics import SettingInfo, TopicDetail, TopicSummary

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Create, show, change and delete topics."
)


def _names(context: typer.Context) -> list[str]:
    """For the shell's completion, which says nothing when it cannot ask."""
    from goqueue.client.errors import ClientError

    try:
        with context.ensure_object(Session).client() as client:
            return [each.name for each in client.topics()]
    except (ClientError, Failure):
        return []


TopicName = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Name of the topic.", autocompletion=_names)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting, by Kafka's name: retention.ms=7d. May be repeated.",
    ),
]


@app.command("list")
def list_topics(context: typer.Context) -> None:
    """List the topics.

    MESSAGES and SIZE are unknown (`-`) for topics that were not used since the server started;
    `describe` reads them.
    """
    from goqueue.cli.cells import Moment, Size

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found = client.topics()
    show(
        chosen,
        found,
        ("NAME", "PARTITIONS", "MESSAGES", "SIZE", "CREATED", "SETTINGS"),
        [
            (
                each.name,
                each.partitions,
                each.messages,
                Size(each.size_bytes),
                Moment(each.created_at),
                _settings(each),
            )
            for each in found
        ],
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


@app.command("describe")
def describe(context: typer.Context, topic: TopicName) -> None:
    """Show a topic's partitions, sizes and settings."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        found, settings = client.topic(topic), client.settings(topic)
    if chosen != "table":
        show_value(chosen, {**msgspec.to_builtins(found), "settings": _values(settings)})
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
        ("messages", topic.total_messages),
        ("size", Size(topic.total_size_bytes)),
    ]
    show_facts("table", topic, facts)
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


@app.command("create")
def create(
    context: typer.Context,
    topic: TopicName,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            metavar="N",
            help="Number of partitions. \\[the server's default]",
        ),
    ] = None,
    settings: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic exists already.")
    ] = False,
) -> None:
    """Create a topic."""
    from goqueue.client.errors import TopicExists

    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        try:
            made = client.create_topic(
                topic, partitions=partitions, settings=pairs(settings, "--set")
            )
        except TopicExists:
            if not if_not_exists:
                raise
            found = client.topic(topic)
            _told(
                chosen,
                {"name": topic, "partitions": found.partitions, "created": False},
                f"topic {topic!r} is there already, with {found.partitions} partitions",
            )
            return
    _told(
        chosen,
        {"name": made.name, "partitions": made.partitions, "created": True},
        f"topic {made.name!r} created with {made.partitions} partitions",
    )


@app.command("delete")
def delete(
    context: typer.Context,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="Names.", autocompletion=_names)
    ],
    force: Force = False,
) -> None:
    """Delete topics with all their messages."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    confirm(f"Delete {', '.join(topics)} with all messages?", "delete", force=force)
    with session.client() as client:
        for topic in topics:
            client.delete_topic(topic)
            _told(chosen, {"name": topic, "deleted": True}, f"topic {topic!r} deleted")


@app.command("alter")
def alter(
    context: typer.Context,
    topic: TopicName,
    settings: Settings = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset", metavar="NAME", help="Reset a setting to its default. May be repeated."
        ),
    ] = None,
) -> None:
    """Change a topic's settings."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    changes: dict[str, str | None] = {**pairs(settings, "--set"), **dict.fromkeys(unset or ())}
    if not changes:
        raise UsageFailure("nothing to change: give --set NAME=VALUE or --unset NAME")
    with session.client() as client:
        now = client.change_settings(topic, changes)
    if chosen == "table":
        _show_settings(now)
    else:
        show_value(chosen, _values(now))


@app.command("add-partitions")
def add_partitions(
    context: typer.Context,
    topic: TopicName,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", "-p", min=1, metavar="N", help="New total number of partitions."
        ),
    ],
) -> None:
    """Add partitions to a topic.  Keys may then map to other partitions."""
    session = context.ensure_object(Session)
    chosen = session.output_format()
    with session.client() as client:
        grown = client.add_partitions(topic, partitions)
    before, now = grown.old_partition_count, grown.new_partition_count
    _told(
        chosen,
        {"name": topic, "partitions": now, "partitions_before": before},
        f"topic {topic!r} has {now} partitions now, and had {before}",
    )


def _told(chosen: OutputFormat, value: dict[str, Any], text: str) -> None:
    if chosen == "table":
        typer.echo(text)
    else:
        show_value(chosen, value)
