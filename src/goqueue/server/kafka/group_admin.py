"""ListGroups, DescribeGroups, DeleteGroups: what administrators see of groups, and remove."""

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse

from goqueue.broker import Broker
from goqueue.groups import GroupDescription, MemberDescription
from goqueue.groups.errors import GroupNotFound
from goqueue.model.errors import GoQueueError, NotCoordinator
from goqueue.model.ids import GroupId
from goqueue.security import Operation, ResourceType
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import check_group
from goqueue.server.kafka.errors import coordinator_code
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build

# --- ListGroups -------------------------------------------------------------------------------


async def handle_list_groups(context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    """Those that this node coordinates: clients ask all nodes."""
    try:
        found = await context.broker.queue_groups.list_groups(
            request.states_filter, request.types_filter
        )
    except NotCoordinator:
        return build(ListGroupsResponse)
    except GoQueueError as error:
        return build(ListGroupsResponse, error_code=coordinator_code(error))
    sees_all = context.access.allows_cluster(Operation.DESCRIBE)
    return build(
        ListGroupsResponse,
        groups=tuple(
            build(
                ListedGroup,
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type.title(),
            )
            for group in found
            if sees_all or context.access.allows_group(Operation.DESCRIBE, group.group_id)
        ),
    )


# --- DescribeGroups ---------------------------------------------------------------------------


async def handle_describe_groups(
    context: Context, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    asked = request.include_authorized_operations
    names = dict.fromkeys(request.groups)
    try:
        async with context.broker.groups.barrier_of(*map(GroupId, names)):
            groups = [_describe(context, name, asked=asked) async for name in in_turns(names)]
    except GoQueueError as error:
        groups = [_refuse(name, error) for name in names]
    return build(DescribeGroupsResponse, groups=tuple(groups))


def _describe(context: Context, name: str, *, asked: bool) -> DescribedGroup:
    broker = context.broker
    try:
        context.access.demand_group(Operation.DESCRIBE, name)
        check_group(broker, GroupId(name))
        group = _classic_group(broker, GroupId(name))
    except GoQueueError as error:
        return _refuse(name, error)
    is_stable = group.state == "Stable"  # else the members' protocol is not agreed on
    return build(
        DescribedGroup,
        group_id=name,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol if is_stable else "",
        members=tuple(_describe_member(member, is_stable) for member in group.members),
        authorized_operations=context.access.operations(ResourceType.GROUP, name, asked=asked),
    )


def _refuse(name: str, error: GoQueueError) -> DescribedGroup:
    return build(
        DescribedGroup,
        error_code=coordinator_code(error),
        error_message=str(error),
        group_id=name,
        group_state="Dead",
    )


def _classic_group(broker: Broker, group_id: GroupId) -> GroupDescription:
    """One of the consumer protocol is not found here; ConsumerGroupDescribe tells of it."""
    group = broker.groups.describe_ahead(group_id)
    if group.group_type != "classic":
        raise GroupNotFound(f"group {group_id!r} is not a classic group")
    return group


def _describe_member(member: MemberDescription, is_stable: bool) -> DescribedGroupMember:
    return build(
        DescribedGroupMember,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata if is_stable else b"",
        member_assignment=member.assignment if is_stable else b"",
    )


# --- DeleteGroups -----------------------------------------------------------------------------


async def handle_delete_groups(
    context: Context, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    results = [await _delete(context, name) for name in request.groups_names]
    return build(DeleteGroupsResponse, results=tuple(results))


async def _delete(context: Context, name: str) -> DeletableGroupResult:
    error_code = ErrorCode.none
    try:
        context.access.demand_group(Operation.DELETE, name)
        check_group(context.broker, GroupId(name))
        await context.broker.queue_groups.delete(GroupId(name))
    except GoQueueError as error:
        error_code = coordinator_code(error)
    return build(DeletableGroupResult, group_id=name, error_code=error_code)
