"""`goqueue audit`: who was refused, who could not log in, who changed what."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from goqueue.api.audit import AuditEventBody, AuditList
from goqueue.cli.command import command
from goqueue.cli.failures import UsageFailure
from goqueue.cli.output import for_people, line, rows_of, show
from goqueue.model.options import TimeMs, option

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(add_completion=False)

FOLLOW_SECONDS: Final = 1.0
PAGE_EVENTS: Final = 1_000


class Wanted(msgspec.Struct, frozen=True):
    """Which events to show."""

    kind: Annotated[
        str | None,
        option("authentication, authorization, change or left_out.", metavar="KIND"),
    ] = None
    principal: Annotated[
        str | None, option("Only of this user, or who claimed to be it.", metavar="NAME")
    ] = None
    host: Annotated[str | None, option("Only from this address.", metavar="ADDRESS")] = None
    operation: Annotated[
        str | None, option("Only this operation, or requests named so.", metavar="TEXT")
    ] = None
    resource: Annotated[
        str | None, option("Only resources with this text in them.", metavar="TEXT")
    ] = None
    denied: Annotated[bool, option("Only what was not allowed.")] = False
    until: Annotated[TimeMs | None, option("Only events before this time.")] = None

    def query(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__struct_fields__ if name != "denied"}
        return {**found, "allowed": False if self.denied else None}


@command(app)
def audit(
    client: "Client",
    wanted: Wanted,
    since: Annotated[
        TimeMs | None, option("Only events from this time on, from the oldest to the newest.")
    ] = None,
    limit: Annotated[int, option("Number of events.", "-n", min=1, max=10_000)] = 50,
    follow: Annotated[bool, option("Wait for new events at the end.", "-f")] = False,
) -> None:
    """Show the last events of the audit log: logins, refusals, administrative changes.

    It has the events of all nodes, and is for administrators.
    """
    if follow and wanted.until is not None:
        raise UsageFailure("--follow has no end: leave out --until")
    if since is None:
        found = client.search_audit(limit=limit, **wanted.query())
    else:
        found = _search_all(client, wanted, since, limit)
    if not follow:
        _show(found.events)
        return
    _print(found.events)
    while True:
        time.sleep(0.0 if not found.is_end else FOLLOW_SECONDS)
        found = client.search_audit(offset=found.next_offset, limit=PAGE_EVENTS, **wanted.query())
        _print(found.events)


def _search_all(client: "Client", wanted: Wanted, since: int, limit: int) -> AuditList:
    """One search looks at a part of the log only."""
    found = client.search_audit(since=since, limit=limit, **wanted.query())
    events = list(found.events)
    while len(events) < limit and not found.is_end:
        found = client.search_audit(
            offset=found.next_offset, limit=limit - len(events), **wanted.query()
        )
        events += found.events
    return AuditList(events, found.next_offset, found.is_end)


def _show(events: list[AuditEventBody]) -> None:
    show(
        events,
        ("TIME", "NODE", "KIND", "ALLOWED", "PRINCIPAL", "HOST", "WHAT", "RESOURCE", "WHY"),
        rows_of(
            events,
            *("time", "node", "kind"),
            lambda each: "yes" if each.allowed else "no",
            *("principal", "host", _what, "resource", _why),
        ),
        empty="no events",
    )


def _print(events: list[AuditEventBody]) -> None:
    """Line by line, as they come."""
    for each in events:
        if for_people():
            allowed = "allowed" if each.allowed else "refused"
            facts = (each.time, f"node {each.node}", each.kind, allowed, each.principal, each.host)
            words = (*facts, _what(each), each.resource, _why(each))
            sys.stdout.write("  ".join(word for word in words if word) + "\n")
        else:
            sys.stdout.write(line(each))
    sys.stdout.flush()


def _what(event: AuditEventBody) -> str:
    return " ".join(part for part in (event.request, event.operation) if part)


def _why(event: AuditEventBody) -> str:
    parts = (event.reason, event.details, "" if event.result in ("", "ok") else event.result)
    return "; ".join(part for part in parts if part)
