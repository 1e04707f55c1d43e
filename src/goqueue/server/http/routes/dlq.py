"""Dead letters: browse, redrive, purge.

`topic` is always the topic that the messages came from, not `{topic}.dlq`.
"""

from collections import Counter
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, PathParameter, SkipValidation

from goqueue.api.dlq import (
    DeadLetterBody,
    DeadLettersBody,
    DeadLetterSelection,
    PurgedBody,
    Redrive,
    RedriveBody,
    RedrivenBody,
    RedrivesBody,
    TakenBody,
    TakenPartition,
)
from goqueue.api.errors import MissingPartition
from goqueue.api.groups import NAME_LENGTH_MAX
from goqueue.api.messages import INT32_MAX, HeaderBody, ReadEncoding
from goqueue.api.parsing import INT64_MAX, TIME_PATTERN, parse_time
from goqueue.api.queues import Time
from goqueue.broker.dlq.browse import DeadLetter, DeadLetterFilter, DeadLetters, Missing
from goqueue.broker.dlq.redrive_jobs import Redrive as RedriveState
from goqueue.model.errors import InvalidRequest
from goqueue.model.names import topic_name
from goqueue.model.times import time_text
from goqueue.queue import DeadLetterNotFound, FailureHistory, dead_letter_topic
from goqueue.server.http.asgi.dependencies import TheBroker, ThePolls, TheQueues
from goqueue.server.http.routes.bodies import body_of
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.message_bodies import message_body
from goqueue.server.http.routes.messages import EncodingQuery, PartitionPath
from goqueue.server.http.routes.queue_bodies import MEANINGS
from goqueue.server.http.routes.topics import TopicPath

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 10_000
COUNTED_MAX: Final = 10_000  # dead letters that are read to count the reasons
HEADER_PATTERN: Final = "^[^=]+=.*$"
AFTER_PATTERN: Final = r"^\d{1,10}:\d{1,19}$"
MESSAGE_FIELDS: Final = ("timestamp", "key", "value", "headers", "priority", "encoding")
# Of a message that another producer wrote there.
UNKNOWN: Final = FailureHistory(
    dead_letter_id="",
    topic="",
    partition=-1,
    offset=-1,
    group_id="",
    consumer="",
    reason="",
    error="",
    attempts=0,
    failures=0,
    first_delivery=None,
    last_delivery=None,
    died_at=-1,
)
QUERY_LENGTH_MAX: Final = 1_000  # percent-encoded it must fit into a request's head


routes = Routes("dead letters", MEANINGS)


# --- looking ------------------------------------------------------------------------------------


RedrivePath = Annotated[str, PathParameter(description="As the redrive's answer gave it.")]
DlqOffsetPath = Annotated[
    int, PathParameter(description="Of the dead letter.", schema_extra={"minimum": 0})
]


def query_filter(
    partition: Annotated[int | None, query("Only of this partition.", ge=0, le=INT32_MAX)] = None,
    key: Annotated[str | None, query("Only with this key.", max_length=QUERY_LENGTH_MAX)] = None,
    reason: Annotated[
        str | None, query("Only this one, such as `max_failures`.", max_length=NAME_LENGTH_MAX)
    ] = None,
    group: Annotated[str | None, query("Only this group's.", max_length=NAME_LENGTH_MAX)] = None,
    from_time: Annotated[str | None, query("Died at this time or later.", TIME_PATTERN)] = None,
    to_time: Annotated[str | None, query("Died before this time.", TIME_PATTERN)] = None,
    header: Annotated[
        str | None,
        query("Only with this header: `name=value`.", HEADER_PATTERN, max_length=QUERY_LENGTH_MAX),
    ] = None,
) -> DeadLetterFilter:
    """The same fields as those of a body, as parameters."""
    return _filter(
        DeadLetterSelection(
            partition=partition,
            key=key,
            reason=reason,
            group=group,
            from_time=from_time,
            to_time=to_time,
            header=_header(header),
        )
    )


FILTERED: Final = {"which": Provide(query_filter, sync_to_thread=False)}
TheFilter: TypeAlias = NamedDependency[SkipValidation[DeadLetterFilter]]


