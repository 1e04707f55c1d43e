"""Consumer groups for their members: join, poll, commit, leave."""

from typing import Annotated, Any, Final

from litestar import Request
from litestar.params import JSONBody

from goqueue.api.groups import (
    CommitOffsets,
    CommittedBody,
    JoinGroup,
    LeaveGroup,
    LeftBody,
    MemberCall,
    MembershipBody,
    PollBody,
    RevokedBody,
    RevokePartitions,
)
from goqueue.api.messages import INT32_MAX
from goqueue.api.parsing import INT64_MAX, WAIT_PATTERN, parse_wait
from goqueue.api.queues import QueuePollBody
from goqueue.broker import Broker
from goqueue.broker.groups.http_members import GroupMembers
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import Offset
from goqueue.model.names import topic_name
from goqueue.model.topic_partition import TopicPartition
from goqueue.server.http.asgi.access import refuse_unproven_browser
from goqueue.server.http.asgi.dependencies import (
    TheBroker,
    TheGroupAdmin,
    TheMembers,
    TheMetrics,
    ThePolls,
)
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.group_bodies import (
    MEANINGS,
    WRITE_MEANINGS,
    GroupPath,
    MemberQuery,
    check_join,
    group_name,
)
from goqueue.server.http.routes.member_engines import Engine, PollCall, QueueEngine, StreamEngine
from goqueue.server.http.routes.messages import (
    LIMIT_DEFAULT,
    READ_BYTES_DEFAULT,
    BytesQuery,
    EncodingQuery,
    LimitQuery,
)
from goqueue.server.http.routes.queue_bodies import visibility_ms
from goqueue.server.http.security.visibility import demand_reading, viewer_of

POLL_TIMEOUT_DEFAULT: Final = "30s"
REFUSALS: Final = (404, 409, 416, 422, 507)

TimeoutQuery = Annotated[
    str,
    query(
        "How long to wait for a message: `500ms`, `30s`, `1m`, or plain milliseconds."
        " Longer waits end at the server's `http.long_poll_ms_max`.",
        WAIT_PATTERN,
    ),
]


routes = Routes("groups", MEANINGS, WRITE_MEANINGS)


# --- coming and going ---------------------------------------------------------------------------


@routes.post("/groups/{group:str}/join", "Join a group", *REFUSALS)
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
    host = "" if request.client is None else request.client.host
    if data.mode == "queue":
        return await QueueEngine(broker).join(group_name(group), host, data)
    viewer = viewer_of(request.scope, broker.permissions) if data.topics_regex else None
    return await StreamEngine(broker, members, viewer).join(group_name(group), host, data)


def _engine(broker: Broker, members: GroupMembers, group: str, member_id: str) -> Engine:
    if broker.queue_members.is_worker(group_name(group), member_id):
        return QueueEngine(broker)
    return StreamEngine(broker, members)


@routes.post("/groups/{group:str}/leave", "Leave a group", *REFUSALS)
async def leave_group(
    broker: TheBroker, members: TheMembers, group: GroupPath, data: JSONBody[LeaveGroup]
) -> LeftBody:
    """Leave the group; its partitions are reassigned without waiting for the session time-out."""
    engine = _engine(broker, members, group, data.member_id)
    await engine.leave(group_name(group), data.member_id, is_done=data.commit)
    return LeftBody(data.member_id, left=True)


# --- staying ------------------------------------------------------------------------------------


@routes.post("/groups/{group:str}/heartbeat", "Stay a member", *REFUSALS)
async def heartbeat(
    broker: TheBroker, members: TheMembers, group: GroupPath, data: JSONBody[MemberCall]
) -> MembershipBody:
    """Stay a member without polling: while a batch takes long to process, say.

    With the generation of an answer that had `revoked`, it also says that these were let go.
    """
    engine = _engine(broker, members, group, data.member_id)
    return await engine.heartbeat(group_name(group), data.member_id, data.generation)


@routes.post("/groups/{group:str}/revoke", "Let partitions go", *REFUSALS)
async def revoke_partitions(
    broker: TheBroker, members: TheMembers, group: GroupPath, data: JSONBody[RevokePartitions]
) -> RevokedBody:
    """Confirm that revoked partitions were given up, without polling."""
    standing, left = await members.revoke(
        group_name(group), data.member_id, data.generation, data.revoked_partitions
    )
    return RevokedBody(**StreamEngine(broker, members).fields(standing), pending_count=left)


@routes.get("/groups/{group:str}/assignment", "What a member has", 404, 409)
async def get_assignment(
    broker: TheBroker, members: TheMembers, group: GroupPath, member_id: MemberQuery
) -> MembershipBody:
    """What a member has now.  This is no heartbeat."""
    engine = _engine(broker, members, group, member_id)
    return await engine.assignment(group_name(group), member_id)


# --- reading ------------------------------------------------------------------------------------


@routes.get(
    "/groups/{group:str}/poll",
    "Read as a member",
    404,
    409,
    429,
    507,
    guards=[refuse_unproven_browser],
)
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
        query("As the last answer gave it; in queue mode it may be left out.", ge=1, le=INT32_MAX),
    ] = None,
    seen: Annotated[
        int | None,
        query(
            "`poll_id` of the last response that arrived. If it is not the last one"
            " that was sent, its messages are delivered again. Absent: the last one arrived.",
            ge=0,
            le=INT64_MAX,
        ),
    ] = None,
    timeout: TimeoutQuery = POLL_TIMEOUT_DEFAULT,
    limit: LimitQuery = LIMIT_DEFAULT,
    max_bytes: BytesQuery = READ_BYTES_DEFAULT,
    visibility: Annotated[
        str | None,
        query(
            "In queue mode, how long the messages are yours: `30s`; absent: the group's setting.",
            WAIT_PATTERN,
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
    call = PollCall(
        group_id=group_name(group),
        member_id=member_id,
        generation=generation,
        seen=seen,
        limit=limit,
        max_bytes=max_bytes,
        visibility_ms=None if visibility is None else visibility_ms(parse_wait(visibility)),
        wait_ms=parse_wait(timeout),
        encoding=encoding,
    )
    engine = _engine(broker, members, group, member_id)
    if broker.permissions.is_asked:  # a permission may be gone since it joined
        standing = await engine.assignment(call.group_id, member_id)
        topics = {each.topic for each in standing.partitions}
        demand_reading(request.scope, broker.permissions, topics)
    return await engine.poll(request, polls, metrics, call)


# --- committing ---------------------------------------------------------------------------------


@routes.post("/groups/{group:str}/offsets", "Commit offsets", *REFUSALS)
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
