"""Passes an HTTP request on to the node that it belongs to, and its answer back.

The request goes whole, over the cluster port.  The answer comes in parts: one that its handler gave
whole is whole for the client, too, and a stream flows.  The other node hears when the client has
gone.  A node that is not reached has done nothing: the request goes to whoever it belongs to a
moment later, which may be this node.

    not reached for a while     503 node_unreachable: nothing was done
    reached, and no answer      504 outcome_unknown: it may have been carried out
"""

import contextlib
from collections.abc import Callable
from typing import Final

import msgspec
from litestar.exceptions import HTTPException

from goqueue.api.errors import ErrorBody
from goqueue.broker.cluster.other_nodes import WaitDeadline
from goqueue.broker.cluster.peer import Peer, Peers
from goqueue.model.errors import (
    BatchTooLarge,
    GoQueueError,
    NodeUnreachable,
    NotLeader,
    Overloaded,
    Uncertain,
)
from goqueue.model.ids import NodeId
from goqueue.runtime import Random
from goqueue.runtime.tasks import owned_tasks
from goqueue.security import ANONYMOUS
from goqueue.server.http.asgi.access import PREFIX_KEY
from goqueue.server.http.asgi_types import App, Event, Receive, Scope, Send
from goqueue.server.http.errors import problem_of, retry_seconds, status_of
from goqueue.server.http.security.identity import PRINCIPAL_KEY
from goqueue.wire.node_messages import FRAME_BYTES_MAX, HttpCall, HttpLeave, HttpMore, HttpPart

SERVED_BY: Final = b"x-goqueue-served-by"
REACH_SECONDS: Final = 10.0  # until somebody is reached to whom the request belongs
ANSWER_SECONDS: Final = 15.0  # the other node says within 5 that there is nothing yet
LEAVE_SECONDS: Final = 5.0
FORWARDS_MAX: Final = 2_000  # at once, to all nodes together
FORWARDED_BYTES_MAX: Final = 256 * 1024 * 1024  # of their bodies
BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - 128 * 1024  # a frame holds the head, too

# Said by each connection for itself; the gate has unpacked the body.
_OWN_HEADERS: Final = frozenset(
    {b"connection", b"content-encoding", b"content-length", b"expect", b"keep-alive", b"te"}
    | {b"transfer-encoding", b"upgrade"}
)

FindNode = Callable[[], NodeId | None]  # to which the request belongs; None: this one