@routes.get("/topics/{topic:str}/dlq", "Look at dead letters", 404, dependencies=FILTERED)
async def browse_dead_letters(
    broker: TheBroker,
    queues: TheQueues,
    which: TheFilter,
    topic: TopicPath,
    limit: Annotated[int, query("Most messages to give.", ge=0, le=LIMIT_MAX)] = LIMIT_DEFAULT,
    after: Annotated[str | None, query("`next_after` of the last answer.", AFTER_PATTERN)] = None,
    reasons: Annotated[bool, query("Count them by reason, too.")] = False,
    encoding: EncodingQuery = "auto",
) -> DeadLettersBody:
    """By partition and offset; nothing changes."""
    name = topic_name(topic)
    broker.topic(name)
    dead_letters = queues.dead_letters
    found, missing = [], Missing()
    if limit:
        found = await dead_letters.browse(
            name, which=which, limit=limit, after=_place(after), missing=missing
        )
    last = found[-1] if found and len(found) == limit else None
    return DeadLettersBody(
        name,
        dead_letter_topic(name),
        await dead_letters.count(name, missing=missing),
        [_body(each, encoding) for each in found],
        None if last is None else f"{last.partition}:{last.dlq_offset}",
        await _reasons(dead_letters, name, which) if reasons else None,
        missing_of(dead_letter_topic(name), missing),
    )


@routes.get("/topics/{topic:str}/dlq/taken", "Which dead letters were driven back or purged", 404)
async def list_taken_ranges(broker: TheBroker, queues: TheQueues, topic: TopicPath) -> TakenBody:
    """For those who read the topic of dead letters themselves, where these still lie."""
    name = topic_name(topic)
    broker.topic(name)
    missing = Missing()
    taken = [
        TakenPartition(partition, floor, list(ranges))
        for partition, floor, ranges in await queues.dead_letters.list_taken(name, missing=missing)
    ]
    dlq_topic = dead_letter_topic(name)
    return TakenBody(name, dlq_topic, taken, missing_of(dlq_topic, missing))


def missing_of(topic: str, missing: Missing) -> list[MissingPartition]:
    return [
        MissingPartition(topic, index, why.code, str(why)) for index, why in sorted(missing.items())
    ]


async def _reasons(dead_letters: DeadLetters, name: str, which: DeadLetterFilter) -> dict[str, int]:
    found = await dead_letters.browse(name, which=which, limit=COUNTED_MAX, missing=Missing())
    return dict(Counter("" if each.history is None else each.history.reason for each in found))


