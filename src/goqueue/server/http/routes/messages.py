"""Messages of a topic: publish, read, wait for more, delete the oldest."""

import asyncio
import re
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.params import HeaderParameter, PathParameter

from goqueue.api.errors import ErrorBody
from goqueue.api.messages import (
    INT32_MAX,
    InvalidMessage,
    MessagePage,
    OffsetBody,
    PublishResponse,
    PublishResult,
    ReadEncoding,
    RecordsDeleted,
    TopicMessages,
)
from goqueue.api.parsing import (
    OFFSET_PATTERN,
    OFFSET_TIME_PATTERN,
    START_PATTERN,
    TIME_PATTERN,
    WAIT_PATTERN,
    parse_offset,
    parse_time,
    parse_wait,
)
from goqueue.broker import Broker, Partition
from goqueue.broker.messages.merged_reader import Position, cursor_from_text
from goqueue.broker.messages.outgoing import (
    Acks,
    Outcome,
    OutgoingMessage,
    Published,
    PutAside,
)
from goqueue.log import TimedOffset
from goqueue.model.errors import GoQueueError, InvalidRequest, OffsetOutOfRange
from goqueue.model.ids import Offset
from goqueue.model.names import refuse_internal, topic_name
from goqueue.model.times import time_text
from goqueue.server.http.asgi.dependencies import (
    TheBroker,
    TheMergedReader,
    TheMessages,
    TheMetrics,
    ThePolls,
)
from goqueue.server.http.errors import Detailed, answer_in_part, problem_of
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.message_bodies import (
    decode_request,
    extra_headers,
    message_body,
)
from goqueue.server.http.routes.topics import TopicPath, offsets_of
from goqueue.server.http.routes.trace_context import continue_trace
from goqueue.server.metrics import Metrics

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 10_000
READ_BYTES_DEFAULT: Final = 1024 * 1024
READ_BYTES_MAX: Final = 16 * 1024 * 1024
RAW_HEADER_PREFIX: Final = "x-gq-header-"
IDEMPOTENCY_KEY_PATTERN: Final = "^[!-~]{1,255}$"

_IDEMPOTENCY_KEY: Final = re.compile(IDEMPOTENCY_KEY_PATTERN)

# curl says the second one when told nothing, and an absent type says nothing.
_JSON_TYPES: Final = ("application/json", "application/x-www-form-urlencoded", "")


PartitionPath = Annotated[
    int, PathParameter(description="The partition's number, from 0.", schema_extra={"minimum": 0})
]
LimitQuery = Annotated[int, query("Most messages to give.", ge=1, le=LIMIT_MAX)]
BytesQuery = Annotated[
    int,
    query(
        "Give no further message beyond so many bytes of keys and values.", ge=1, le=READ_BYTES_MAX
    ),
]
WaitQuery = Annotated[
    str,
    query(
        "When there is nothing yet, wait so long for it: `500ms`, `30s`, `1m`, or"
        " plain milliseconds. Longer waits end at the server's `http.long_poll_ms_max`.",
        WAIT_PATTERN,
    ),
]
FromTimeQuery = Annotated[
    str | None,
    query(
        "Start at the first message with this time or a later one: RFC 3339, or"
        " milliseconds since 1970.",
        TIME_PATTERN,
    ),
]
ToTimeQuery = Annotated[
    str | None, query("Stop before the first message with this time or a later one.", TIME_PATTERN)
]
EncodingQuery = Annotated[
    ReadEncoding, query("`auto`: text, and base64 for messages that are not UTF-8.")
]


routes = Routes("messages")


# --- publish ------------------------------------------------------------------------------------


