"""Queues for their consumers: receive, ack, nack, reject, extend, release, peek.

A consumer is a name; it need not join a group.  A message that was delivered to a connection that
is gone is released at once, and counts as no failure.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Annotated, Any, Final

from litestar import Request, Response
from litestar.params import JSONBody

from goqueue.api.errors import ErrorBody
from goqueue.api.parsing import INT64_MAX, parse_wait
from goqueue.api.queues import (
    Ack,
    AckRange,
    Extend,
    Nack,
    PeekedBody,
    RangeBody,
    ReceivedBody,
    ReceiveMessages,
    RefusedBody,
    Reject,
    Release,
    Settle,
    SettledBody,
    SettledManyBody,
)
from goqueue.broker.queues import acknowledgement as endings
from goqueue.broker.queues.acknowledgement import Ending
from goqueue.broker.queues.overview import Missing
from goqueue.broker.queues.receive import Receiver
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.queues.service import Queues
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.names import topic_name
from goqueue.model.times import time_text
from goqueue.queue import DeliveryBatch, Settled, SettleOutcome, Where
from goqueue.server.http.asgi.dependencies import TheMetrics, ThePolls, TheQueues
from goqueue.server.http.asgi.long_polls import LongPolls, Receive
from goqueue.server.http.errors import answer_in_part, problem_of, refusal
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.group_bodies import group_name
from goqueue.server.http.routes.messages import EncodingQuery
from goqueue.server.http.routes.queue_bodies import (
    DELAY_MS_MAX,
    MEANINGS,
    GroupQuery,
    milliseconds,
    missing_partitions,
    peeked_message,
    queue_messages,
    visibility_ms,
)
from goqueue.server.http.routes.topics import TopicPath

PEEK_DEFAULT: Final = 10
PEEK_MAX: Final = 1_000

ManyAnswer = Response[SettledManyBody] | Response[ErrorBody]
SettleAnswer = Response[SettledBody] | Response[SettledManyBody] | Response[ErrorBody]


routes = Routes("queues", MEANINGS)


# --- receiving ----------------------------------------------------------------------------------


@routes.post("/queues/{topic:str}/receive", "Receive messages", 404, 422, 429, 507)
async def receive(
    request: Request[Any, Any, Any],
    queues: TheQueues,
    polls: ThePolls,
    metrics: TheMetrics,
    topic: TopicPath,
    data: JSONBody[ReceiveMessages],
) -> ReceivedBody:
    """Messages to work on, each with a receipt.

    They are yours until `visible_until`; then they go to somebody else.  `ack` finishes one, `nack`
    has it redelivered, `reject` makes it a dead letter, `visibility` asks for more time.
    """
    wait_ms = milliseconds(data.wait, "wait", high=INT64_MAX)
    asked = data.visibility
    wanted = ReceiveRequest(
        [topic_name(topic)],
        group_name(data.group),
        data.consumer,
        max_messages=data.max_messages,
        max_bytes=data.max_bytes,
        visibility_ms=None if asked is None else visibility_ms(asked),
    )
    work = partial(queues.receiver.receive, wanted)
    with metrics.queues.receiving():
        found = await deliver(queues.receiver, polls, request.receive, wait_ms, work)
    return ReceivedBody(queue_messages(found, data.encoding))


async def deliver(
    receiver: Receiver,
    polls: LongPolls,
    client: Receive,
    wait_ms: int,
    work: Callable[[int], Coroutine[Any, Any, list[DeliveryBatch]]],
) -> list[DeliveryBatch]:
    """What `work` gives; nothing, and nothing stays in flight, when the client has left."""
    found, is_gone = await polls.run_until_disconnect(client, wait_ms, work)
    if found is None:
        return []
    if is_gone and found:
        await receiver.give_back(found)
        return []
    return found


@routes.get("/queues/{topic:str}/peek", "What comes next", 404)
async def peek(
    queues: TheQueues,
    topic: TopicPath,
    group: GroupQuery,
    limit: Annotated[int, query("Most messages to give.", ge=1, le=PEEK_MAX)] = PEEK_DEFAULT,
    encoding: EncodingQuery = "auto",
) -> PeekedBody:
    """The next messages, without delivering them."""
    missing = Missing()
    found = await queues.receiver.peek(group_name(group), topic_name(topic), limit, missing)
    messages = [peeked_message(each, encoding) for each in found]
    return PeekedBody(messages, missing_partitions(missing))


# --- settling -----------------------------------------------------------------------------------


@routes.post("/messages/ack", "Finish messages", 404, 409, 507)
async def ack(queues: TheQueues, data: JSONBody[Ack]) -> SettleAnswer:
    """The messages are done: they are never redelivered to this group.

    To ack twice is no error.  200 when all were acked; 207 when some receipts were refused; with
    one receipt, or when all were refused, the error itself.
    """
    return await _settle(queues, data, endings.Ack())


@routes.post("/messages/nack", "Report messages as failed", 404, 409, 507)
async def nack(queues: TheQueues, data: JSONBody[Nack]) -> SettleAnswer:
    """The deliveries failed.

    The messages are redelivered after `delay` or the group's backoff; after the group's
    `max_failures` failures they become dead letters.
    """
    delay_ms = None if data.delay is None else milliseconds(data.delay, "delay", high=DELAY_MS_MAX)
    return await _settle(queues, data, endings.Nack(delay_ms, data.reason))


@routes.post("/messages/reject", "Make messages dead letters", 404, 409, 507)
async def reject(queues: TheQueues, data: JSONBody[Reject]) -> SettleAnswer:
    """The messages can never be processed: they go to the topic's dead letters at once."""
    return await _settle(queues, data, endings.Reject(data.reason))


