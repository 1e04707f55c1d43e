"""Consumer groups for their members: join, poll, commit, leave."""

from collections.abc import Callable
from typing import Annotated, Any, Final

from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter

from goqueue.api.groups import (
    CommitOffsets,
    CommittedBody,
    GroupMessage,
    JoinGroup,
    LeaveGroup,
    LeftBody,
    MemberCall,
    MembershipBody,
    PollBody,
    RevokedBody,
    RevokePartitions,
)
from goqueue.api.messages import INT32_MAX, ReadEncoding
from goqueue.api.parsing import INT64_MAX, WAIT_PATTERN, parse_wait
from goqueue.api.queues import QueuePollBody
from goqueue.broker.groups.http_requests import (
    JoinAsReader,
    Membership,
    Polled,
    PollRequest,
)
from goqueue.broker.queues.members import QueuePoll
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import Offset
from goqueue.model.names import topic_name
from goqueue.model.record import Record
from goqueue.model.topic_partition import TopicPartition
from goqueue.server.http.asgi.access import refuse_unproven_browser
from goqueue.server.http.asgi.dependencies import (
    TheBroker,
    TheGroupAdmin,
    TheMembers,
    TheMetrics,
    ThePolls,
)
from goqueue.server.http.routes import queue_members
from goqueue.server.http.routes.group_bodies import (
    GroupPath,
    MemberQuery,
    check_join,
    group_name,
    group_responses,
    group_write_responses,
)
from goqueue.server.http.routes.message_bodies import message_body
from goqueue.server.http.routes.messages import (
    LIMIT_DEFAULT,
    READ_BYTES_DEFAULT,
    BytesQuery,
    EncodingQuery,
    LimitQuery,
)
from goqueue.server.http.routes.queue_bodies import visibility_ms

POLL_TIMEOUT_DEFAULT: Final = "30s"

TimeoutQuery = Annotated[
    str,
    QueryParameter(
        schema_extra={"pattern": WAIT_PATTERN},
        description="How long to wait for a message: `500ms`, `30s`, `1m`, or plain milliseconds."
        " Longer waits end at the server's `http.long_poll_ms_max`.",
    ),
]


# --- coming and going ---------------------------------------------------------------------------


async def join_group(
    request: Request[Any, Any, Any],
    broker: TheBroker,
    members: TheMembers,
    group: GroupPath,
    data: JSONBody[JoinGroup],
) -> MembershipBody:
    """Become a member, and get a share of the topics' partitions.

    Partitions that others have yet to let go come with a later poll.  In queue mode members share
    the messages of all partitions instead.
    """
    check_join(data)
    if data.mode == "queue":
        if not data.topics:
            raise InvalidRequest("topics: name at least one")
        return await queue_members.join(request, broker, group_name(group), data)
    if not data.topics and not data.topics_regex:
        raise InvalidRequest("topics: name at least one, or give topics_regex")
    joined = await members.join(
        JoinAsReader(
            group_id=group_name(group),
            topics=tuple(topic_name(each) for each in data.topics),
            topics_regex=data.topics_regex,
            member_id=data.member_id,
            instance_id=data.instance_id,
            client_id=data.client_id,
            client_host="" if request.client is None else request.client.host,
            assignor=data.assignor,
            session_timeout_ms=data.session_timeout_ms,
            rebalance_timeout_ms=data.rebalance_timeout_ms,
            auto_commit_interval_ms=data.auto_commit_interval_ms if data.auto_commit else None,
            starts_at_end=data.offset_reset == "latest",
        )
    )
    return MembershipBody(**_membership(joined, broker))


async def leave_group(
    broker: TheBroker, members: TheMembers, group: GroupPath, data: JSONBody[LeaveGroup]
) -> LeftBody:
    """Leave the group; its partitions are reassigned without waiting for the session time-out."""
    if broker.queue_members.is_worker(group_name(group), data.member_id):
        await broker.queue_members.leave(group_name(group), data.member_id)
        return LeftBody(data.member_id, left=True)
    await members.leave(group_name(group), data.member_id, is_done=data.commit)
    return LeftBody(data.member_id, left=True)


