"""What every request passes, whatever its route: bounds, origin, headers, timing.

too many requests or bytes of bodies at once       503, with Retry-After
a name that is not ours, a page of another origin  400, 421, 403: see `access`
/v1/…                                              the same as without it
every answer                                       security headers, a newline behind JSON, gzip
every request                                      its time in the metrics, by route, and in the log
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from goqueue.api.errors import ErrorBody, Problem
from goqueue.model.errors import AuthenticationFailed, Overloaded
from goqueue.runtime import Clock
from goqueue.server.http.asgi.access import Access, Headers
from goqueue.server.http.asgi.compression import (
    COMPRESSED_BYTES_MIN,
    Inflater,
    accepts_gzip,
    compress,
    is_compressible,
    may_compress,
)
from goqueue.server.http.asgi_types import App, Event, Receive, Scope, Send
from goqueue.server.http.errors import RETRY_AFTER_SECONDS, problem_of, status_of
from goqueue.server.http.security.audited import HttpAudit
from goqueue.server.http.security.identity import CHALLENGE, PRINCIPAL_KEY, Identification
from goqueue.server.http.security.stream_guard import StreamGuard
from goqueue.server.metrics import Metrics
from goqueue.server.server_log import ServerLog

VERSION_PREFIX: Final = "/v1/"
ALWAYS_SERVED: Final = frozenset({"/health", "/healthz", "/livez", "/readyz", "/metrics"})
BODY_BYTES_AT_ONCE_MAX: Final = 256 * 1024 * 1024  # of all requests together
CLIENT_LEFT: Final = 499  # in the metrics, for a request whose client did not wait for the answer
_BROWSER: Final = frozenset({b"origin", b"sec-fetch-site"})
_FORMS: Final = (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data")
_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_STRICT_POLICY: Final = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_HEADERS_AND_POLICY: Final = [*_HEADERS, _STRICT_POLICY]


class Gate:
    """The outermost ASGI application."""

    def __init__(
        self,
        app: App,
        *,
        access: Access,
        identification: Identification,
        audit: HttpAudit,
        compress: str,
        body_bytes_max: int,
        clock: Clock,
        metrics: Metrics,
        server_log: ServerLog,
        requests_max: int,
        connection_count: Callable[[], int],
        api_roots: frozenset[str],
        allowed_methods: Callable[[str], list[str]],
    ) -> None:
        self._app = app
        self.access = access
        self._identification = identification
        self._audit = audit
        self.compress = compress
        self.body_bytes_max = body_bytes_max
        self._clock = clock
        self._metrics = metrics
        self._server_log = server_log
        self._requests_max = requests_max
        self._connection_count = connection_count
        self._api_roots = api_roots
        self._allowed_methods = allowed_methods
        self._requests = 0
        self._body_bytes = 0  # received and not yet answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "there is no other kind of connection here"
        if scope["method"] == "HEAD":  # as GET; the server below leaves the body out
            scope = {**scope, "method": "GET"}
        headers = dict(scope["headers"])
        refused = self.access.refusal(scope, headers)
        scope["path"] = self._strip_version(scope["path"])
        passing = _Passing(scope, headers, receive, send, self)
        started = self._clock.instant()
        self._requests += 1
        try:
            refusal = refused or self._refusal(scope, headers)
            if refusal is not None:
                await _answer(passing.send, *refusal)
            elif scope["method"] == "OPTIONS":
                await self._answer_options(scope, headers, passing.send)
            else:
                await self._serve(scope, headers, passing)
        finally:
            self._requests -= 1
            self._body_bytes -= passing.body_bytes
            seconds = (self._clock.instant() - started) / 1e9
            route = str(scope.get("path_template") or "none")
            self._metrics.observe_http_request(_method(scope), route, passing.status, seconds)
            if self._server_log.wants_requests:
                self._server_log.http_request(
                    method=scope["method"],
                    path=scope["path"],
                    status=passing.status,
                    seconds=seconds,
                    peer="{}:{}".format(*(scope.get("client") or ("?", 0))),
                )

    async def _serve(self, scope: Scope, headers: Headers, passing: "_Passing") -> None:
        identify = partial(self._identification.identify, scope, headers)
        try:
            scope[PRINCIPAL_KEY] = await identify()
        except (AuthenticationFailed, Overloaded) as error:
            self._audit.note_refused_login(scope, error)
            await _answer(passing.send, status_of(error), problem_of(error))
            return
        guard = StreamGuard(identify, passing.receive, passing.send)
        if not self._audit.is_enabled:
            await self._app(scope, guard.receive, guard.send)
            return
        self._audit.note_login(scope)
        await self._app(scope, guard.receive, guard.send)
        self._audit.note_answer(scope, passing.status)

    def _strip_version(self, path: str) -> str:
        """The API at `/v1` is the one at `/`; what is about the server has no version."""
        if path.startswith(VERSION_PREFIX):
            root = path[len(VERSION_PREFIX) :].partition("/")[0]
            if root in self._api_roots:
                return path[len(VERSION_PREFIX) - 1 :]
        return path

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, Problem] | None:
        if scope["path"] in ALWAYS_SERVED:
            return None
        busy = self._requests > self._requests_max
        if busy or self._connection_count() > self._requests_max:
            error = Overloaded(
                f"more than {self._requests_max} requests or connections at once"
                " (setting http.connections_max)"
            )
            return 503, problem_of(error)
        encoding = headers.get(b"content-encoding")
        if encoding is not None and encoding.lower() not in (b"identity", b"gzip"):
            text = (
                f"a body encoded as {encoding.decode('latin-1').lower()[:40]!r}:"
                " send it plain or as gzip"
            )
            return 415, Problem("unsupported_media_type", text)
        return _refuse_form(scope, headers)

    async def _answer_options(self, scope: Scope, headers: Headers, send: Send) -> None:
        if not self._allowed_methods(scope["path"]):
            await _answer(send, 404, Problem("no_such_path", "Not Found"))
            return
        allow = self.allow_header(scope["path"])
        answered = [allow, *self.access.preflight_headers(headers, allow[1])]
        await send({"type": "http.response.start", "status": 204, "headers": answered})
        await send({"type": "http.response.body", "body": b""})

    def allow_header(self, path: str) -> tuple[bytes, bytes]:
        methods = self._allowed_methods(path)
        also = ["HEAD", "OPTIONS"] if "GET" in methods else ["OPTIONS"]
        return b"allow", ", ".join(methods + also).encode()

    def take_bytes(self, count: int) -> None:
        self._body_bytes += count
        if self._body_bytes > BODY_BYTES_AT_ONCE_MAX:
            raise Overloaded(f"more than {BODY_BYTES_AT_ONCE_MAX} bytes of request bodies at once")


class _Passing:
    """One request on its way through."""

    def __init__(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send, gate: Gate
    ) -> None:
        self.status = 0
        self.body_bytes = 0
        self._receive = receive
        self._send = send
        self._gate = gate
        self._scope = scope
        self._headers = headers
        self._path = scope["path"]
        self._start: Event | None = None  # of the answer; it waits for the body
        self._inflater: Inflater | None = None
        if headers.get(b"content-encoding", b"").lower() == b"gzip":
            self._inflater = Inflater(gate.body_bytes_max)

    async def receive(self) -> Event:
        event = await self._receive()
        if event["type"] == "http.disconnect" and not self.status:
            self.status = CLIENT_LEFT
        body = event.get("body")
        if self._inflater is not None and event["type"] == "http.request":
            is_last = not event.get("more_body", False)
            body = await self._inflater.feed(body or b"", is_last=is_last)
            event = {**event, "body": body}
        if body:
            self.body_bytes += len(body)
            self._gate.take_bytes(len(body))
        return event

    async def send(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self.status = self.status or event["status"]
            self._start = event
            return
        if self._start is not None:
            start, self._start = self._start, None
            if event.get("more_body", False):
                start["headers"] = self._complete_headers(start, dict(start["headers"]))
            else:
                event["body"] = await self._finish(start, event.get("body", b""))
            await self._send(start)
        await self._send(event)

    def _complete_headers(self, start: Event, given: Headers) -> list[tuple[bytes, bytes]]:
        """The headers of the answer, with what every answer has; `given` are those of `start`."""
        has_policy = b"content-security-policy" in given
        added = _HEADERS if has_policy else _HEADERS_AND_POLICY
        headers = [*start["headers"], *added, *self._gate.access.cors_headers(self._headers)]
        if start["status"] == 405:
            headers = [header for header in headers if header[0] != b"allow"]
            headers.append(self._gate.allow_header(self._path))
        return headers

    async def _finish(self, start: Event, body: bytes) -> bytes:
        """The body of an answer that is whole: with a newline, and compressed where that helps."""
        given = dict(start["headers"])
        headers = start["headers"] = self._complete_headers(start, given)
        if not body or b"content-encoding" in given:
            return body
        kind = given.get(b"content-type", b"")
        if kind.startswith(b"application/json"):
            body += b"\n"
        if len(body) >= COMPRESSED_BYTES_MIN and self._may_compress(kind):
            headers.append((b"vary", b"accept-encoding"))
            if accepts_gzip(self._headers):
                headers.append((b"content-encoding", b"gzip"))
                body = await compress(body)
        length = b"content-length", b"%d" % len(body)
        if b"content-length" in given:
            headers[headers.index((b"content-length", given[b"content-length"]))] = length
        else:
            headers.append(length)
        return body

    def _may_compress(self, kind: bytes) -> bool:
        route = str(self._scope.get("path_template") or "")
        return is_compressible(kind) and may_compress(
            self._gate.compress, self._scope["method"], route
        )


def _refuse_form(scope: Scope, headers: Headers) -> tuple[int, Problem] | None:
    """A browser says what it sends: a page can send a form anywhere without being asked.

    curl and programs may leave it out; they have no reader whose rights a page could use.
    """
    if scope["method"] in ("GET", "OPTIONS") or not _BROWSER & headers.keys():
        return None
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind not in _FORMS:
        return None
    text = f"a page sends application/json, not {kind.decode('latin-1')}"
    return 415, Problem("unsupported_media_type", text)


def _method(scope: Scope) -> str:
    """As it is, when it is one of the usual: a label must not take any value."""
    method: str = scope["method"]
    return method if method in ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD") else "other"


async def _answer(send: Send, status: int, problem: Problem) -> None:
    body = msgspec.json.encode(ErrorBody(problem))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append(CHALLENGE)
    if status in (429, 503):
        headers.append((b"retry-after", str(RETRY_AFTER_SECONDS).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
