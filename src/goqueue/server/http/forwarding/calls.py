"""HTTP requests that another node took, carried out here.

    HttpCall ──> the application, as if its client were here ──> the first part of the answer
    HttpMore ──> the next part; nothing yet, when there is none for a while
    HttpLeave ─> the client has gone: a long poll ends, a stream ends

The other node asks for one part after the other, so it takes no more than its client does.  A call
that nobody asks about any more ends as if its client had gone.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import structlog

from goqueue.model.errors import NotLeader
from goqueue.model.ids import NodeId
from goqueue.security import ANONYMOUS, Principal
from goqueue.server.http.asgi.access import PREFIX_KEY
from goqueue.server.http.security.identity import PRINCIPAL_KEY
from goqueue.wire.node_messages import (
    HttpCall,
    HttpLeave,
    HttpMore,
    HttpPart,
    NodeApi,
    Nothing,
)

PART_BYTES_MAX: Final = 1024 * 1024
PARTS_AHEAD_MAX: Final = 4  # of a stream, that nobody has asked for
WAIT_SECONDS: Final = 5.0  # then the other node is told that there is nothing yet
FORGET_SECONDS: Final = 30.0  # after nobody asked for a part
FORWARDED_KEY: Final = "goqueue.forwarded_by"  # in the scope: the node that took the request

Event = MutableMapping[str, Any]
App = Callable[[Any, Any, Any], Awaitable[None]]
Key = tuple[NodeId, int]

_log = structlog.get_logger("goqueue.http")


class HttpCalls:
    def __init__(self, app: App) -> None:
        """`app` passes nothing on: a request makes one hop."""
        self._app = app
        self._calls: dict[Key, _Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def handlers(self) -> dict[NodeApi, Callable[[NodeId, Any], Awaitable[object]]]:
        return {
            NodeApi.HTTP_CALL: self.call,
            NodeApi.HTTP_MORE: self.more,
            NodeApi.HTTP_LEAVE: self.leave,
        }

    async def call(self, node_id: NodeId, request: HttpCall) -> HttpPart:
        call = self._calls[node_id, request.number] = _Call(request)
        call.task = asyncio.ensure_future(self._run(node_id, call))  # rule-ok: `stop`
        self._tasks.add(call.task)
        call.task.add_done_callback(self._tasks.discard)
        return await self._next_part(node_id, request.number)

    async def more(self, node_id: NodeId, request: HttpMore) -> HttpPart:
        return await self._next_part(node_id, request.number)

    async def leave(self, node_id: NodeId, request: HttpLeave) -> Nothing:
        call = self._calls.get((node_id, request.number))
        if call is not None:
            call.leave()
        return Nothing()

    async def stop(self, seconds: float) -> None:
        """Let what is under way finish for a while."""
        tasks = list(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def _next_part(self, node_id: NodeId, number: int) -> HttpPart:
        call = self._calls.get((node_id, number))
        if call is None:
            raise NotLeader(f"call {number} of node {node_id} is over, or was never heard of")
        try:
            part = await call.next_part()
        except asyncio.CancelledError:  # the other node is gone, or its connection
            self._calls.pop((node_id, number), None)
            call.leave()
            raise
        if part.is_last:
            self._calls.pop((node_id, number), None)
        return part

    async def _run(self, node_id: NodeId, call: "_Call") -> None:
        try:
            await self._app(_scope(node_id, call.request), call.receive, call.send)
        except Exception:
            _log.exception("a request of another node failed", node=node_id)
        finally:
            call.finish()
        try:
            async with asyncio.timeout(FORGET_SECONDS):
                await call.taken.wait()
        except TimeoutError:
            self._calls.pop((node_id, call.request.number), None)


class _Call:
    """One request on its way through the application."""

    def __init__(self, request: HttpCall) -> None:
        self.request = request
        self.task: asyncio.Task[None] | None = None
        self.taken = asyncio.Event()  # the last part was
        self._body: bytes | None = request.body
        self._left = asyncio.Event()  # the client has gone
        self._start: HttpPart | None = None
        self._parts: deque[HttpPart] = deque()
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_finished = False

    def leave(self) -> None:
        self._left.set()
        self._has_room.set()

    # --- the application's side -------------------------------------------------------------------

    async def receive(self) -> Event:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            headers = [(bytes(name), bytes(value)) for name, value in event["headers"]]
            self._start = HttpPart(event["status"], headers)
            return
        assert self._start is not None, "an answer starts with its status"
        body = bytes(event.get("body", b""))
        more = bool(event.get("more_body", False))
        if more:
            await self._wait_for_room()
        self._add(body, is_last=not more)

    async def _wait_for_room(self) -> None:
        """A stream waits for who reads it, and ends when nobody has for a while."""
        while len(self._parts) >= PARTS_AHEAD_MAX and not self._left.is_set():
            self._has_room.clear()
            try:
                async with asyncio.timeout(FORGET_SECONDS):
                    await self._has_room.wait()
            except TimeoutError:
                self.leave()

    def _add(self, body: bytes, *, is_last: bool) -> None:
        is_stream = not is_last or bool(self._start and self._start.is_stream)
        pieces = range(0, max(1, len(body)), PART_BYTES_MAX)
        for at in pieces:
            last = is_last and at == pieces[-1]
            piece = body[at : at + PART_BYTES_MAX]
            assert self._start is not None
            self._parts.append(
                HttpPart(self._start.status, self._start.headers, piece, last, is_stream)
            )
            self._start = HttpPart(is_stream=is_stream)  # the parts behind have no head
        self._is_finished = self._is_finished or is_last
        self._has_news.set()

    def finish(self) -> None:
        """The application is done; if it did not say so, the answer ends here."""
        if not self._is_finished:
            self._is_finished = True
            head = self._start or HttpPart(500)
            self._parts.append(HttpPart(head.status, head.headers, b"", True, head.is_stream))
            self._has_news.set()

    # --- the other node's side --------------------------------------------------------------------

    async def next_part(self) -> HttpPart:
        if not self._parts:
            self._has_news.clear()
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._has_news.wait()
            except TimeoutError:
                return HttpPart()
        part = self._parts.popleft()
        self._has_room.set()
        if part.is_last:
            self.taken.set()
        return part


def _scope(node_id: NodeId, call: HttpCall) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": call.method,
        "scheme": call.scheme,
        "path": call.path,
        "raw_path": call.path.encode(),
        "query_string": call.query,
        "root_path": "",
        "headers": call.headers,
        "client": call.client,
        "server": call.host,
        "state": {},
        PREFIX_KEY: call.prefix,
        FORWARDED_KEY: node_id,
        PRINCIPAL_KEY: Principal(call.user, call.roles, call.tenant) if call.user else ANONYMOUS,
    }
