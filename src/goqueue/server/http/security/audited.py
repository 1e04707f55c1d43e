"""HTTP's part of the audit log: logins, refusals, and changes that are more than data.

Every request that is not a GET is a change, except those in `DATA`: a new route is on record until
somebody says that it need not be.
"""

from collections.abc import Mapping
from typing import Any, Final

from litestar import Request

from goqueue.broker.security.audit import Audit
from goqueue.broker.security.permissions import Permissions
from goqueue.model.errors import AuthenticationFailed, GoQueueError
from goqueue.model.ids import Instant
from goqueue.runtime import Clock
from goqueue.security import ANONYMOUS, Principal, claimed_principal
from goqueue.server.http.asgi_types import Scope
from goqueue.server.http.security.demands import template_text
from goqueue.server.http.security.identity import PRINCIPAL_KEY, client_host

DETAILS_KEY: Final = "goqueue.audit_details"  # in the scope: what a handler says it changed
SEEN_MAX: Final = 10_000
SEEN_NS: Final = 600 * 1_000_000_000  # a login is on record again after so long


# Messages, and what consumers and producers do all the time.
DATA: Final = frozenset(
    {
        "POST /topics/{topic}/messages",
        "DELETE /topics/{topic}/delayed/{partition}/{offset}",
        "POST /topics/{topic}/delayed/{partition}/{offset}",
        "POST /queues/{topic}/receive",
        "POST /queues/{topic}/ack-range",
        "POST /messages/ack",
        "POST /messages/nack",
        "POST /messages/reject",
        "POST /messages/release",
        "POST /messages/visibility",
        "POST /schedules/preview",
        "POST /groups/{group}/heartbeat",
        "POST /groups/{group}/in-flight/extend",
        "POST /groups/{group}/in-flight/release",
        "POST /groups/{group}/join",
        "POST /groups/{group}/leave",
        "POST /groups/{group}/offsets",
        "POST /groups/{group}/revoke",
        "POST /producers/init",
        "POST /producers/{producer_id}/heartbeat",
        "POST /transactions/begin",
        "POST /transactions/commit",
        "POST /transactions/abort",
        "POST /transactions/add-partition",
        "POST /transactions/publish",
        "POST /transactions/messages",
        "POST /transactions/acks",
        "POST /transactions/offsets",
        "POST /transactions/groups/{application}/abort",
        "POST /transactions/groups/{application}/attempts",
        "POST /transactions/groups/{application}/decide",
        "POST /transactions/groups/{application}/runs",
        "POST /schemas/subjects/{subject}",
        "POST /schemas/compatibility/subjects/{subject}/versions/{version}",
    }
)
_READS: Final = ("GET", "HEAD", "OPTIONS")


def set_details(request: Request[Any, Any, Any], details: str) -> None:
    """For the record of this request; without secrets."""
    scope: Any = request.scope
    scope[DETAILS_KEY] = details


class HttpAudit:
    def __init__(self, audit: Audit, permissions: Permissions, clock: Clock) -> None:
        self.is_enabled = audit.is_enabled
        self._audit = audit
        self._permissions = permissions
        self._clock = clock
        self._seen: dict[tuple[str, str], Instant] = {}  # who, and from where

    def note_refused_login(self, scope: Scope, error: GoQueueError) -> None:
        user = error.user if isinstance(error, AuthenticationFailed) else ""
        self._audit.note(
            "authentication",
            allowed=False,
            principal=claimed_principal(user),
            host=client_host(scope),
            listener="http",
            request=f"{scope['method']} {scope['path']}",
            operation=_scheme(scope),
            reason=str(error),
        )

    def note_login(self, scope: Scope) -> None:
        """At first sight, and every ten minutes: each request shows who sends it."""
        principal: Principal = scope[PRINCIPAL_KEY]
        if principal is ANONYMOUS:
            return
        who, now = (principal.name, client_host(scope)), self._clock.instant()
        last = self._seen.get(who)
        if last is not None and now - last < SEEN_NS:
            return
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()
        self._seen[who] = now
        self._audit.note(
            "authentication",
            allowed=True,
            principal=str(principal),
            host=who[1],
            listener="http",
            operation=_scheme(scope),
        )

    def note_denial(self, scope: Scope, operation: str, resource: str, reason: str) -> None:
        self._audit.note(
            "authorization",
            allowed=False,
            principal=str(scope[PRINCIPAL_KEY]),
            host=client_host(scope),
            listener="http",
            request=_request(scope),
            operation=operation,
            resource=resource or scope["path"],
            reason=reason,
        )

    def note_answer(self, scope: Scope, status: int) -> None:
        """A request that got through; 403 is on record already."""
        if scope["method"] in _READS or status == 403 or not scope.get("path_template"):
            return
        request = _request(scope)
        if request in DATA:
            return
        principal = scope.get(PRINCIPAL_KEY, ANONYMOUS)
        self._audit.note(
            "change",
            allowed=True,
            principal=str(principal),
            host=client_host(scope),
            listener="http",
            request=request,
            resource=scope["path"],
            reason=self._permissions.explain(principal),
            result="ok" if status < 400 else str(status),
            details=scope.get(DETAILS_KEY, ""),
        )


def _request(scope: Scope) -> str:
    return f"{scope['method']} {template_text(scope.get('path_template') or scope['path'])}"


def _scheme(scope: Mapping[str, Any]) -> str:
    """How the client said who it is; never what it showed."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme = value.partition(b" ")[0].lower()
            return {b"basic": "BASIC", b"bearer": "BEARER"}.get(scheme, "OTHER")
        if name == b"x-api-key":
            return "API_KEY"
    return "CERTIFICATE" if PRINCIPAL_KEY in scope.get("extensions", {}) else "NONE"
