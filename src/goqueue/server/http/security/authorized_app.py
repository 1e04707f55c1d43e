"""The application behind its permissions: what its caller may not do, does not reach it.

It stands before requests are passed on to other nodes, so that a refusal does not depend on
whether what it is about is there, or where.
"""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.utils.path import normalize_path

from goqueue.broker.security.permissions import Permissions
from goqueue.model.errors import AccessDenied, GoQueueError
from goqueue.security import Operation, Principal, ResourceType
from goqueue.server.http.asgi_types import App, Receive, Scope, Send
from goqueue.server.http.forwarding.forwarder import send_error
from goqueue.server.http.forwarding.transaction_routing import ReadBody
from goqueue.server.http.security.audited import HttpAudit
from goqueue.server.http.security.demands import CREATING, DEMANDS, Asked, Demand, template_text
from goqueue.server.http.security.identity import PRINCIPAL_KEY, client_host
from goqueue.server.http.security.registry_demands import REGISTRY_TEMPLATES, registry_demands
from goqueue.server.http.security.stream_guard import StreamGuard
from goqueue.server.http.tenancy.demands import TENANT_DEMANDS

QUERY_FIELDS_MAX: Final = 100


class AuthorizedApp:
    def __init__(
        self,
        app: App,
        router: Litestar,
        permissions: Permissions,
        audit: HttpAudit,
        has_topic: Callable[[str], bool],
    ) -> None:
        self._has_topic = has_topic
        self._app = app
        self._router = router
        self._permissions = permissions
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            receive = await self._check(scope, receive)
        except GoQueueError as error:
            await send_error(send, error)
            return
        guard = StreamGuard(lambda: self._check(scope, receive), receive, send)
        await self._app(scope, guard.receive, guard.send)

    async def _check(self, scope: Scope, receive: Receive) -> Receive:
        """From where the body comes then; raises `AccessDenied`."""
        principal: Principal = scope[PRINCIPAL_KEY]
        if self._permissions.is_admin(principal):
            return receive
        try:
            path = normalize_path(scope["path"])
            found = self._router.asgi_router.handle_routing(path, scope["method"])
        except HTTPException:
            return receive  # there is no such route, and it says so
        _, _, _, parameters, template = found
        demands = _demands_of(scope["method"], template, parameters)
        if self._permissions.is_tenants(principal):
            route = f"{scope['method']} {template_text(template)}"
            demands = TENANT_DEMANDS.get(route, demands)
        scope["path_template"] = template
        if demands is None:
            text = f"{principal} is no administrator"
            self._audit.note_denial(scope, "ALL", "", text)
            raise AccessDenied(text)
        body: Any = None
        if any(each.needs_body for each in demands):
            reader = ReadBody(receive)
            receive, body = reader, _decode(await reader.read())
        fields = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=QUERY_FIELDS_MAX)
        asked = Asked(parameters, fields, body)
        self._demand(scope, demands, asked)
        if f"{scope['method']} {template_text(template)}" in CREATING:
            self._demand_creation(scope, demands, asked)
        return receive

    def _demand_creation(self, scope: Scope, demands: list[Demand], asked: Asked) -> None:
        """Of topics that are missing; who may create all of them may create these."""
        names = {
            name
            for each in demands
            if each.resource_type is ResourceType.TOPIC and each.operation is Operation.WRITE
            for name in each.names(asked)
        }
        missing = sorted(name for name in names if not self._has_topic(name))
        principal, host = scope[PRINCIPAL_KEY], client_host(scope)
        if missing and not self._permissions.allows_cluster(principal, host, Operation.CREATE):
            create = Demand(Operation.CREATE, ResourceType.TOPIC, lambda _: missing)
            self._demand(scope, [create], asked)

    def _demand(self, scope: Scope, demands: list[Demand], asked: Asked) -> None:
        principal, host = scope[PRINCIPAL_KEY], client_host(scope)
        for each in demands:
            for name in each.names(asked):
                if not self._permissions.allows(
                    principal, host, each.operation, each.resource_type, name
                ):
                    kind, shown = each.resource_type.name.lower(), name[:249]
                    text = f"{principal} lacks {each.operation.name} on {kind.replace('_', ' ')}"
                    reason = f"{text} {shown!r}"
                    self._audit.note_denial(scope, each.operation.name, f"{kind}:{shown}", reason)
                    raise AccessDenied(reason)


def _demands_of(method: str, template: str, parameters: dict[str, Any]) -> list[Demand] | None:
    """None: for administrators only."""
    if template in REGISTRY_TEMPLATES:
        return registry_demands(method, str(parameters.get("rest", "")))
    return DEMANDS.get(f"{method} {template_text(template)}")


def _decode(data: bytes | None) -> Any:
    try:
        return msgspec.json.decode(data) if data else None
    except msgspec.DecodeError:
        return None  # the handler says what is wrong with it