# --- staying ------------------------------------------------------------------------------------


async def heartbeat(
    broker: TheBroker, members: TheMembers, group: GroupPath, data: JSONBody[MemberCall]
) -> MembershipBody:
    """Stay a member without polling: while a batch takes long to process, say.

    With the generation of an answer that had `revoked`, it also says that these were let go.
    """
    if broker.queue_members.is_worker(group_name(group), data.member_id):
        return queue_members.heartbeat(broker, group_name(group), data.member_id, data.generation)
    standing = await members.heartbeat(group_name(group), data.member_id, data.generation)
    return MembershipBody(**_membership(standing, broker))


async def revoke_partitions(
    broker: TheBroker, members: TheMembers, group: GroupPath, data: JSONBody[RevokePartitions]
) -> RevokedBody:
    """Confirm that revoked partitions were given up, without polling."""
    standing, left = await members.revoke(
        group_name(group), data.member_id, data.generation, data.revoked_partitions
    )
    return RevokedBody(**_membership(standing, broker), pending_count=left)


async def get_assignment(
    broker: TheBroker, members: TheMembers, group: GroupPath, member_id: MemberQuery
) -> MembershipBody:
    """What a member has now.  This is no heartbeat."""
    if broker.queue_members.is_worker(group_name(group), member_id):
        return queue_members.assignment(broker, group_name(group), member_id)
    standing = members.assignment(group_name(group), member_id)
    return MembershipBody(**_membership(standing, broker))


# --- reading ------------------------------------------------------------------------------------


async def poll(
    request: Request[Any, Any, Any],
    broker: TheBroker,
    members: TheMembers,
    polls: ThePolls,
    metrics: TheMetrics,
    group: GroupPath,
    member_id: MemberQuery,
    generation: Annotated[
        int | None,
        QueryParameter(
            ge=1,
            le=INT32_MAX,
            description="As the last answer gave it; in queue mode it may be left out.",
        ),
    ] = None,
    seen: Annotated[
        int | None,
        QueryParameter(
            ge=0,
            le=INT64_MAX,
            description="`poll_id` of the last response that arrived. If it is not the last one"
            " that was sent, its messages are delivered again. Absent: the last one arrived.",
        ),
    ] = None,
    timeout: TimeoutQuery = POLL_TIMEOUT_DEFAULT,
    limit: LimitQuery = LIMIT_DEFAULT,
    max_bytes: BytesQuery = READ_BYTES_DEFAULT,
    visibility: Annotated[
        str | None,
        QueryParameter(
            schema_extra={"pattern": WAIT_PATTERN},
            description="In queue mode, how long the messages are yours: `30s`; absent: the group's"
            " setting.",
        ),
    ] = None,
    encoding: EncodingQuery = "auto",
) -> PollBody | QueuePollBody:
    """The next messages of all partitions the member has.

    Waits for one when there is none; an answer without messages is no error.  It counts as a
    heartbeat all the while.  The answer comes at once when partitions come or go; then `revoked`
    has what to let go.  A member has one poll at a time: a second one ends the first with 409.

    In queue mode each message comes with a receipt, and is the member's until it is acked or its
    time is over; polls at the same time share the messages.
    """
    if broker.queue_members.is_worker(group_name(group), member_id):
        work = QueuePoll(
            group_id=group_name(group),
            member_id=member_id,
            generation=generation,
            max_messages=limit,
            max_bytes=max_bytes,
            visibility_ms=None if visibility is None else visibility_ms(parse_wait(visibility)),
        )
        return await queue_members.poll(
            request, broker, polls, work, parse_wait(timeout), encoding, metrics.queues.receiving
        )
    if generation is None:
        members.assignment(group_name(group), member_id)  # or there is no such member
        raise InvalidRequest("generation: give that of the last answer")
    wanted = PollRequest(
        group_id=group_name(group),
        member_id=member_id,
        generation=generation,
        seen=seen,
        limit=limit,
        bytes_max=max_bytes,
    )
    polled = await polls.run(
        request, parse_wait(timeout), lambda deadline: members.poll(wanted, deadline)
    )
    return _poll_body(polled, broker, encoding)


