"""The application, told who asks: whoever records a message's journey reads it."""

from typing import Final

from goqueue.broker.traces.requester import Requester, requester
from goqueue.runtime import Clock
from goqueue.server.http.asgi_types import App, Receive, Scope, Send

CLIENT_HEADER: Final = b"x-client-id"
AGENT_HEADER: Final = b"user-agent"
CLIENT_LENGTH_MAX: Final = 100


class RequestingApp:
    def __init__(self, app: App, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            requester.set(requester_of(scope, self._clock.instant()))
        await self._app(scope, receive, send)


def requester_of(scope: Scope, received_ns: int) -> Requester:
    """The client by its `X-Client-Id`, else by the program that it says it is."""
    client = scope.get("client")
    address = "" if not client else f"{client[0]}:{client[1]}"
    agent = name = b""
    for key, value in scope["headers"]:
        if key == CLIENT_HEADER:
            name = value
        elif key == AGENT_HEADER:
            agent = value.split(b" ", 1)[0]
    return Requester(address, (name or agent)[:CLIENT_LENGTH_MAX].decode("latin-1"), received_ns)