@routes.post("/topics/{topic:str}/messages", "Publish messages", 404, 415, 422, 504, 507)
async def publish(
    request: Request[Any, Any, Any],
    verbs: TheMessages,
    metrics: TheMetrics,
    topic: TopicPath,
    acks: Annotated[Acks, query("`all`: answer when durable. `leader`: when written.")] = "all",
    key: Annotated[str | None, query("Of a raw body.")] = None,
    partition: Annotated[int | None, query("Of a raw body.", ge=0, le=INT32_MAX)] = None,
    timestamp: Annotated[str | None, query("Of a raw body.", TIME_PATTERN)] = None,
    priority: Annotated[str | None, query("Of a raw body.")] = None,
    delay: Annotated[str | None, query("Of a raw body.", WAIT_PATTERN)] = None,
    deliver_at: Annotated[str | None, query("Of a raw body.", TIME_PATTERN)] = None,
    idempotency_key: Annotated[
        str | None,
        HeaderParameter(
            name="Idempotency-Key",
            schema_extra={"pattern": IDEMPOTENCY_KEY_PATTERN},
            description="Of your choice, one for each request: a repetition with the same key is"
            " answered with the first answer's offsets and not written again.",
        ),
    ] = None,
) -> Response[PublishResponse] | Response[ErrorBody]:
    """Publish a batch as JSON, or one message as a raw body.

    A body of any other type than JSON (`text/plain`, `application/octet-stream`, …) is the value
    of one message; its key, partition, timestamp, priority, delay and deliver_at come from the
    query and its headers from `X-GQ-Header-*`.

    A W3C `traceparent` of the request is that of its messages, unless they have headers with one.

    A message with `delay` or `deliver_at` is kept, durably, and delivered then: its id is
    `partition` and `offset` of the result, with which it is found, cancelled or rescheduled.

    A repetition with the same `Idempotency-Key` has the header `Idempotency-Replayed: true`.  Each
    partition knows the newest 10,000 keys for a day, also after a restart.

    200 when all messages were taken.  207 when some were refused: `results` has an `error` for
    those.  When all were refused the answer is the first one's error, with `details.results`.
    """
    started = asyncio.get_running_loop().time()
    name = topic_name(topic)
    if idempotency_key is not None and not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
        raise InvalidRequest("Idempotency-Key: 1 to 255 visible ASCII characters")
    kind, _ = request.content_type
    body = await request.body()
    if kind in _JSON_TYPES or kind.endswith("+json"):
        given = (key, partition, timestamp, priority, delay, deliver_at)
        if any(each is not None for each in given):
            raise InvalidRequest(
                "key, partition, timestamp, priority, delay and deliver_at belong into the messages"
                " of a JSON body"
            )
        messages = decode_request(body)
    elif kind.startswith("multipart/"):
        raise HTTPException(status_code=415, detail=f"a body of type {kind} is not understood")
    else:
        extras = RawExtras(priority, delay, deliver_at)
        messages = [_raw_message(request, body, key, partition, timestamp, extras)]
    messages = continue_trace(messages, request)
    outcomes = await verbs.publish(name, messages, acks=acks, idempotency_key=idempotency_key)
    metrics.observe_publish("http", asyncio.get_running_loop().time() - started)
    return _publish_response(outcomes, metrics)


class RawExtras(NamedTuple):
    """What becomes headers of a message with a raw body."""

    priority: str | None
    delay: str | None
    deliver_at: str | None


def _raw_message(
    request: Request[Any, Any, Any],
    body: bytes,
    key: str | None,
    partition: int | None,
    timestamp: str | None,
    extras: RawExtras,
) -> OutgoingMessage:
    headers: list[tuple[str, bytes | None]] = [
        (name[len(RAW_HEADER_PREFIX) :], value.encode("latin-1"))
        for name, value in request.headers.multi_items()
        if name.startswith(RAW_HEADER_PREFIX)
    ]
    try:
        headers += extra_headers(extras.priority, None, extras.delay, extras.deliver_at)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    return OutgoingMessage(
        body,
        None if key is None else key.encode(),
        tuple(headers),
        partition,
        None if timestamp is None else parse_time(timestamp, "timestamp"),
    )


