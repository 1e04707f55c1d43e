"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: groups whose members divide the partitions.

JoinGroup and SyncGroup answer when the group's phase ends.  Until then the connection handles
nothing else, as in Kafka: a client keeps one connection for its group, and waits on it.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from goqueue.groups import JoinRequest, Left, MemberIdentity, Protocol, SyncRequest
from goqueue.groups.errors import MemberIdRequired
from goqueue.model.errors import GoQueueError
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import coordinated_group
from goqueue.server.kafka.errors import coordinator_code
from goqueue.server.kafka.group_names import client_host, client_id
from goqueue.wire.messages import build, milliseconds

MEMBER_ID_REQUIRED_FROM: Final = 4
NULL_PROTOCOL_FROM: Final = 7
SKIP_ASSIGNMENT_FROM: Final = 9
NO_GENERATION: Final = -1


async def handle_join_group(context: Context, request: JoinGroupRequest) -> JoinGroupResponse:
    try:
        joined = await context.broker.groups.join(_join_request(context, request))
    except GoQueueError as error:
        return _refused_join(context, request, error)
    return build(
        JoinGroupResponse,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            build(
                JoinGroupResponseMember,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in joined.members
        ),
    )


def _join_request(context: Context, request: JoinGroupRequest) -> JoinRequest:
    version = context.header.api_version
    return JoinRequest(
        group_id=coordinated_group(context, request.group_id, Operation.READ),
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=client_id(context),
        client_host=client_host(context),
        session_timeout_ms=milliseconds(request.session_timeout),
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(known.name, known.metadata) for known in request.protocols),
        requires_member_id=version >= MEMBER_ID_REQUIRED_FROM,
        skips_assignment=version >= SKIP_ASSIGNMENT_FROM,
    )


def _refused_join(
    context: Context, request: JoinGroupRequest, error: GoQueueError
) -> JoinGroupResponse:
    member_id = error.member_id if isinstance(error, MemberIdRequired) else request.member_id
    may_be_null = context.header.api_version >= NULL_PROTOCOL_FROM
    return build(
        JoinGroupResponse,
        error_code=coordinator_code(error),
        generation_id=NO_GENERATION,
        protocol_name=None if may_be_null else "",
        member_id=member_id,
    )


async def handle_sync_group(context: Context, request: SyncGroupRequest) -> SyncGroupResponse:
    try:
        synced = await context.broker.groups.sync(
            SyncRequest(
                group_id=coordinated_group(context, request.group_id, Operation.READ),
                member_id=request.member_id,
                generation=request.generation_id,
                instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocol=request.protocol_name,
                assignments={given.member_id: given.assignment for given in request.assignments},
            )
        )
    except GoQueueError as error:
        return build(SyncGroupResponse, error_code=coordinator_code(error))
    return build(
        SyncGroupResponse,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


async def handle_heartbeat(context: Context, request: HeartbeatRequest) -> HeartbeatResponse:
    error_code = ErrorCode.none
    try:
        await context.broker.groups.heartbeat(
            coordinated_group(context, request.group_id, Operation.READ),
            request.member_id,
            generation=request.generation_id,
            instance_id=request.group_instance_id,
        )
    except GoQueueError as error:
        error_code = coordinator_code(error)
    return build(HeartbeatResponse, error_code=error_code)


async def handle_leave_group(context: Context, request: LeaveGroupRequest) -> LeaveGroupResponse:
    leavers = [
        MemberIdentity(member.member_id, member.group_instance_id) for member in request.members
    ]
    try:
        group_id = coordinated_group(context, request.group_id, Operation.READ)
        left = await context.broker.groups.leave(group_id, leavers)
    except GoQueueError as error:
        return build(LeaveGroupResponse, error_code=coordinator_code(error))
    return build(LeaveGroupResponse, members=tuple(map(_answer_leave, left)))


def _answer_leave(left: Left) -> MemberResponse:
    return build(
        MemberResponse,
        member_id=left.member_id,
        group_instance_id=left.instance_id,
        error_code=ErrorCode.none if left.error is None else coordinator_code(left.error),
    )
