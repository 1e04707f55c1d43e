"""Every request about the audit log."""

from goqueue.api.audit import AuditKindName, AuditList
from goqueue.client.http.calls.call import Call, get


def search_audit(
    *,
    kind: AuditKindName | None = None,
    allowed: bool | None = None,
    principal: str | None = None,
    host: str | None = None,
    operation: str | None = None,
    resource: str | None = None,
    since: int | str | None = None,
    until: int | str | None = None,
    offset: int | None = None,
    limit: int = 100,
) -> Call[AuditList]:
    """The last events that match; with `since` or `offset` the first ones from there."""
    query = {
        "kind": kind,
        "allowed": None if allowed is None else str(allowed).lower(),
        "principal": principal,
        "host": host,
        "operation": operation,
        "resource": resource,
        "since": since,
        "until": until,
        "offset": offset,
        "limit": limit,
    }
    return get("/admin/audit", AuditList, query)