def _publish_response(
    outcomes: list[Outcome], metrics: Metrics
) -> Response[PublishResponse] | Response[ErrorBody]:
    failures = [outcome for outcome in outcomes if isinstance(outcome, GoQueueError)]
    for failure in failures:
        metrics.messages_failed(failure)
    body = PublishResponse([_result(outcome) for outcome in outcomes])
    return answer_in_part(body, len(outcomes), failures, _replay_headers(outcomes))


def _replay_headers(outcomes: list[Outcome]) -> dict[str, str] | None:
    if any(isinstance(each, Published) and each.is_repeat for each in outcomes):
        return {"Idempotency-Replayed": "true"}
    return None


def _result(outcome: Outcome) -> PublishResult:
    if isinstance(outcome, Published):
        if outcome.invalid is not None:
            return PublishResult(dead_letter=_dead_letter(outcome, outcome.invalid))
        time = time_text(outcome.timestamp)
        if outcome.deliver_at is None:
            return PublishResult(outcome.partition, outcome.offset, time)
        return PublishResult(
            outcome.partition,
            outcome.offset,
            time,
            delayed=outcome.is_delayed,
            deliver_at=time_text(outcome.deliver_at),
        )
    return PublishResult(error=problem_of(outcome))


def _dead_letter(outcome: Published, invalid: PutAside) -> InvalidMessage:
    at = (invalid.topic, outcome.partition, outcome.offset)
    return InvalidMessage(*at, invalid.problem, invalid.path, invalid.schema_id)


# --- read ---------------------------------------------------------------------------------------


@routes.get(
    "/topics/{topic:str}/partitions/{partition:int}/messages",
    "Read a partition",
    404,
    416,
    422,
    500,
)
async def read_partition(
    request: Request[Any, Any, Any],
    broker: TheBroker,
    verbs: TheMessages,
    polls: ThePolls,
    topic: TopicPath,
    partition: PartitionPath,
    offset: Annotated[
        str | None, query("`earliest` (the default), `latest`, or a number.", OFFSET_PATTERN)
    ] = None,
    from_time: FromTimeQuery = None,
    to_time: ToTimeQuery = None,
    limit: LimitQuery = LIMIT_DEFAULT,
    max_bytes: BytesQuery = READ_BYTES_DEFAULT,
    wait: WaitQuery = "0",
    encoding: EncodingQuery = "auto",
) -> MessagePage:
    """Messages in order from an offset or a time.  Ask again from `next_offset` for more.

    With `wait` the answer comes as soon as there is a message, and with an empty list when there
    was none in time.
    """
    if offset is not None and from_time is not None:
        raise InvalidRequest("give offset or from_time, not both")
    found = await broker.partition(topic_name(topic), partition)
    if from_time is not None:
        start = await verbs.offset_for_time(found, parse_time(from_time, "from_time"))
    else:
        start = await _start(broker, found, offset or "earliest")
    end = None
    if to_time is not None:
        end = await verbs.offset_for_time(found, parse_time(to_time, "to_time"))
    try:
        page = await polls.run(
            request,
            parse_wait(wait),
            lambda poll: verbs.read(
                found, start, limit=limit, bytes_max=max_bytes, end=end, poll=poll
            ),
        )
    except OffsetOutOfRange as error:
        raise Detailed(error, msgspec.to_builtins(offsets_of(found))) from error
    return MessagePage(
        [message_body(record, partition, encoding) for record in page.records],
        page.next_offset,
        page.high_watermark,
        page.at_end,
    )


async def _start(broker: Broker, partition: Partition, offset: str) -> Offset:
    if offset == "earliest":
        return partition.log.start_offset
    if offset == "latest":
        return (await broker.latest_offset(partition, committed_only=True)).offset
    return parse_offset(offset, "offset")


