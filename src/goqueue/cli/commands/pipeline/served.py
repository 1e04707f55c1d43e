"""`goqueue pipeline list`, `status`, `logs`, `stop`, `restart`, `reset`: pipelines that are served.

How they are is on topics of the broker, where `goqueue pipeline serve` tells it and takes commands.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from goqueue.cli.cells import State
from goqueue.cli.command import completion
from goqueue.cli.confirming import Force, confirm
from goqueue.cli.failures import ExitCode, Failure, UsageFailure
from goqueue.cli.moments import as_text
from goqueue.cli.output import show, show_facts
from goqueue.model.options import argument, option

if TYPE_CHECKING:
    from goqueue.client import Client
    from goqueue.spark.service.board import Standing, Verb

SILENT_MS: Final = 60_000  # a service tells how things are four times a minute
ANSWER_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.5


def _names(client: "Client") -> list[str]:
    from goqueue.spark.service.board import read_standings

    return [each.name for each in read_standings(client)]


Name = Annotated[
    str, argument("Name of the pipeline.", metavar="NAME", complete=completion(_names))
]


def list_pipelines(client: "Client") -> None:
    """List the pipelines that `goqueue pipeline serve` runs."""
    from goqueue.spark.service.board import read_standings

    found = read_standings(client)
    rows = [
        (
            each.name,
            State(_state(each)),
            f"{sum(query.rows_per_second for query in each.queries):,.0f}",
            _lag(each),
            each.restarts,
            _problem(each),
        )
        for each in found
    ]
    headings = ("NAME", "STATE", "ROWS/S", "LAG", "RESTARTS", "PROBLEM")
    show(found, headings, rows, drop=("RESTARTS", "ROWS/S"), empty="no pipelines are served")


def status(client: "Client", name: Name) -> None:
    """Show how a pipeline is: its queries, its last problem, when it is tried again."""
    found = _find(client, name)
    facts: list[tuple[str, object]] = [
        ("name", found.name),
        ("state", State(_state(found))),
        ("file", f"{found.file} on {found.host}"),
        ("as of", as_text(found.time)),
        ("restarts", found.restarts),
    ]
    if found.problem is not None:
        facts.append(("problem", found.problem))
    if found.next_try is not None:
        facts.append(("next try", as_text(found.next_try)))
    facts += [("alert", f"{each.query}: {each.kind}: {each.text}") for each in found.alerts]
    for each in found.queries:
        lag = "" if each.lag is None else f", {each.lag:,} behind"
        unmet = "".join(f", {count} not {name}" for name, count in each.unmet.items() if count)
        facts.append(
            (
                each.name,
                f"{each.state}, {each.rows:,} rows, {each.rows_per_second:,.0f}/s{lag}{unmet}",
            )
        )
    show_facts(found, facts)


def logs(
    client: "Client",
    name: Name,
    limit: Annotated[int, option("At most so many, the newest.", "-n", min=1)] = 100,
) -> None:
    """Show what happened to a pipeline: starts, failures, changes, commands, upkeep."""
    from goqueue.spark.service.board import read_events

    _find(client, name)
    found = read_events(client, name, limit)
    rows = [(as_text(each.time), each.event, each.text) for each in found]
    show(found, ("TIME", "EVENT", ""), rows, empty="nothing happened to it yet")


def stop(client: "Client", name: Name) -> None:
    """Stop a pipeline. It stays stopped until `restart`, also when the service starts again."""
    _ask(client, name, "stop", lambda each: each.state == "stopped")


def restart(client: "Client", name: Name) -> None:
    """Start a pipeline again: one that was stopped, has finished, failed, or runs."""
    before = _find(client, name).time
    _ask(client, name, "restart", lambda each: each.time > before and each.state != "stopped")


def reset(
    client: "Client",
    name: Name,
    start: Annotated[
        str | None,
        option("Begin at earliest, latest or a time, not where the file says.", "--from"),
    ] = None,
    force: Force = False,
) -> None:
    """Start a pipeline over: its checkpoints are set aside, and it reads everything again.

    Its topics get every row once more, under a new id. Archives do not: their tables record what
    they have.
    """
    before = _find(client, name).time
    where = _check_start(start)
    begin = "the beginning" if where is None else where
    question = f"{name} will read its topics from {begin} and write all of that again. Reset?"
    confirm(question, "reset it", force=force)

    def is_done(each: "Standing") -> bool:
        return each.time > before and each.state != "stopped"

    _ask(client, name, "reset", is_done, where)


def _check_start(start: str | None) -> str | None:
    """Times as the service reads them: `-1h` is an hour before now, and not before then."""
    from goqueue.model.ids import Timestamp
    from goqueue.model.times import parse_time

    if start is None or start in ("earliest", "latest"):
        return start
    try:
        return as_text(parse_time(start, now=Timestamp(time.time_ns() // 1_000_000)))
    except ValueError as error:
        raise UsageFailure(f"--from: {error}, or earliest, or latest") from error


def _ask(
    client: "Client",
    name: str,
    verb: "Verb",
    is_done: "Callable[[Standing], bool]",
    start: str | None = None,
) -> None:
    from goqueue.spark.service.board import Command, ask

    found = _find(client, name)
    if _is_silent(found):
        raise Failure(
            f"the service on {found.host} has said nothing since {as_text(found.time)}:"
            f" start it with `goqueue pipeline serve`",
            ExitCode.UNREACHABLE,
        )
    ask(client, Command(name, verb, start))
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        found = _find(client, name)
        if is_done(found):
            show_facts(found, [("name", name), ("state", State(found.state))])
            return
        time.sleep(POLL_SECONDS)
    typer.echo(f"asked; the service is busy, and {name} is {found.state}", err=True)


def _find(client: "Client", name: str) -> "Standing":
    from goqueue.spark.service.board import read_standings

    standings = {each.name: each for each in read_standings(client)}
    if name not in standings:
        known = ", ".join(standings) or "none"
        raise Failure(f"no pipeline {name!r} is served: there is {known}", ExitCode.NOT_FOUND)
    return standings[name]


def _state(standing: "Standing") -> str:
    return "silent" if _is_silent(standing) else standing.state


def _is_silent(standing: "Standing") -> bool:
    """Its service has ended, or cannot reach the broker."""
    return time.time() * 1000 - standing.time > SILENT_MS


def _problem(standing: "Standing") -> str:
    alerts = [f"{each.query}: {each.kind}" for each in standing.alerts]
    return (standing.problem or ", ".join(alerts)).split("\n", maxsplit=1)[0]


def _lag(standing: "Standing") -> str:
    found = [each.lag for each in standing.queries if each.lag is not None]
    return f"{sum(found):,}" if found else "-"
