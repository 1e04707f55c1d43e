"""The audit log; for administrators."""

from typing import Annotated

import msgspec

from goqueue.api.audit import AuditEventBody, AuditKindName, AuditList
from goqueue.api.parsing import TIME_PATTERN, parse_time
from goqueue.broker.security.audit_reader import AuditPage
from goqueue.model.ids import Offset
from goqueue.security import AuditFilter
from goqueue.server.http.asgi.dependencies import TheAuditReader
from goqueue.server.http.routes.family import Routes, query

routes = Routes("security")


@routes.get("/admin/audit", "Search the audit log", 422)
async def search_audit(
    audit_reader: TheAuditReader,
    kind: Annotated[AuditKindName | None, query("Only events of this kind.")] = None,
    allowed: Annotated[bool | None, query("Only what was allowed, or what was not.")] = None,
    principal: Annotated[str | None, query("Only of this one: alice, or User:alice.")] = None,
    host: Annotated[str | None, query("Only from this address.")] = None,
    operation: Annotated[str | None, query("Only this operation, or requests named so.")] = None,
    resource: Annotated[str | None, query("Only resources with this text in them.")] = None,
    since: Annotated[str | None, query("Not before: RFC 3339.", TIME_PATTERN)] = None,
    until: Annotated[str | None, query("Before: RFC 3339.", TIME_PATTERN)] = None,
    offset: Annotated[
        int | None, query("From this place on, the `next_offset` of before.", ge=0)
    ] = None,
    limit: Annotated[int, query("Most events of the answer.", ge=1, le=10_000)] = 100,
) -> AuditList:
    """The last events; with `since` or `offset` the first ones from there.

    Of the topic `__audit`, which has the events of all nodes.  One search looks at 20,000 events.
    """
    page = await audit_reader.search(
        AuditFilter(kind, allowed, principal, host, operation, resource),
        limit,
        offset=None if offset is None else Offset(offset),
        since=None if since is None else parse_time(since, "since"),
        until=None if until is None else parse_time(until, "until"),
    )
    return _body(page)


def _body(page: AuditPage) -> AuditList:
    events = [
        AuditEventBody(offset=at, **msgspec.structs.asdict(event)) for at, event in page.events
    ]
    return AuditList(events, page.next_offset, page.is_end)
