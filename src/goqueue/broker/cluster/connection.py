"""A connection to another node, from the side that asks: requests out, answers by their number."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from goqueue.model.errors import NodeUnreachable, Uncertain
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import encode_request, split_response
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frame_buffer import FrameBuffer
from goqueue.wire.node_messages import (
    FRAME_BYTES_MAX,
    NodeRequest,
    decode_answer,
    encode_node_request,
)
from goqueue.wire.primitives import INT32, Buffer

CLIENT_ID: Final = "node"
SILENT_MS: Final = 2_000  # of the other machine's kernel, not of its process

ReplyT = TypeVar("ReplyT")


class NodeConnection(asyncio.BufferedProtocol):
    """Whatever goes wrong ends it: its owner makes a new one.

    The other node answers in the order of the requests, so one that is not answered in time holds
    up all behind it.  It ends the connection, too.
    """

    def __init__(
        self,
        address: str,
        answer_bytes_max: int = FRAME_BYTES_MAX,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_lost` hears when it was not ended from here."""
        self.address = address
        self._on_lost = on_lost
        self._frames = FrameBuffer(answer_bytes_max, port="cluster", limited_by="fixed")
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[bytearray]] = {}
        self._last_id = 0
        self.ended: str | None = None  # why it can be used no more

    async def ask(self, request: NodeRequest[ReplyT], seconds: float) -> ReplyT:
        """The reply.  Raises what the other node refused with, `NodeUnreachable` when it was not
        asked, and `Uncertain` when it was and did not answer.
        """
        number = self._next_number()
        frame = await self._send(
            number, [encode_node_request(number, request)], request.api.name, seconds
        )
        return cast("ReplyT", decode_answer(frame, request.reply_type))

    async def ask_kafka(
        self, api_key: ApiKey, version: int, body: Sequence[Buffer], seconds: float
    ) -> memoryview:
        """The body of the answer to a request of Kafka's own; raises as `ask` does."""
        number = self._next_number()
        parts = encode_request(api_key, number, CLIENT_ID, body, version)
        frame = await self._send(number, parts, api_key.name, seconds)
        return split_response(api_key, memoryview(frame), version)[1]

    def _next_number(self) -> int:
        self._last_id += 1
        return self._last_id

    async def _send(
        self, number: int, parts: Sequence[Buffer], api: str, seconds: float
    ) -> bytearray:
        if self.ended is not None or self._transport is None:
            raise NodeUnreachable(f"no connection to {self.address}: {self.ended}")
        answer: asyncio.Future[bytearray] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._transport.writelines(parts)
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as error:
            name = api.lower()
            self.abort(f"{name} was not answered within {seconds:g} s")
            raise Uncertain(f"{self.address} did not answer {name} in {seconds:g} s") from error
        finally:
            self._waiting.pop(number, None)

    def abort(self, reason: str) -> None:
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: str) -> None:
        if self.ended is None:
            self.ended = reason
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Uncertain(f"the connection to {self.address}: {reason}"))

    # --- the transport's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        handle: Any = transport.get_extra_info("socket")
        if handle is not None:
            notice_cuts(handle)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._frames.receive(nbytes):
            self._receive(frame)
        if self._frames.problem is not None:
            self.abort(str(self._frames.problem))

    def _receive(self, frame: bytearray) -> None:
        number = INT32.unpack_from(frame)[0] if len(frame) > INT32.size else -1
        if not 0 < number <= self._last_id:
            self.abort(str(MalformedRequest(f"an answer with number {number}")))
            return
        answer = self._waiting.get(number)
        if answer is not None and not answer.done():  # else nobody waits for it any more
            answer.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        was_used = self.ended is None
        self._end(str(error) if error else "it was closed by the other side")
        if was_used:
            self._on_lost()


def notice_cuts(handle: Any) -> None:
    """End a TCP connection whose other side is silent, though a long poll awaits nothing sooner.

    After a cut, TCP sends again ever more seldom, and would find a network that is whole again only
    after many seconds.  A process that is slow or stopped is no cut: its kernel answers.
    """
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    chosen = {
        "TCP_KEEPIDLE": 1,
        "TCP_KEEPINTVL": 1,
        "TCP_KEEPCNT": 2,
        "TCP_USER_TIMEOUT": SILENT_MS,
    }
    for name, value in chosen.items():
        option = getattr(socket, name, None)  # not on every system
        if option is not None:
            handle.setsockopt(socket.IPPROTO_TCP, option, value)