class Forwarder:
    def __init__(self, peers: Peers, random: Random) -> None:
        self._peers = peers
        # A number tells a call from those of this node's process before, which may be under way.
        self._last_number = int.from_bytes(random.bytes(6))
        self._count = 0
        self._bytes = 0

    async def forward(
        self, find_node: FindNode, serve_here: App, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Have the request carried out where it belongs, if only in a moment."""
        try:
            await self._forward(find_node, serve_here, scope, receive, send)
        except _Answered as error:  # the client has the head: what is missing shows by the end
            raise error.cause from error
        except GoQueueError as error:
            await send_error(send, error)
        except HTTPException as error:  # a body that unpacks to more than is allowed
            await send_error(send, BatchTooLarge(error.detail or "the body is too large"))

    async def _forward(
        self, find_node: FindNode, serve_here: App, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if self._count >= FORWARDS_MAX:
            raise Overloaded(f"more than {FORWARDS_MAX} requests at other nodes at once")
        self._count += 1
        body = b""
        try:
            whole = await self._read_body(receive)
            if whole is None:
                return  # its client has gone
            body = whole
            deadline = WaitDeadline(self._peers.clock, REACH_SECONDS)
            while (target := find_node()) is not None:
                try:
                    await self._pass_on(target, scope, body, receive, send, deadline.left)
                except NodeUnreachable:
                    if not await deadline.look_again():
                        raise
                else:
                    return
            await serve_here(scope, _read_again(body, receive), send)
        finally:
            self._count -= 1
            self._bytes -= len(body)

    async def _pass_on(
        self,
        target: NodeId,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
        reach_seconds: float,
    ) -> None:
        """Raises `NodeUnreachable` when the node has not seen the request."""
        peer = self._peers.of(target)
        await _reach(target, peer, scope, reach_seconds)
        self._last_number += 1
        call = _call(self._last_number, scope, body)
        async with owned_tasks() as tasks:
            watch = tasks.create_task(_tell_when_gone(receive, peer, call.number))
            try:
                await _pass_on(target, peer, call, send)
            finally:
                watch.cancel()

    async def _read_body(self, receive: Receive) -> bytes | None:
        """None when the client leaves before it is whole."""
        pieces: list[bytes] = []
        size, more = 0, True
        while more:
            event = await receive()
            if event["type"] != "http.request":
                return None
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            more = bool(event.get("more_body", False))
            if size > BODY_BYTES_MAX:
                raise BatchTooLarge(
                    f"a body of more than {BODY_BYTES_MAX} bytes, for another node of the cluster"
                )
        if self._bytes + size > FORWARDED_BYTES_MAX:
            raise Overloaded(
                f"more than {FORWARDED_BYTES_MAX} bytes of requests at other nodes at once"
            )
        self._bytes += size
        return b"".join(pieces)


def _read_again(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then what comes from the client."""
    events: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Event:
        return events.pop() if events else await receive()

    return read


async def _reach(target: NodeId, peer: Peer, scope: Scope, seconds: float) -> None:
    try:
        await peer.connect(seconds)
    except NodeUnreachable as error:
        what = f"{scope['method']} {scope['path']}"
        text = f"node {target}, to which {what} belongs, is not reached, and nothing was done"
        raise NodeUnreachable(f"{text}: {error}") from error


class _Answered(Exception):
    """It went wrong when the client had a part of the answer."""

    def __init__(self, cause: GoQueueError) -> None:
        super().__init__(str(cause))
        self.cause = cause


async def _pass_on(target: NodeId, peer: Peer, call: HttpCall, send: Send) -> None:
    what = f"{call.method} {call.path}"
    part = await _ask(target, peer, call, what)
    while not part.status:
        part = await _ask(target, peer, HttpMore(call.number), what)
    if part.is_stream:
        await send(_start(target, part))
        try:
            await _stream(target, peer, call, part, send)
        except GoQueueError as error:
            raise _Answered(error) from error
        return
    head, pieces = part, [part.body]
    while not part.is_last:
        part = await _ask(target, peer, HttpMore(call.number), what)
        pieces.append(part.body)
    await send(_start(target, head))
    await send({"type": "http.response.body", "body": b"".join(pieces), "more_body": False})


async def _stream(target: NodeId, peer: Peer, call: HttpCall, part: HttpPart, send: Send) -> None:
    while True:
        if part.body or part.is_last:
            more = not part.is_last
            await send({"type": "http.response.body", "body": part.body, "more_body": more})
        if part.is_last:
            return
        part = await _ask(target, peer, HttpMore(call.number), call.path)


async def _ask(target: NodeId, peer: Peer, request: HttpCall | HttpMore, what: str) -> HttpPart:
    try:
        return await peer.ask(request, ANSWER_SECONDS)
    except NodeUnreachable as error:
        if isinstance(request, HttpCall):
            raise
        raise _unknown(target, what, error) from error
    except (Uncertain, NotLeader) as error:
        raise _unknown(target, what, error) from error


def _unknown(target: NodeId, what: str, error: GoQueueError) -> Uncertain:
    return Uncertain(
        f"node {target} was asked for {what} and did not answer: it may have been carried out, or"
        f" be so later ({error})"
    )


async def _tell_when_gone(receive: Receive, peer: Peer, number: int) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    with contextlib.suppress(GoQueueError):
        await peer.ask(HttpLeave(number), LEAVE_SECONDS)


def _call(number: int, scope: Scope, body: bytes) -> HttpCall:
    headers = [each for each in scope["headers"] if each[0] not in _OWN_HEADERS]
    headers.append((b"content-length", b"%d" % len(body)))
    client, server = scope.get("client"), scope.get("server")
    principal = scope.get(PRINCIPAL_KEY, ANONYMOUS)
    return HttpCall(
        number,
        scope["method"],
        scope["path"],
        scope["query_string"],
        headers,
        body,
        None if client is None else (client[0], client[1]),
        scope["scheme"],
        scope.get(PREFIX_KEY, ""),
        None if server is None else (server[0], server[1] or 0),
        principal.name,
        principal.roles,
        principal.tenant,
    )


def _start(target: NodeId, part: HttpPart) -> Event:
    headers = [*part.headers, (SERVED_BY, b"%d" % target)]
    return {"type": "http.response.start", "status": part.status, "headers": headers}


async def send_error(send: Send, error: GoQueueError) -> None:
    body = msgspec.json.encode(ErrorBody(problem_of(error)))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if error.retriable:
        headers.append((b"retry-after", b"%d" % retry_seconds(error)))
    await send({"type": "http.response.start", "status": status_of(error), "headers": headers})
    await send({"type": "http.response.body", "body": body})
