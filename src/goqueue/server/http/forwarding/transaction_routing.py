"""Requests about a transaction that their query or body names, not their path.

The body is read here, and given to whoever carries the request out: the application, or the node
that the request is passed on to.
"""

from collections.abc import MutableMapping
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from goqueue.broker import Broker
from goqueue.model.errors import BatchTooLarge
from goqueue.model.ids import NodeId
from goqueue.server.http.asgi_types import Event, Receive, Scope
from goqueue.server.http.forwarding.forwarder import BODY_BYTES_MAX, FindNode

NAME: Final = "transactional_id"


class Named(msgspec.Struct, frozen=True):
    """What a body may say of the transaction."""

    transactional_id: str | None = None
    producer_id: int | None = None


_decoder: Final = msgspec.json.Decoder(Named)


async def find_coordinator(broker: Broker, scope: Scope, body: bytes) -> FindNode:
    """How to find the node; it finds None when the request names nothing that is known."""
    query = parse_qs(scope["query_string"].decode("latin-1"))
    if NAME in query:
        return partial(broker.transaction_coordinator, query[NAME][0])
    try:
        named = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        named = Named()
    if named.transactional_id:
        return partial(broker.transaction_coordinator, named.transactional_id)
    found: NodeId | None = None
    if named.producer_id is not None:
        found = await broker.transaction_peers.find_coordinator_of(named.producer_id)
    return lambda: found


class ReadBody:
    """The body of a request, whole, and then what its client says."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._unread: list[Event] = []

    async def read(self) -> bytes | None:
        """None when the client leaves before it is whole; raises `BatchTooLarge`."""
        pieces, size, more = list[bytes](), 0, True
        while more:
            event = await self._receive()
            self._unread.append(event)
            if event["type"] != "http.request":
                return None
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            more = bool(event.get("more_body", False))
            if size > BODY_BYTES_MAX:
                raise BatchTooLarge(f"a body of more than {BODY_BYTES_MAX} bytes")
        return b"".join(pieces)

    async def __call__(self) -> MutableMapping[str, Any]:
        return self._unread.pop(0) if self._unread else await self._receive()
