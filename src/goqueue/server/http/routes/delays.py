"""Delayed messages: list, look up, cancel, reschedule, count."""

import base64
import binascii
from typing import Annotated, Final

import msgspec
from litestar.params import JSONBody, PathParameter

from goqueue.api.delays import (
    LISTED_MAX,
    DelayedBody,
    DelayedEntry,
    DelayedPage,
    DelayFigures,
    DelayStats,
    Reschedule,
)
from goqueue.api.messages import MessageBody, ReadEncoding
from goqueue.api.parsing import parse_time, parse_wait
from goqueue.broker import Broker
from goqueue.broker.delays.admin import FIRST, DelayedMessage, Missing, Place, place_of
from goqueue.broker.delays.statistics import DelayCounts
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import Timestamp
from goqueue.model.names import topic_name
from goqueue.model.record import Record
from goqueue.model.times import time_text
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.message_bodies import message_body
from goqueue.server.http.routes.messages import PartitionPath
from goqueue.server.http.routes.queue_bodies import missing_partitions
from goqueue.server.http.routes.topics import TopicPath

LIMIT_DEFAULT: Final = 100
MEANINGS: Final = {
    404: "No such topic, partition or delayed message.",
    409: "The message was delivered or cancelled already.",
}

DelayedOffsetPath = Annotated[
    int,
    PathParameter(
        description="The message's offset in the delay log, as its publish was answered.",
        schema_extra={"minimum": 0},
    ),
]

_decode_cursor: Final = msgspec.msgpack.Decoder(tuple[int, int, int]).decode

routes = Routes("delays", MEANINGS)


@routes.get("/topics/{topic:str}/delayed", "List delayed messages by time", 404)
async def list_delays(
    broker: TheBroker,
    topic: TopicPath,
    limit: Annotated[int, query("Most messages to give.", ge=1, le=LISTED_MAX)] = LIMIT_DEFAULT,
    cursor: Annotated[
        str | None, query("`cursor` of an earlier answer: go on behind it.", max_length=100)
    ] = None,
) -> DelayedPage:
    """The messages that wait, those that are due next first."""
    name, missing = topic_name(topic), Missing()
    after = FIRST if cursor is None else _place(cursor)
    found = await broker.delays.admin.page(name, after=after, limit=limit, missing=missing)
    now = broker.environment.clock.now()
    return DelayedPage(
        name,
        [
            DelayedEntry(
                each.partition,
                each.offset,
                time_text(each.deliver_at),
                max(0, each.deliver_at - now),
                each.state,
            )
            for each in found
        ],
        _cursor(place_of(found[-1])) if len(found) == limit else None,
        missing_partitions(missing),
    )


def _cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(place)).decode()


def _place(cursor: str) -> Place:
    try:
        return _decode_cursor(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidRequest("cursor: take it from an earlier answer, as it is") from error


@routes.get(
    "/topics/{topic:str}/delayed/{partition:int}/{offset:int}", "Look up a delayed message", 404
)
async def get_delay(
    broker: TheBroker,
    topic: TopicPath,
    partition: PartitionPath,
    offset: DelayedOffsetPath,
    encoding: Annotated[
        ReadEncoding, query("`auto`: text, and base64 for messages that are not UTF-8.")
    ] = "auto",
) -> DelayedBody:
    """The message with its value, and whether it waits, was delivered or cancelled."""
    name = topic_name(topic)
    found = await broker.delays.admin.find(name, partition, offset)
    return _body(broker, name, found, encoding)


@routes.delete(
    "/topics/{topic:str}/delayed/{partition:int}/{offset:int}",
    "Cancel a delayed message",
    404,
    409,
    507,
)
async def cancel_delay(
    broker: TheBroker, topic: TopicPath, partition: PartitionPath, offset: DelayedOffsetPath
) -> DelayedBody:
    """It is never delivered; once it is due, that is too late."""
    name = topic_name(topic)
    found = await broker.delays.admin.cancel(name, partition, offset)
    return _body(broker, name, found, "auto")


@routes.post(
    "/topics/{topic:str}/delayed/{partition:int}/{offset:int}",
    "Deliver a delayed message at another time",
    404,
    409,
    507,
)
async def reschedule_delay(
    broker: TheBroker,
    topic: TopicPath,
    partition: PartitionPath,
    offset: DelayedOffsetPath,
    data: JSONBody[Reschedule],
) -> DelayedBody:
    """Earlier or later; it keeps its id.  A time that is over means at once."""
    name = topic_name(topic)
    due = _due(broker, data)
    found = await broker.delays.admin.reschedule(name, partition, offset, due)
    return _body(broker, name, found, "auto")


def _due(broker: Broker, given: Reschedule) -> Timestamp:
    if (given.delay is None) == (given.deliver_at is None):
        raise InvalidRequest("give delay or deliver_at")
    if given.delay is not None:
        delay = given.delay
        wait_ms = parse_wait(delay, "delay") if isinstance(delay, str) else delay
        return Timestamp(broker.environment.clock.now() + wait_ms)
    time = given.deliver_at
    if isinstance(time, str):
        return parse_time(time, "deliver_at")
    assert time is not None
    return Timestamp(time)


def _body(broker: Broker, topic: str, found: DelayedMessage, encoding: ReadEncoding) -> DelayedBody:
    record = Record(found.offset, found.published_at, found.key, found.value, found.headers)
    message: MessageBody = message_body(record, found.partition, encoding)
    left = found.deliver_at - broker.environment.clock.now()
    return DelayedBody(
        topic,
        found.partition,
        found.offset,
        time_text(found.deliver_at),
        max(0, left) if found.state == "pending" else 0,
        found.state,
        message.timestamp,
        message.key,
        message.value,
        message.headers,
        message.priority,
        message.encoding,
    )


@routes.get("/delay/stats", "Count delayed messages")
async def delay_stats(broker: TheBroker) -> DelayStats:
    """By topic and in all: how many wait, and what became of the others."""
    counts, missing = await broker.delays.admin.counts()
    total = DelayCounts()
    for each in counts.values():
        total = total.plus(each)
    return DelayStats(
        _figures(total),
        {topic: _figures(each) for topic, each in sorted(counts.items())},
        list(missing),
    )


def _figures(counts: DelayCounts) -> DelayFigures:
    return DelayFigures(counts.pending, counts.scheduled, counts.delivered, counts.cancelled)
