"""An event stream ends when its client may no longer have it.

A request is checked when it comes; a stream goes on for as long as its client stays.  So the same
check is made again for each part of it: who deletes a key, or takes a permission away, ends the
streams that were opened with it, at the latest with the next heartbeat.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.server.http.asgi_types import Event, Receive, Send
from goqueue.server.http.errors import problem_of

EVENT_STREAM: Final = b"text/event-stream"


class StreamGuard:
    """Stands between one request and its client; whatever is no event stream passes."""

    def __init__(
        self, check: Callable[[], Awaitable[object]], receive: Receive, send: Send
    ) -> None:
        """`check` raises a `GoQueueError` when the client may not have the stream."""
        self._check = check
        self._receive = receive
        self._send = send
        self._is_stream = False
        self._is_over = False

    async def receive(self) -> Event:
        """Whoever serves the stream hears that its client has gone."""
        return {"type": "http.disconnect"} if self._is_over else await self._receive()

    async def send(self, event: Event) -> None:
        if self._is_over:
            return
        if event["type"] == "http.response.start":
            kind = dict(event["headers"]).get(b"content-type", b"")
            self._is_stream = kind.startswith(EVENT_STREAM)
        elif self._is_stream:
            try:
                await self._check()
            except GoQueueError as error:
                self._is_over = True
                text = b"event: error\ndata: %s\n\n" % msgspec.json.encode(problem_of(error))
                event = {"type": "http.response.body", "body": text, "more_body": False}
        await self._send(event)
