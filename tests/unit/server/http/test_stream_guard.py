"""An event stream ends when what let its client in is gone."""

from typing import Any

import pytest

from goqueue.model.errors import AccessDenied
from goqueue.server.http.security.stream_guard import StreamGuard

START = {"type": "http.response.start", "status": 200}


class Request:
    """One, whose permission can be taken away."""

    def __init__(self, kind: bytes) -> None:
        self.is_allowed = True
        self.sent: list[Any] = []
        self.guard = StreamGuard(self.check, self.receive, self.send)
        self.start = {**START, "headers": [(b"content-type", kind)]}

    async def check(self) -> None:
        if not self.is_allowed:
            raise AccessDenied("it is gone")

    async def receive(self) -> Any:
        return {"type": "http.request"}

    async def send(self, event: Any) -> None:
        self.sent.append(event)

    async def write(self, body: bytes) -> None:
        await self.guard.send({"type": "http.response.body", "body": body, "more_body": True})


async def test_a_stream_ends_with_the_error_and_its_server_hears_that_the_client_left():
    request = Request(b"text/event-stream; charset=utf-8")
    await request.guard.send(request.start)
    await request.write(b"data: 1\n\n")
    request.is_allowed = False
    await request.write(b"data: secret\n\n")
    await request.write(b"data: secret\n\n")
    last = request.sent[-1]
    assert last["body"].startswith(b"event: error\ndata: ")
    assert b"it is gone" in last["body"]
    assert last["more_body"] is False
    assert [each.get("body") for each in request.sent[1:2]] == [b"data: 1\n\n"]
    assert len(request.sent) == 3
    assert await request.guard.receive() == {"type": "http.disconnect"}


@pytest.mark.parametrize("kind", [b"application/json", b""])
async def test_other_answers_pass(kind: bytes):
    request = Request(kind)
    request.is_allowed = False
    await request.guard.send(request.start)
    await request.write(b"{}")
    assert len(request.sent) == 2
    assert await request.guard.receive() == {"type": "http.request"}
