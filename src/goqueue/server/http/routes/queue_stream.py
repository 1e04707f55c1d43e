"""Messages of a queue as they come, for browsers and shells: server-sent events.

    id: orders:0:7:1:2a.billing
    event: message
    data: {"topic": "orders", "partition": 0, "offset": 7, …, "receipt_handle": …}

Each event is a delivery: ack it by its receipt with another request.  No more come than the group
lets a consumer hold.  A comment every few seconds shows that the line is alive.

A browser that lost the connection comes back after `retry` with the last id as `Last-Event-ID`.
What was sent after that never arrived: it is released at once, counts as no failure, and is
redelivered on the new connection.  The old connection ends, if it had not yet.
"""

import asyncio
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from litestar import Request
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from goqueue.api.groups import NAME_LENGTH_MAX
from goqueue.api.messages import ReadEncoding
from goqueue.api.parsing import WAIT_PATTERN, parse_wait
from goqueue.api.queues import QueueMessage
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.queues.service import Queues
from goqueue.model.errors import GoQueueError
from goqueue.model.names import topic_name
from goqueue.queue import TooManyInFlight
from goqueue.server.http.asgi.access import refuse_unproven_browser
from goqueue.server.http.asgi.dependencies import TheBroker, ThePolls, TheQueues, TheSentEvents
from goqueue.server.http.asgi.long_polls import LongPolls
from goqueue.server.http.errors import problem_of
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.group_bodies import group_name
from goqueue.server.http.routes.messages import EncodingQuery
from goqueue.server.http.routes.queue_bodies import (
    MEANINGS,
    GroupQuery,
    queue_message,
    visibility_ms,
)
from goqueue.server.http.routes.queues import deliver
from goqueue.server.http.routes.sent_events import SentEvents
from goqueue.server.http.routes.topics import TopicPath

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_MS: Final = 10_000
RETRY_MS: Final = 1_000  # a client that lost the connection waits so long before it comes back
AT_ONCE_MAX: Final = 100  # messages that one write takes
HEARTBEAT: Final = b": still here\n\n"
FULL: Final = b": waiting for acks\n\n"

routes = Routes("queues", MEANINGS)


class EventStream(ASGIResponse):
    """Goes on until the client leaves, the server stops, or the topic is gone."""

    def __init__(
        self,
        queues: Queues,
        polls: LongPolls,
        sent: SentEvents,
        *,
        wanted: ReceiveRequest,
        encoding: ReadEncoding,
        last_id: str,
    ) -> None:
        super().__init__(media_type=EVENT_STREAM)
        self._queues = queues
        self._polls = polls
        self._sent = sent
        self._wanted = wanted
        self._encoding = encoding
        self._last_id = last_id
        self._time: asyncio.Timeout | None = None  # while it runs

    @property
    def queue(self) -> tuple[str, str]:
        return self._wanted.topics[0], self._wanted.group_id

    def end(self) -> None:
        """Its client has another connection."""
        if self._time is not None:
            self._time.reschedule(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await self._resume(send)
        try:
            async with asyncio.timeout(None) as self._time:
                await self._run(receive, send)
        except TimeoutError:  # `end` was called
            pass
        finally:
            self._time = None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _resume(self, send: Send) -> None:
        """Release what got lost, and say how to come back."""
        lost = self._sent.take_lost(self._last_id, self.queue) if self._last_id else []
        receipts = [each for each in lost if each != self._last_id]
        if receipts:
            await self._queues.release(receipts)
        opening = self._sent.opening_id()
        self._sent.note(self, [opening])
        await _write(send, b"retry: %d\nid: %s\n\n" % (RETRY_MS, opening.encode()))

    async def _run(self, receive: Receive, send: Send) -> None:
        is_gone = False

        async def client() -> Any:
            nonlocal is_gone
            message = await receive()
            is_gone = is_gone or message["type"] == "http.disconnect"
            return message

        receiver = self._queues.receiver
        work = partial(receiver.receive, self._wanted)
        while not is_gone and not self._polls.is_stopping:
            try:
                found = await deliver(receiver, self._polls, client, HEARTBEAT_MS, work)
            except TooManyInFlight:
                await _write(send, FULL)
                continue
            except GoQueueError as error:
                body = msgspec.json.encode(problem_of(error))
                await _write(send, b"event: error\ndata: %s\n\n" % body)
                return
            messages = [
                queue_message(each, self._encoding)
                for delivery in found
                for each in delivery.messages()
            ]
            self._sent.note(self, [each.receipt_handle for each in messages])
            await _write(send, b"".join(map(_event, messages)) or HEARTBEAT)


def _event(message: QueueMessage) -> bytes:
    data = msgspec.json.encode(message)
    return b"id: %s\nevent: message\ndata: %s\n\n" % (message.receipt_handle.encode(), data)


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


@routes.get(
    "/queues/{topic:str}/stream",
    "Receive messages as they come",
    404,
    406,
    media_type=EVENT_STREAM,
    guards=[refuse_unproven_browser],
    responses={
        200: ResponseSpec(
            str,
            media_type=EVENT_STREAM,
            description="Server-sent events: `message` with a message and its receipt, `error`.",
            generate_examples=False,
        )
    },
)
async def stream_queue(
    request: Request[Any, Any, Any],
    broker: TheBroker,
    queues: TheQueues,
    polls: ThePolls,
    sent_events: TheSentEvents,
    topic: TopicPath,
    group: GroupQuery,
    consumer: Annotated[
        str, query("Who works.", min_length=1, max_length=NAME_LENGTH_MAX)
    ] = "anonymous",
    visibility: Annotated[
        str | None,
        query("How long a message is yours: `30s`; absent: the group's setting.", WAIT_PATTERN),
    ] = None,
    at_once: Annotated[int, query("Most messages to send together.", ge=1, le=AT_ONCE_MAX)] = 10,
    encoding: EncodingQuery = "auto",
) -> ASGIResponse:
    """As server-sent events, which a browser's `EventSource` reads.

    Each is a delivery, to be acked by its receipt.  No more come than the group lets a consumer
    hold.  `Accept: text/event-stream` is required.

    When the connection breaks, connect again with the last event's id as `Last-Event-ID`, as an
    `EventSource` does: what was sent after it is redelivered at once and counts as no failure.
    What arrived stays yours until its visibility time-out is over.
    """
    if EVENT_STREAM not in request.headers.get("accept", "").lower():
        # Whoever loads it as an image or a script of a page does not say so.
        raise HTTPException(status_code=406, detail=f"send the header Accept: {EVENT_STREAM}")
    broker.topic(topic_name(topic))
    wanted = ReceiveRequest(
        [topic_name(topic)],
        group_name(group),
        consumer,
        max_messages=at_once,
        visibility_ms=None if visibility is None else visibility_ms(parse_wait(visibility)),
    )
    return EventStream(
        queues,
        polls,
        sent_events,
        wanted=wanted,
        encoding=encoding,
        last_id=request.headers.get("last-event-id", ""),
    )
