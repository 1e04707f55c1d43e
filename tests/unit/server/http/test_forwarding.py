"""A request that belongs to another node: how it travels, and what its client gets."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from goqueue.model.errors import GoQueueError, NodeUnreachable, Uncertain
from goqueue.model.ids import NodeId
from goqueue.runtime import RealClock
from goqueue.runtime.randomness import RealRandom
from goqueue.server.http.asgi.app import API
from goqueue.server.http.forwarding import forwarder as forwarding
from goqueue.server.http.forwarding.calls import FORWARDED_KEY, PART_BYTES_MAX, HttpCalls
from goqueue.server.http.forwarding.forwarder import Forwarder
from goqueue.server.http.forwarding.routing_table import FAMILIES, PATHS, Place, place_of
from goqueue.wire.node_messages import NodeRequest

Event = MutableMapping[str, Any]
App = Callable[[Any, Any, Any], Awaitable[None]]


class OneNode:
    """All peers are this node, whose calls are answered by an application."""

    def __init__(self, app: App, error: GoQueueError | None = None) -> None:
        self.clock = RealClock()
        self._handlers = HttpCalls(app).handlers
        self._error = error
        self.asked: list[str] = []

    def of(self, _: NodeId) -> "OneNode":
        return self

    async def connect(self, _seconds: float) -> None:
        if isinstance(self._error, NodeUnreachable):
            raise self._error

    async def ask(self, request: NodeRequest[Any], _seconds: float) -> Any:
        self.asked.append(request.api.name)
        if self._error is not None:
            raise self._error
        return await self._handlers[request.api](NodeId(1), request)


class Client:
    def __init__(self, body: bytes = b"") -> None:
        self._body: bytes | None = body
        self.left = asyncio.Event()
        self.sent: list[Event] = []
        self.has_answer = asyncio.Event()

    async def receive(self) -> Event:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Event) -> None:
        self.sent.append(event)
        if event.get("body"):
            self.has_answer.set()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(each["body"] for each in self.sent[1:])


async def forward(
    app: App,
    client: Client,
    error: GoQueueError | None = None,
    find: Callable[[], NodeId | None] = lambda: NodeId(2),
) -> OneNode:
    """To node 2, unless it is found elsewhere; this node has the same application."""
    node = OneNode(app, error)
    scope = {
        "method": "POST",
        "path": "/topics/a b/messages",
        "query_string": b"x=1",
        "headers": [(b"host", b"h"), (b"content-encoding", b"gzip"), (b"x-mine", b"1")],
        "client": ("10.0.0.7", 4000),
        "server": ("10.0.0.1", 8080),
        "scheme": "https",
    }
    forwarder = Forwarder(node, RealRandom())  # type: ignore[arg-type] # as far as it is asked
    await forwarder.forward(find, app, scope, client.receive, client.send)
    return node


async def test_a_request_arrives_whole_and_its_answer_comes_back():
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope, body=(await receive())["body"])
        await send({"type": "http.response.start", "status": 201, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"done"})

    client = Client(b"hello")
    await forward(app, client)
    assert (client.status, client.body) == (201, b"done")
    assert client.headers == {b"a": b"b", b"x-goqueue-served-by": b"2"}
    assert (seen["method"], seen["path"], seen["query_string"]) == (
        "POST",
        "/topics/a b/messages",
        b"x=1",
    )
    assert (seen["body"], seen["scheme"], seen[FORWARDED_KEY]) == (b"hello", "https", 1)
    assert tuple(seen["client"]) == ("10.0.0.7", 4000)
    assert dict(seen["headers"]) == {b"host": b"h", b"x-mine": b"1", b"content-length": b"5"}


async def test_a_large_answer_is_whole_for_the_client():
    large = b"x" * (3 * PART_BYTES_MAX + 7)

    async def app(_: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": large})

    client = Client()
    node = await forward(app, client)
    assert len(client.sent) == 2
    assert client.body == large
    assert node.asked == ["HTTP_CALL", "HTTP_MORE", "HTTP_MORE", "HTTP_MORE"]


async def test_a_stream_flows_until_its_client_leaves():
    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"last", "more_body": False})

    client = Client()
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(forward(app, client))
        await client.has_answer.wait()
        assert client.body == b"first"
        client.left.set()
    assert client.body == b"firstlast"


async def test_a_long_poll_ends_when_its_client_leaves():
    began = asyncio.Event()

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        began.set()
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"[]"})

    client = Client()
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(forward(app, client))
        await began.wait()
        client.left.set()
    assert client.body == b"[]"


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [(NodeUnreachable("no route"), 503, b"1"), (Uncertain("no answer"), 504, None)],
)
async def test_the_client_hears_whether_anything_may_have_happened(
    error: GoQueueError, status: int, retry_after: bytes | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(forwarding, "REACH_SECONDS", 0.1)

    async def app(*_: Any) -> None:
        raise AssertionError

    client = Client(b"{}")
    await forward(app, client, error)
    assert client.status == status
    assert client.headers.get(b"retry-after") == retry_after
    told = json.loads(client.body)["error"]
    assert told["code"] == error.code
    assert "node 2" in told["message"]


async def test_a_request_that_reached_nobody_goes_to_whom_it_belongs_by_then():
    async def app(_: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"got " + body})

    places = iter([NodeId(2), NodeId(2), None])
    client = Client(b"hello")
    node = await forward(app, client, NodeUnreachable("it is gone"), lambda: next(places))
    assert (client.status, client.body) == (200, b"got hello")
    assert node.asked == []


async def test_a_body_that_fits_no_frame_is_refused(monkeypatch: pytest.MonkeyPatch):
    async def app(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(forwarding, "BODY_BYTES_MAX", 10)
    client = Client(b"x" * 11)
    node = await forward(app, client)
    assert (client.status, node.asked) == (413, [])


def test_every_operation_has_its_place():
    templates = {
        "/".join(part.split(":")[0] + "}" if ":" in part else part for part in path.split("/"))
        for handler in API
        for path in handler.paths
    }
    assert {"/" + each.split("/")[1] for each in templates} <= FAMILIES.keys() | {"/stats"}
    assert PATHS.keys() <= templates
    assert place_of("/topics/{topic}/partitions/{partition}/messages") is Place.PARTITION
    assert place_of("/topics/{topic}") is Place.HERE
    assert place_of("/groups/{group}/poll") is Place.GROUP