@routes.post("/messages/visibility", "Ask for more time", 404, 409, 507)
async def extend(queues: TheQueues, data: JSONBody[Extend]) -> SettleAnswer:
    """The messages are yours for so long from now on."""
    if (data.timeout is None) == (data.extension_seconds is None):
        raise InvalidRequest("give timeout or extension_seconds, one of them")
    if data.timeout is not None:
        more_ms = visibility_ms(data.timeout, "timeout")
    elif isinstance(data.extension_seconds, str):
        more_ms = parse_wait(data.extension_seconds, "extension_seconds", plain="s")
        more_ms = visibility_ms(more_ms, "extension_seconds")
    else:
        more_ms = max(1, round((data.extension_seconds or 0) * 1000))
    return await _settle(queues, data, endings.Extend(more_ms))


@routes.post("/messages/release", "Give messages back", 404, 409, 507)
async def release(queues: TheQueues, data: JSONBody[Release]) -> SettleAnswer:
    """Return messages to the queue without counting a failed attempt."""
    delay_ms = milliseconds(data.delay, "delay", high=DELAY_MS_MAX)
    return await _settle(queues, data, endings.Release(delay_ms))


@routes.post("/queues/{topic:str}/ack-range", "Finish a range of messages", 404, 507)
async def ack_range(queues: TheQueues, topic: TopicPath, data: JSONBody[AckRange]) -> RangeBody:
    """Ack what is in flight from one offset to another, without its receipts."""
    where = Where(group_name(data.group), topic_name(topic), data.partition)
    ack = endings.Ack()
    done = await queues.settlement.settle_range(
        where, data.first, data.last, ack, consumer=data.consumer
    )
    return RangeBody(len(done), [each.offset for each in done])


def _handles(data: Settle) -> Sequence[str]:
    one = [each for each in (data.receipt_handle, data.receipt) if each is not None]
    many = [each for each in (data.receipt_handles, data.receipts) if each is not None]
    if len(one) + len(many) != 1:
        raise InvalidRequest("give receipt_handle or receipt_handles, one of them")
    return one or many[0]


async def _settle(queues: Queues, data: Settle, ending: Ending) -> SettleAnswer:
    handles = _handles(data)
    if data.receipt_handle is not None or data.receipt is not None:
        (outcome,) = await queues.settlement.settle(handles, ending)
        return refusal(outcome) if isinstance(outcome, GoQueueError) else _one(outcome)
    if data.quiet:
        return _quiet_answer(len(handles), await queues.settlement.refusals(handles, ending))
    return many_answer(await queues.settlement.settle(handles, ending))


def _one(settled: Settled) -> Response[SettledBody]:
    return Response(settled_body(settled))


def many_answer(outcomes: Sequence[SettleOutcome], missing: Missing | None = None) -> ManyAnswer:
    refused = [each for each in outcomes if isinstance(each, GoQueueError)]
    results = [
        RefusedBody(index, problem_of(each))
        if isinstance(each, GoQueueError)
        else settled_body(each)
        for index, each in enumerate(outcomes)
    ]
    return _answer(len(outcomes), refused, results, missing)


def _quiet_answer(count: int, refused: dict[int, GoQueueError]) -> ManyAnswer:
    places = sorted(refused)
    results = [RefusedBody(place, problem_of(refused[place])) for place in places]
    return _answer(count, [refused[place] for place in places], results)


def _answer(
    count: int,
    refused: Sequence[GoQueueError],
    results: Sequence[SettledBody | RefusedBody],
    missing: Missing | None = None,
) -> ManyAnswer:
    left_out = missing_partitions(missing or {})
    body = SettledManyBody(count - len(refused), len(refused), list(results), left_out)
    return answer_in_part(body, count, refused)


def settled_body(settled: Settled) -> SettledBody:
    match settled.action:
        case "requeued" | "released":
            visible_at = settled.visible_at
            return _body(settled, next_visible_at=time_text(visible_at) if visible_at else None)
        case "extended":
            deadline = settled.deadline
            return _body(settled, new_deadline=None if deadline is None else time_text(deadline))
        case "dead" | "rejected":
            return _body(settled, dlq_topic=settled.dlq_topic or "")
        case "acked":
            return _body(settled)


def _body(settled: Settled, **more: Any) -> SettledBody:
    return SettledBody(
        settled.action,
        settled.topic,
        settled.partition,
        settled.offset,
        settled.attempt,
        settled.floor,
        settled.in_flight,
        **more,
    )
