"""The application behind its clients' quotas: who is in debt gets 429, and when to come again.

    request ──> 429 while a quota of the client is in debt ──> application ──> charge what passed

It stands before requests are passed on to other nodes: the node that a client talks to counts.
Only what went well is charged: messages that were taken, messages that were given.
"""

from typing import Final

import msgspec
from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.utils.path import normalize_path

from goqueue.broker.quotas import THROTTLE_SECONDS_MAX, Quotas
from goqueue.broker.tenants import Counts, Tenants
from goqueue.model.errors import QuotaExceeded
from goqueue.quotas import (
    CONSUME_BYTES,
    CONSUME_MESSAGES,
    PUBLISH_BYTES,
    PUBLISH_MESSAGES,
    REQUESTS,
    ClientMeter,
)
from goqueue.security import ANONYMOUS, Principal
from goqueue.server.http.asgi_types import App, Event, Receive, Scope, Send
from goqueue.server.http.forwarding.forwarder import send_error
from goqueue.server.http.security.demands import template_text
from goqueue.server.http.security.identity import PRINCIPAL_KEY

CLIENT_ID_HEADER: Final = b"x-client-id"  # whose quota counts; Kafka's clients have `client.id`
CLIENT_ID_LENGTH_MAX: Final = 249
FREE: Final = frozenset({"/health", "/healthz", "/livez", "/readyz"})
EVENT: Final = b"event: message\n"

PUBLISH_ROUTES: Final = frozenset(
    {
        "POST /topics/{topic}/messages",
        "POST /transactions/publish",
        "POST /transactions/messages",
    }
)
CONSUME_ROUTES: Final = frozenset(
    {
        "GET /topics/{topic}/messages",
        "GET /topics/{topic}/partitions/{partition}/messages",
        "GET /topics/{topic}/dlq",
        "GET /topics/{topic}/dlq/{partition}/{offset}",
        "GET /groups/{group}/poll",
        "GET /queues/{topic}/peek",
        "GET /queues/{topic}/stream",
        "POST /queues/{topic}/receive",
    }
)
_PUBLISHING: Final = PUBLISH_BYTES, PUBLISH_MESSAGES
_CONSUMING: Final = CONSUME_BYTES, CONSUME_MESSAGES


class _Listed(msgspec.Struct):
    """How many, without a look at what they are."""

    messages: list[msgspec.Raw] | None = None


class MeteredApp:
    def __init__(self, app: App, router: Litestar, quotas: Quotas, tenants: Tenants) -> None:
        self._app = app
        self._tenants = tenants
        self._router = router
        self._quotas = quotas

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        meter = self._meter_of(scope) if self._quotas.are_set else None
        tenant_id = self._tenants.id_of(scope.get(PRINCIPAL_KEY, ANONYMOUS))
        is_free = meter is None or (meter.is_empty and not tenant_id)
        if meter is None or is_free or scope["path"] in FREE:
            await self._app(scope, receive, send)
            return
        counts = self._tenants.counts_of(tenant_id) if tenant_id else Counts()
        route = self._route(scope)
        bytes_key, messages_key = _PUBLISHING if route in PUBLISH_ROUTES else _CONSUMING
        is_data = route in PUBLISH_ROUTES or route in CONSUME_ROUTES
        keys = (REQUESTS, bytes_key, messages_key) if is_data else (REQUESTS,)
        try:
            self._check(meter, keys)
        except QuotaExceeded as error:
            counts.throttled += 1
            await send_error(send, error)
            return
        meter.take(REQUESTS, 1, self._quotas.clock.instant())
        if not is_data:
            await self._app(scope, receive, send)
        elif route in PUBLISH_ROUTES:
            taking = _Publishing(self._quotas, meter, counts, receive, send)
            await self._app(scope, taking.receive, taking.send)
        else:
            giving = _Consuming(self._quotas, meter, counts, send)
            await self._app(scope, receive, giving.send)

    def _meter_of(self, scope: Scope) -> ClientMeter:
        principal: Principal = scope.get(PRINCIPAL_KEY, ANONYMOUS)
        client_id = next((v for name, v in scope["headers"] if name == CLIENT_ID_HEADER), b"")
        text = client_id[:CLIENT_ID_LENGTH_MAX].decode("latin-1")
        return self._quotas.meter_of(principal, text)

    def _route(self, scope: Scope) -> str:
        try:
            path = normalize_path(scope["path"])
            found = self._router.asgi_router.handle_routing(path, scope["method"])
        except HTTPException:
            return ""
        return f"{scope['method']} {template_text(found[4])}"

    def _check(self, meter: ClientMeter, keys: tuple[str, ...]) -> None:
        now = self._quotas.clock.instant()
        for key in keys:
            wait_ns = meter.wait_ns(key, now)
            if wait_ns:
                self._quotas.note_throttled(key)
                raise QuotaExceeded(key, wait_ns / 1e9)


class _Publishing:
    """What a request brings, charged if it is taken."""

    def __init__(
        self,
        quotas: Quotas,
        meter: ClientMeter,
        counts: Counts,
        receive: Receive,
        send: Send,
    ) -> None:
        self._counts = counts
        self._quotas = quotas
        self._meter = meter
        self._receive = receive
        self._send = send
        self._size = 0
        self._parts: list[bytes] = []

    async def receive(self) -> Event:
        event = await self._receive()
        body = event.get("body", b"")
        self._size += len(body)
        self._parts.append(body)
        return event

    async def send(self, event: Event) -> None:
        if event["type"] == "http.response.start" and event["status"] < 300:
            now, messages = self._quotas.clock.instant(), _count(b"".join(self._parts))
            self._meter.take(PUBLISH_BYTES, self._size, now)
            self._meter.take(PUBLISH_MESSAGES, messages, now)
            self._counts.bytes_published += self._size
            self._counts.messages_published += messages
        await self._send(event)


class _Consuming:
    """What an answer gives, charged as it goes."""

    def __init__(self, quotas: Quotas, meter: ClientMeter, counts: Counts, send: Send) -> None:
        self._counts = counts
        self._quotas = quotas
        self._meter = meter
        self._send = send
        self._is_charged = False
        self._is_stream = False

    async def send(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._is_charged = event["status"] < 300
            kind = dict(event["headers"]).get(b"content-type", b"")
            self._is_stream = kind.startswith(b"text/event-stream")
        await self._send(event)
        body = event.get("body", b"")
        if body and self._is_charged:
            await self._charge(body)

    async def _charge(self, body: bytes) -> None:
        clock, waits_ns = self._quotas.clock, 0
        waits_ns = self._meter.take(CONSUME_BYTES, len(body), clock.instant())
        count = body.count(EVENT) if self._is_stream else _count(body)
        waits_ns = max(waits_ns, self._meter.take(CONSUME_MESSAGES, count, clock.instant()))
        self._counts.bytes_consumed += len(body)
        self._counts.messages_consumed += count
        if self._is_stream and waits_ns:
            self._quotas.note_throttled(CONSUME_BYTES)
            await clock.sleep(min(waits_ns / 1e9, THROTTLE_SECONDS_MAX))


def _count(body: bytes) -> int:
    """Of messages in a list of them; what has no list is one."""
    try:
        found = msgspec.json.decode(body, type=_Listed)
    except msgspec.DecodeError:
        return 1
    return 1 if found.messages is None else len(found.messages)