def _place(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    partition, colon, offset = text.partition(":")
    digits = partition + offset
    if not colon or not partition or not offset or not (digits.isascii() and digits.isdigit()):
        raise InvalidRequest(f"after: {text[:60]!r} is not `next_after` of an answer")
    return min(int(partition), INT32_MAX), min(int(offset), INT64_MAX)


@routes.get("/topics/{topic:str}/dlq/{partition:int}/{offset:int}", "Look at one dead letter", 404)
async def get_dead_letter(
    broker: TheBroker,
    queues: TheQueues,
    topic: TopicPath,
    partition: PartitionPath,
    offset: DlqOffsetPath,
    encoding: EncodingQuery = "auto",
) -> DeadLetterBody:
    name = topic_name(topic)
    broker.topic(name)
    found: list[DeadLetter] = []
    if 0 <= partition <= INT32_MAX and 0 <= offset <= INT64_MAX:
        which = DeadLetterFilter(partition=partition, dlq_offsets=frozenset({offset}))
        found = await queues.dead_letters.browse(name, which=which, limit=1)
    if not found:
        raise DeadLetterNotFound(f"topic {name!r} has no dead letter {partition}/{offset}")
    return _body(found[0], encoding)


def _body(message: DeadLetter, encoding: ReadEncoding) -> DeadLetterBody:
    body = message_body(message.record, message.partition, encoding)
    history = message.history or UNKNOWN
    return body_of(
        DeadLetterBody,
        history,
        **{name: getattr(body, name) for name in MESSAGE_FIELDS},
        partition=message.partition,
        offset=message.dlq_offset,
        source_offset=None if message.history is None else history.offset,
        group=history.group_id,
        first_delivery=_time(history.first_delivery),
        last_delivery=_time(history.last_delivery),
        died_at=time_text(history.died_at),
    )


def _time(moment: int | None) -> Time:
    return None if moment is None else time_text(moment)


# --- moving -------------------------------------------------------------------------------------


@routes.post(
    "/topics/{topic:str}/dlq/redrive",
    "Put dead letters back",
    404,
    507,
    responses={
        202: ResponseSpec(
            RedriveBody, description="It goes on in the background.", generate_examples=False
        )
    },
)
async def redrive_dead_letters(
    request: Request[Any, Any, Any],
    broker: TheBroker,
    queues: TheQueues,
    polls: ThePolls,
    topic: TopicPath,
    data: JSONBody[Redrive],
) -> RedrivenBody | Response[RedriveBody]:
    """As they were, key, value, headers and timestamp, to the end of their topic or another one.

    Each arrives once, also when the server is killed meanwhile: what was under way is finished
    after the next start.  When the caller leaves, it ends with what was moved so far; with
    `background` it goes on.
    """
    name = topic_name(topic)
    broker.topic(name)
    target = None if data.to is None else topic_name(data.to)
    if target is not None:
        broker.topic(target)
    which, dead_letters = _filter(data), queues.dead_letters
    if data.dry_run:
        limit = min(data.limit or COUNTED_MAX, COUNTED_MAX)
        found = await dead_letters.browse(name, which=which, limit=limit)
        return RedrivenBody(name, target or name, len(found), dry_run=True)
    if data.background:
        started = queues.redrives.start(
            name, which=which, limit=data.limit, target=target, rate=data.rate
        )
        return Response(_redrive(started), status_code=202)
    done, _ = await polls.run_until_disconnect(
        request.receive,
        0,
        lambda _: dead_letters.redrive(
            name, which=which, limit=data.limit, target=target, rate=data.rate
        ),
    )
    return RedrivenBody(name, target or name, done or 0, dry_run=False)


def _redrive(redrive: RedriveState) -> RedriveBody:
    started_at = time_text(redrive.started_at)
    return body_of(RedriveBody, redrive, id=redrive.redrive_id, started_at=started_at)


@routes.get("/topics/{topic:str}/dlq/redrives", "Redrives in the background", 404)
async def list_redrives(broker: TheBroker, queues: TheQueues, topic: TopicPath) -> RedrivesBody:
    name = topic_name(topic)
    broker.topic(name)
    return RedrivesBody(name, [_redrive(each) for each in await queues.redrives.of(name)])


@routes.get("/topics/{topic:str}/dlq/redrives/{redrive:str}", "How far a redrive is", 404)
async def get_redrive(queues: TheQueues, topic: TopicPath, redrive: RedrivePath) -> RedriveBody:
    return _redrive(await queues.redrives.get(topic_name(topic), redrive))


@routes.delete("/topics/{topic:str}/dlq/redrives/{redrive:str}", "End a redrive", 404)
async def cancel_redrive(queues: TheQueues, topic: TopicPath, redrive: RedrivePath) -> RedriveBody:
    """What is on its way arrives; no more follows."""
    return _redrive(await queues.redrives.cancel(topic_name(topic), redrive))


@routes.delete(
    "/topics/{topic:str}/dlq", "Throw dead letters away", 404, 507, dependencies=FILTERED
)
async def purge_dead_letters(
    broker: TheBroker,
    queues: TheQueues,
    which: TheFilter,
    topic: TopicPath,
    offset: Annotated[
        int | None, query("Only this one; with `partition`.", ge=0, le=INT64_MAX)
    ] = None,
) -> PurgedBody:
    """All of them, or those that are like this; for good."""
    name = topic_name(topic)
    broker.topic(name)
    if offset is not None:
        if which.partition is None:
            raise InvalidRequest("offset: give the partition, too")
        which = msgspec.structs.replace(which, dlq_offsets=frozenset({offset}))
    return PurgedBody(name, await queues.dead_letters.purge(name, which=which))


def _filter(which: DeadLetterSelection) -> DeadLetterFilter:
    if which.offsets is not None and which.partition is None:
        raise InvalidRequest("offsets: give the partition, too")
    header = which.header
    return DeadLetterFilter(
        partition=which.partition,
        dlq_offsets=None if which.offsets is None else frozenset(which.offsets),
        key=None if which.key is None else which.key.encode(),
        reason=which.reason,
        group=which.group,
        died_from=_moment(which.from_time, "from_time"),
        died_to=_moment(which.to_time, "to_time"),
        header=None if header is None else (header.name, (header.value or "").encode()),
    )


def _header(text: str | None) -> HeaderBody | None:
    if text is None:
        return None
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise InvalidRequest(f"header: {text[:60]!r} is not name=value")
    return HeaderBody(name, value)


def _moment(given: int | str | None, name: str) -> int | None:
    return parse_time(given, name) if isinstance(given, str) else given
