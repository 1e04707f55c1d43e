"""The application as a tenant's users see it: with their own names, and nobody else's.

    Gate ──> TenantApp ──> quotas ──> permissions ──> other nodes ──> handlers

It stands first, so that everything behind it knows the names as they are inside.
"""

from functools import partial

from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.utils.path import normalize_path

from goqueue.broker import Broker
from goqueue.model.errors import GoQueueError
from goqueue.quotas import Namespace
from goqueue.security import ANONYMOUS, Operation, Principal, ResourceType
from goqueue.server.http.asgi_types import App, Receive, Scope, Send
from goqueue.server.http.forwarding.forwarder import send_error
from goqueue.server.http.quotas.metered_app import PUBLISH_ROUTES
from goqueue.server.http.security.demands import subject_topic
from goqueue.server.http.security.identity import PRINCIPAL_KEY, client_host
from goqueue.server.http.security.stream_guard import StreamGuard
from goqueue.server.http.tenancy.answers import Answer
from goqueue.server.http.tenancy.requests import body_of, scope_into


class TenantApp:
    def __init__(self, app: App, router: Litestar, broker: Broker) -> None:
        self._app = app
        self._router = router
        self._tenants = broker.tenants
        self._permissions = broker.permissions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal = scope.get(PRINCIPAL_KEY, ANONYMOUS)
        if not (self._tenants.are_set or principal.tenant):
            await self._app(scope, receive, send)
            return
        try:
            namespace = self._tenants.namespace_of(principal)
            if namespace is None:
                await self._app(scope, receive, send)
                return
            guard = StreamGuard(partial(self._check, principal), receive, send)
            await self._serve(namespace, scope, guard.receive, guard.send)
        except GoQueueError as error:
            await send_error(send, error)

    async def _check(self, principal: Principal) -> None:
        self._tenants.namespace_of(principal)

    async def _serve(
        self, namespace: Namespace, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            path = normalize_path(scope["path"])
            template = self._router.asgi_router.handle_routing(path, scope["method"])[4]
        except HTTPException:
            await self._app(scope, receive, send)  # there is no such route, and it says so
            return
        route = scope_into(scope, namespace, template)
        receive = await body_of(scope, receive, namespace, route)
        if route in PUBLISH_ROUTES:
            await self._tenants.check_storage(self._tenants.get(namespace.tenant_id))
        principal, host = scope[PRINCIPAL_KEY], client_host(scope)

        def may_see(name: str) -> bool:
            return namespace.holds(name) and self._permissions.allows(
                principal, host, Operation.DESCRIBE, ResourceType.TOPIC, subject_topic(name)
            )

        answer = Answer(send, namespace, route, may_see)
        await self._app(scope, receive, answer.send)
