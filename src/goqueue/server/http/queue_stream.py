"""Messages of a queue as they come, for browsers and shells: server-sent events.

    id: orders:0:7:1:2a.billing
    event: message
    data: {"topic": "orders", "partition": 0, "offset": 7, …, "receipt_handle": …}

Each event is a delivery: ack it by its receipt with another request.  No more come than the group
lets a consumer hold.  A comment every few seconds shows that the line is alive.
"""

from typing import Annotated, Any, Final

import msgspec
from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from goqueue.broker.queues import Queues
from goqueue.model.errors import GoQueueError
from goqueue.model.names import topic_name
from goqueue.queue import Delivered, TooManyInFlight
from goqueue.queue.parcels import Parcel
from goqueue.server.http.errors import problem_of
from goqueue.server.http.given import TheBroker, ThePolls, TheQueues
from goqueue.server.http.group_bodies import NAME_LENGTH_MAX, group_name
from goqueue.server.http.message_bodies import ReadEncoding
from goqueue.server.http.messages import EncodingQuery
from goqueue.server.http.notation import WAIT_PATTERN, parse_wait
from goqueue.server.http.polls import LongPolls
from goqueue.server.http.queue_bodies import (
    GroupQuery,
    queue_message,
    queue_responses,
    visibility_ms,
)
from goqueue.server.http.queues import hand_out
from goqueue.server.http.topics import TopicPath

HEARTBEAT_MS: Final = 10_000
AT_ONCE_MAX: Final = 100  # messages that one write takes
HEARTBEAT: Final = b": still here\n\n"
FULL: Final = b": waiting for acks\n\n"


class EventStream(ASGIResponse):
    """Goes on until the client leaves, the server stops, or the topic is gone."""

    def __init__(
        self,
        queues: Queues,
        polls: LongPolls,
        *,
        topic: str,
        group: str,
        consumer: str,
        visibility: int | None,
        encoding: ReadEncoding,
        at_once: int,
    ) -> None:
        super().__init__(media_type="text/event-stream")
        self._queues = queues
        self._polls = polls
        self._topic = topic
        self._group = group
        self._consumer = consumer
        self._visibility = visibility
        self._encoding = encoding
        self._at_once = at_once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await _write(send, HEARTBEAT)
        is_gone = False

        async def client() -> Any:
            nonlocal is_gone
            message = await receive()
            is_gone = is_gone or message["type"] == "http.disconnect"
            return message

        while not is_gone and not self._polls.is_stopping:
            try:
                found = await hand_out(
                    self._queues, self._polls, client, HEARTBEAT_MS, self._receive
                )
            except TooManyInFlight:
                await _write(send, FULL)
                continue
            except GoQueueError as error:
                body = msgspec.json.encode(problem_of(error))
                await _write(send, b"event: error\ndata: %s\n\n" % body)
                break
            events = [self._event(each) for parcel in found for each in parcel.messages()]
            await _write(send, b"".join(events) or HEARTBEAT)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _receive(self, wait_ms: int) -> list[Parcel]:
        return await self._queues.receive_parcels(
            [self._topic],
            self._group,
            self._consumer,
            max_messages=self._at_once,
            wait_ms=wait_ms,
            visibility_ms=self._visibility,
        )

    def _event(self, delivered: Delivered) -> bytes:
        body = queue_message(delivered, self._encoding)
        receipt = body.receipt_handle.encode()
        return b"id: %s\nevent: message\ndata: %s\n\n" % (receipt, msgspec.json.encode(body))


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


@get(
    "/queues/{topic:str}/stream",
    tags=["queues"],
    summary="Receive messages as they come",
    media_type="text/event-stream",
    responses={
        **queue_responses(404),
        200: ResponseSpec(
            str,
            media_type="text/event-stream",
            description="Server-sent events: `message` with a message and its receipt, `error`.",
            generate_examples=False,
        ),
    },
)
async def stream_queue(
    broker: TheBroker,
    queues: TheQueues,
    polls: ThePolls,
    topic: TopicPath,
    group: GroupQuery,
    consumer: Annotated[
        str, QueryParameter(min_length=1, max_length=NAME_LENGTH_MAX, description="Who works.")
    ] = "anonymous",
    visibility: Annotated[
        str | None,
        QueryParameter(
            schema_extra={"pattern": WAIT_PATTERN},
            description="How long a message is yours: `30s`; absent: the group's setting.",
        ),
    ] = None,
    at_once: Annotated[
        int, QueryParameter(ge=1, le=AT_ONCE_MAX, description="Most messages to send together.")
    ] = 10,
    encoding: EncodingQuery = "auto",
) -> ASGIResponse:
    """As server-sent events, which a browser's `EventSource` reads.

    Each is a delivery, to be acked by its receipt.  No more come than the group lets a consumer
    hold.  When the connection breaks, what was not yet sent goes back at once, and what was sent
    when its time is over.
    """
    broker.topic(topic_name(topic))
    return EventStream(
        queues,
        polls,
        topic=topic_name(topic),
        group=group_name(group),
        consumer=consumer,
        visibility=None if visibility is None else visibility_ms(parse_wait(visibility)),
        encoding=encoding,
        at_once=at_once,
    )


HANDLERS = [stream_queue]
