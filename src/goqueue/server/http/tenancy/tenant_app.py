"""The application as a tenant's users see it: with their own names, and nobody else's.

    Gate ──> TenantApp ──> quotas ──> permissions ──> other nodes ──> handlers

It stands first, so that everything behind it knows the names as they are inside.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec
from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.utils.path import normalize_path

from goqueue.broker import Broker
from goqueue.model.errors import BatchTooLarge, GoQueueError
from goqueue.quotas import Namespace
from goqueue.schemas.errors import SchemaNotFound
from goqueue.security import ANONYMOUS, Operation, Principal, ResourceType
from goqueue.server.http.forwarding.forwarder import send_error
from goqueue.server.http.security.demands import subject_topic
from goqueue.server.http.security.identity import PRINCIPAL_KEY, client_host
from goqueue.server.http.tenancy.answers import REGISTRY_SUBJECTS, Answer
from goqueue.server.http.tenancy.requests import body_of, scope_into

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PUBLISH: Final = frozenset(
    {
        "POST /topics/{topic}/messages",
        "POST /transactions/publish",
        "POST /transactions/messages",
    }
)
_SCHEMA_BY_ID: Final = re.compile(r"/?(?:registry/)?schemas/ids/(\d{1,10})(?:/.*)?")


class TenantApp:
    def __init__(self, app: App, unchecked: App, router: Litestar, broker: Broker) -> None:
        """`unchecked` answers questions that this application asks itself."""
        self._app = app
        self._unchecked = unchecked
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
            await self._serve(namespace, scope, receive, send)
        except GoQueueError as error:
            await send_error(send, error)

    async def _serve(
        self, namespace: Namespace, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            path = normalize_path(scope["path"])
            template = self._router.asgi_router.handle_routing(path, scope["method"])[4]
        except HTTPException:
            await self._app(scope, receive, send)  # there is no such route, and it says so
            return
        if (found := _SCHEMA_BY_ID.fullmatch(path)) is not None:
            await self._check_schema(int(found[1]), namespace, scope)
        route = scope_into(scope, namespace, template)
        is_listing = f"{scope['method']} {path.rstrip('/')}" == REGISTRY_SUBJECTS
        receive = await body_of(scope, receive, namespace, route)
        if route in PUBLISH:
            await self._tenants.check_storage(self._tenants.get(namespace.tenant_id))
        principal, host = scope[PRINCIPAL_KEY], client_host(scope)

        def may_see(name: str) -> bool:
            return namespace.holds(name) and self._permissions.allows(
                principal, host, Operation.DESCRIBE, ResourceType.TOPIC, subject_topic(name)
            )

        answer = Answer(send, namespace, REGISTRY_SUBJECTS if is_listing else route, may_see)
        app = self._unchecked if is_listing else self._app
        await app(scope, receive, answer.send)

    async def _check_schema(self, schema_id: int, namespace: Namespace, scope: Scope) -> None:
        """Ids are the cluster's: one that no subject of the tenant uses is not there."""
        question = {
            **scope,
            "method": "GET",
            "path": f"/registry/schemas/ids/{schema_id}/subjects",
            "raw_path": b"",
            "query_string": b"deleted=true",
            PRINCIPAL_KEY: ANONYMOUS,
        }
        status, body = await ask(self._unchecked, question)
        subjects = msgspec.json.decode(body) if status == 200 else []
        if not any(namespace.holds(each) for each in subjects):
            raise SchemaNotFound(f"there is no schema with id {schema_id}")


async def ask(app: App, scope: Scope) -> tuple[int, bytes]:
    """The answer to a request without a body."""
    status, parts = 500, list[bytes]()

    async def receive() -> Event:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Event) -> None:
        nonlocal status
        status = event.get("status", status)
        parts.append(bytes(event.get("body", b"")))
        if sum(map(len, parts)) > 16 * 1024 * 1024:
            raise BatchTooLarge("an answer of more than 16 MiB")

    await app(scope, receive, send)
    return status, b"".join(parts)
