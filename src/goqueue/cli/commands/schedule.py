"""`goqueue schedule`: messages that are published again and again, by cron or at intervals."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from goqueue.cli.command import command, completion
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import rows_of, show, show_facts, show_text
from goqueue.model.options import DurationMs, Pairs, TimeMs, argument, option

if TYPE_CHECKING:
    from goqueue.api.schedules import PreviewBody, RunBody, ScheduleBody
    from goqueue.client import Client

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Publish messages again and again: by cron, or at intervals.",
)

NAMES = completion(lambda client: [each.name for each in client.schedules().schedules])
Name = Annotated[str, argument("Name of the schedule.", metavar="NAME", complete=NAMES)]


class When(msgspec.Struct, frozen=True):
    """When it runs."""

    cron: Annotated[
        str | None,
        option('5 fields, 6 with seconds first, or @daily: "0 9 * * MON-FRI".', metavar="TEXT"),
    ] = None
    every: Annotated[DurationMs | None, option("An interval instead of --cron: 30s, 15m.")] = None
    timezone: Annotated[
        str | None, option("Whose clocks --cron means: Asia/Karachi. \\[UTC]", metavar="ZONE")
    ] = None
    start: Annotated[TimeMs | None, option("No run before that time.")] = None
    end: Annotated[TimeMs | None, option("No run after that time.")] = None


class What(msgspec.Struct, frozen=True):
    """What it publishes, and how often."""

    topic: Annotated[str | None, option("Topic to publish to.", "--topic", "-t")] = None
    message: Annotated[
        str | None,
        option("The message. May have {{run}}, {{scheduled_at}}, {{name}}.", "-m", "--message"),
    ] = None
    key: Annotated[str | None, option("Key of the message.", "-k", "--key")] = None
    header: Annotated[Pairs | None, option("A header. May be repeated.", "-H", "--header")] = None
    priority: Annotated[str | None, option("critical, high, normal, low, background.")] = None
    partition: Annotated[
        int | None, option("Partition. \\[by key, else in turn]", "-p", "--partition", min=0)
    ] = None
    max_runs: Annotated[int | None, option("Runs in all.", min=1)] = None
    missed: Annotated[
        Literal["skip", "one", "all"] | None,
        option("Of runs that were missed, publish none, the newest, or all. \\[one]"),
    ] = None
    missed_max: Annotated[int | None, option("With all: so many, the newest. \\[100]")] = None
    grace: Annotated[DurationMs | None, option("With skip: runs so late are published. \\[1m]")] = (
        None
    )
    description: Annotated[str | None, option("A text for people.", metavar="TEXT")] = None


@command(app, "create")
def create(
    client: "Client",
    name: Annotated[str, argument("Name of the new schedule.", metavar="NAME")],
    when: When,
    what: What,
    paused: Annotated[bool, option("Do not start yet.")] = False,
) -> None:
    """Create a schedule: `create report -t reports --cron "0 9 * * MON-FRI" -m "{{run}}"`."""
    from goqueue.client import ScheduledMessage, ScheduleInput

    if what.topic is None or what.message is None:
        raise UsageFailure("give --topic and --message")
    message = ScheduledMessage(what.message, **_message_fields(what))
    given = ScheduleInput(what.topic, message, **_fields(when), **_limits(what))
    _show(client.create_schedule(name, given, paused=paused))


@command(app, "update")
def update(client: "Client", name: Name, when: When, what: What) -> None:
    """Change what is given; the rest stays, and so do runs and history."""
    from goqueue.client import ScheduleInput

    found = client.schedule(name)
    kept = _fields_of(found)
    if when.cron is not None or when.every is not None:
        kept.pop("cron", None), kept.pop("every", None)
    if when.every is not None and when.timezone is None:
        kept.pop("timezone")
    fields = {**kept, **_fields(when), **_limits(what)}
    topic = what.topic or found.topic
    given = ScheduleInput(topic, _changed_message(found, what), **fields, version=found.version)
    _show(client.replace_schedule(name, given))


@command(app, "list")
def list_schedules(
    client: "Client", limit: Annotated[int, option("Most of them.", min=1)] = 1_000
) -> None:
    """List the schedules, with their next runs."""
    from goqueue.cli.cells import Moment, State

    found = list(_all(client, limit))
    show(
        found,
        ("NAME", "STATE", "WHEN", "TOPIC", "NEXT RUN", "RUNS", "MISSED"),
        rows_of(
            found,
            "name",
            lambda each: State("failing" if each.error else each.status),
            "text",
            "topic",
            (Moment, "next_run_at"),
            *("runs", "missed_runs"),
        ),
        drop=("MISSED", "TOPIC", "RUNS"),
        whole=("NAME",),
        empty="no schedules yet: goqueue schedule create NAME",
    )


@command(app, "show")
def show_schedule(client: "Client", name: Name) -> None:
    """Show a schedule, its next and last run, and why a run fails."""
    _show(client.schedule(name))


@command(app, "pause")
def pause(client: "Client", name: Name) -> None:
    """Publish no runs until it is resumed."""
    found = client.pause_schedule(name)
    show_text(found, f"{name} is paused")


@command(app, "resume")
def resume(client: "Client", name: Name) -> None:
    """Go on; missed runs are made up for as its --missed says."""
    found = client.resume_schedule(name)
    show_text(found, f"{name} runs next at {found.next_run_at or '-'}")


@command(app, "run")
def run(client: "Client", name: Name) -> None:
    """Publish a run now, beside the others; exit code 1 if it is not published yet."""
    found = client.run_schedule(name)
    if found.run is not None:
        place = f"{found.run.topic}-{found.run.partition} at offset {found.run.offset}"
        show_text(found, f"run {found.run.number} of {name} is in {place}")
        return
    problem = found.error.message if found.error else "it takes longer"
    show_text(found, f"not published yet, and tried again: {problem}")
    raise typer.Exit(1)


@command(app, "runs")
def runs(client: "Client", name: Name) -> None:
    """List the newest runs, and where their messages are."""
    from goqueue.cli.cells import Moment, Span

    found: list[RunBody] = client.schedule_runs(name)
    show(
        found,
        ("RUN", "SCHEDULED", "PUBLISHED", "LATE", "TOPIC", "PARTITION", "OFFSET", "BY HAND"),
        rows_of(
            found,
            *("number", "scheduled_at", (Moment, "published_at"), (Span, "late_ms")),
            *("topic", "partition", "offset", "manual"),
        ),
        drop=("BY HAND", "TOPIC", "LATE"),
        empty=f"{name} has not run yet",
    )


@command(app, "preview")
def preview(
    client: "Client",
    when: When,
    name: Annotated[
        str | None, argument("A schedule; else say --cron.", metavar="[NAME]", complete=NAMES)
    ] = None,
    count: Annotated[int, option("Number of runs.", "-n", min=1, max=100)] = 10,
) -> None:
    """Show the next runs of a schedule, or of a --cron or --every that is not stored."""
    from goqueue.client import PreviewInput

    if (name is None) == (when.cron is None and when.every is None):
        raise UsageFailure("give the name of a schedule, or --cron or --every")
    found: PreviewBody
    if name is not None:
        found = client.schedule_preview(name, count)
    else:
        found = client.preview_schedule(PreviewInput(**_fields(when), count=count))
    show(
        found,
        ("RUN", "LOCAL", "UTC"),
        [(place, each.local, each.at) for place, each in enumerate(found.runs, 1)],
        empty="no more runs",
    )


@command(app, "delete")
def delete(client: "Client", name: Name, force: Force = False) -> None:
    """Delete a schedule and its history; messages stay in the topic."""
    confirm(f"Delete schedule {name}?", "delete", force=force)
    client.delete_schedule(name)
    show_text({"deleted": name}, f"{name} is deleted")


# --- what is sent ---------------------------------------------------------------------------------


def _all(client: "Client", limit: int) -> "Iterator[ScheduleBody]":
    after: str | None = None
    while limit > 0:
        page = client.schedules(min(limit, 1_000), after)
        yield from page.schedules
        limit -= len(page.schedules)
        after = page.next
        if after is None:
            return


def _fields(given: msgspec.Struct) -> dict[str, Any]:
    """What was given on the command line."""
    return {
        name: value
        for name in given.__struct_fields__
        if (value := getattr(given, name)) is not None
    }


def _limits(what: What) -> dict[str, Any]:
    names = ("max_runs", "missed", "missed_max", "grace", "description")
    return {name: value for name, value in _fields(what).items() if name in names}


def _message_fields(what: What) -> dict[str, Any]:
    found = _fields(what)
    names = ("key", "priority", "partition")
    fields: dict[str, Any] = {name: value for name, value in found.items() if name in names}
    if what.header:
        fields["headers"] = dict(what.header)
    return fields


def _fields_of(found: "ScheduleBody") -> dict[str, Any]:
    """As they are now."""
    fields: dict[str, Any] = {
        "cron": found.cron,
        "every": found.every_ms,
        "timezone": found.timezone,
        "start": found.start,
        "end": found.end,
        "max_runs": found.max_runs,
        "missed": found.missed,
        "missed_max": found.missed_max,
        "grace": found.grace_ms,
        "description": found.description,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _changed_message(found: "ScheduleBody", what: What) -> Any:
    from goqueue.api.messages import HeaderBody
    from goqueue.client import ScheduledMessage

    old, given = found.message, _message_fields(what)
    if old.encoding == "base64" and (given or what.message is not None):
        raise UsageFailure(f"the message of {found.name} is binary: replace it over HTTP")
    headers = given.pop("headers", None)
    kept = [HeaderBody(each.name, each.value) for each in old.headers]
    if "priority" in given:
        kept = [each for each in kept if each.name != "gq-priority"]
    if headers is not None:
        kept = [each for each in kept if each.name not in headers]
        kept += [HeaderBody(name, value) for name, value in headers.items()]
    fields = {"key": old.key, "partition": old.partition, **given}
    value = old.value if what.message is None else what.message
    return ScheduledMessage(value, headers=kept, encoding=old.encoding, **fields)


def _show(found: "ScheduleBody") -> None:
    from goqueue.cli.cells import Moment, Span, State

    last, error = found.last_run, found.error
    show_facts(
        found,
        [
            ("name", found.name),
            ("state", State("failing" if error else found.status)),
            ("when", found.text),
            ("topic", found.topic),
            ("message", found.message.value),
            ("key", found.message.key),
            ("next run", Moment(found.next_run_at)),
            ("last run", None if last is None else Moment(last.scheduled_at)),
            ("late", None if last is None else Span(last.late_ms)),
            ("runs", found.runs),
            ("missed", found.missed_runs),
            ("on missed", found.missed),
            ("version", found.version),
            ("error", None if error is None else error.message),
        ],
    )