def _poll_body(polled: Polled, broker: TheBroker, encoding: ReadEncoding) -> PollBody:
    next_offsets: dict[str, dict[str, int]] = {}
    for delivered in polled.deliveries:
        offsets = next_offsets.setdefault(delivered.topic, {})
        offsets[str(delivered.partition)] = delivered.next_offset
    return PollBody(
        **_membership(polled.membership, broker),
        messages=[
            _message(delivered.topic, delivered.partition, record, encoding)
            for delivered in polled.deliveries
            for record in delivered.records
        ],
        next_offsets=next_offsets,
        poll_id=polled.poll_id,
        problems=polled.problems,
    )


def _message(topic: str, partition: int, record: Record, encoding: ReadEncoding) -> GroupMessage:
    body = message_body(record, partition, encoding)
    return GroupMessage(
        topic,
        partition,
        body.offset,
        body.timestamp,
        body.key,
        body.value,
        body.headers,
        body.priority,
        body.encoding,
    )


def _membership(standing: Membership, broker: TheBroker) -> dict[str, Any]:
    """The fields that all answers to members share."""
    return {
        "member_id": standing.member_id,
        "mode": "stream",
        "generation": standing.generation,
        "state": standing.state.capitalize(),
        "partitions": standing.partitions,
        "revoked": standing.revoked,
        "rebalance_required": bool(standing.revoked),
        "session_timeout_ms": standing.session_timeout_ms,
        "heartbeat_interval_ms": min(
            broker.config.groups.heartbeat_interval_ms, standing.session_timeout_ms // 3
        ),
    }


# --- committing ---------------------------------------------------------------------------------


async def commit_offsets(
    broker: TheBroker,
    members: TheMembers,
    overview: TheGroupAdmin,
    group: GroupPath,
    data: JSONBody[CommitOffsets],
) -> CommittedBody:
    """Say how far the member has processed its partitions; all of it or nothing.

    Without `member_id` it sets the offsets of a group that has no members.
    """
    group_id = group_name(group)
    offsets = {
        TopicPartition(topic_name(topic), index): Offset(offset)
        for topic, some in data.offsets.items()
        for index, offset in some.items()
    }
    if broker.queue_members.is_worker(group_id, data.member_id):
        raise InvalidRequest("member_id: a member in queue mode acks its messages instead")
    if data.member_id:
        if data.generation is None:
            raise InvalidRequest("generation: required with member_id")
        await members.commit(group_id, data.member_id, data.generation, offsets, data.metadata)
    else:
        await overview.commit(group_id, offsets, data.metadata)
    committed = {
        topic: {str(index): offset for index, offset in some.items()}
        for topic, some in data.offsets.items()
    }
    return CommittedBody(group, committed)


# --- routes -------------------------------------------------------------------------------------


def _post(summary: str, operation: Callable[..., Any], path: str) -> HTTPRouteHandler:
    return post(
        f"/groups/{{group:str}}/{path}",
        tags=["groups"],
        summary=summary,
        status_code=200,
        responses=group_write_responses(404, 409, 416, 422, 507),
    )(operation)


HANDLERS = [
    _post("Join a group", join_group, "join"),
    _post("Stay a member", heartbeat, "heartbeat"),
    _post("Leave a group", leave_group, "leave"),
    _post("Let partitions go", revoke_partitions, "revoke"),
    _post("Commit offsets", commit_offsets, "offsets"),
    get(
        "/groups/{group:str}/poll",
        tags=["groups"],
        summary="Read as a member",
        guards=[refuse_unproven_browser],
        responses=group_responses(404, 409, 429, 507),
    )(poll),
    get(
        "/groups/{group:str}/assignment",
        tags=["groups"],
        summary="What a member has",
        responses=group_responses(404, 409),
    )(get_assignment),
]