@routes.get("/topics/{topic:str}/messages", "Read a topic as one stream", 404, 416, 422)
async def read_topic(
    request: Request[Any, Any, Any],
    merged: TheMergedReader,
    polls: ThePolls,
    topic: TopicPath,
    cursor: Annotated[
        str | None, query("`cursor` of an earlier answer: go on behind it. It remembers `to_time`.")
    ] = None,
    start: Annotated[
        str,
        query(
            "Where to start in each partition without a cursor: `earliest`, `latest`,"
            " an offset, or a negative number, which counts back from the end.",
            START_PATTERN,
        ),
    ] = "earliest",
    from_time: FromTimeQuery = None,
    to_time: ToTimeQuery = None,
    limit: LimitQuery = LIMIT_DEFAULT,
    max_bytes: BytesQuery = READ_BYTES_DEFAULT,
    wait: WaitQuery = "0",
    encoding: EncodingQuery = "auto",
) -> TopicMessages:
    """All partitions merged by timestamp; each partition's messages stay in order.

    Ask again with the `cursor` of the answer for more; it is good until the topic is deleted.
    """
    name = topic_name(topic)
    wait_ms = parse_wait(wait)
    if cursor is not None:
        if from_time is not None or to_time is not None:
            raise InvalidRequest("give a cursor or times, not both: the cursor remembers to_time")
        place = cursor_from_text(cursor)
    else:
        place = await merged.start(
            name,
            from_time=None if from_time is None else parse_time(from_time, "from_time"),
            to_time=None if to_time is None else parse_time(to_time, "to_time"),
            position=_position(start),
        )
    page = await polls.run(
        request,
        wait_ms,
        lambda poll: merged.read(name, place, limit=limit, bytes_max=max_bytes, poll=poll),
    )
    return TopicMessages(
        [message_body(record, index, encoding) for index, record in page.messages],
        page.cursor.to_text(),
        page.at_end,
        page.problems,
    )


def _position(text: str) -> Position:
    match text:
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case _:
            offset = parse_offset(text.removeprefix("-"), "start")
            return -offset if text.startswith("-") else offset


# --- offsets and deletion -----------------------------------------------------------------------


@routes.get("/topics/{topic:str}/partitions/{partition:int}/offsets", "Find an offset", 404)
async def find_offset(
    broker: TheBroker,
    topic: TopicPath,
    partition: PartitionPath,
    time: Annotated[
        str,
        query(
            "`earliest`, `latest`, `newest` (the message with the largest timestamp),"
            " or a time: the first message at it or later, the end when there is none.",
            OFFSET_TIME_PATTERN,
        ),
    ] = "latest",
) -> OffsetBody:
    found = await broker.partition(topic_name(topic), partition)
    at = await _timed_offset(broker, found, time)
    offsets = offsets_of(found)
    return OffsetBody(
        topic=found.topic,
        partition=partition,
        offset=at.offset,
        timestamp=time_text(at.timestamp),
        earliest=offsets.earliest,
        latest=offsets.latest,
        next_offset=offsets.next_offset,
    )


async def _timed_offset(broker: Broker, partition: Partition, time: str) -> TimedOffset:
    if time == "earliest":
        return broker.earliest_offset(partition)
    found = None
    if time == "newest":
        found = await broker.newest_record(partition, committed_only=True)
    elif time != "latest":
        wanted = parse_time(time, "time")
        found = await broker.offset_for_time(partition, wanted, committed_only=True)
    return found or await broker.latest_offset(partition, committed_only=True)


@routes.delete(
    "/topics/{topic:str}/partitions/{partition:int}/messages",
    "Delete the oldest messages",
    404,
    416,
)
async def delete_messages(
    broker: TheBroker,
    topic: TopicPath,
    partition: PartitionPath,
    before: Annotated[
        str, query("The first offset to keep; `latest` deletes all that is there.", OFFSET_PATTERN)
    ],
) -> RecordsDeleted:
    """Everything before an offset, for good."""
    name = topic_name(topic)
    refuse_internal(name)
    found = await broker.partition(name, partition)
    target = await _start(broker, found, before)
    try:
        earliest = await broker.delete_records(found, target)
    except OffsetOutOfRange as error:
        raise Detailed(error, msgspec.to_builtins(offsets_of(found))) from error
    return RecordsDeleted(found.topic, partition, earliest)
