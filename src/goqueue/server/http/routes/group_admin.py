"""Consumer groups for operators: list, describe, lag, reset, delete, how often they rebalance."""

from collections.abc import Callable
from itertools import chain
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request
from litestar.params import JSONBody, QueryParameter

from goqueue.api.groups import (
    NAME_LENGTH_MAX,
    GroupDeletedBody,
    GroupDetail,
    GroupLag,
    GroupList,
    GroupMember,
    GroupOffset,
    GroupOffsets,
    GroupSummary,
    LagBody,
    MovedOffset,
    OffsetsReset,
    RebalanceStats,
    ResetOffsets,
)
from goqueue.api.parsing import parse_time
from goqueue.broker import Broker
from goqueue.broker.cluster.other_nodes import Verb
from goqueue.broker.groups.admin import GroupAdmin, PartitionLag, Reset
from goqueue.broker.queues.admin import QueueGroupDescription, Worker
from goqueue.groups import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    RebalanceStatistics,
    add_up,
)
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import GroupId
from goqueue.model.times import time_text
from goqueue.model.topic_partition import TopicPartition
from goqueue.security import Operation, ResourceType
from goqueue.server.http.asgi.dependencies import TheBroker, TheGroupAdmin
from goqueue.server.http.gathering import answers, check_shards, gather
from goqueue.server.http.routes.bodies import body_of
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.group_bodies import MEANINGS, WRITE_MEANINGS, GroupPath, group_name
from goqueue.server.http.security.visibility import visible

GROUPS_PAGE_MAX: Final = 10_000


routes = Routes("groups", MEANINGS, WRITE_MEANINGS)


# --- list and describe --------------------------------------------------------------------------


@routes.get("/groups", "List groups")
async def list_groups(
    broker: TheBroker,
    request: Request[Any, Any, Any],
    in_state: Annotated[
        str | None, query("Only groups in this state.", name="state", max_length=40)
    ] = None,
    of_type: Annotated[
        Literal["classic", "consumer", "share"] | None,
        query("Only groups of this type.", name="type"),
    ] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=GROUPS_PAGE_MAX)] = GROUPS_PAGE_MAX,
    after: Annotated[
        str | None, query("Only names behind this one.", max_length=NAME_LENGTH_MAX)
    ] = None,
) -> GroupList:
    """All groups that have members or committed offsets, by name; of all nodes."""
    parts = await gather(
        broker, broker.group_coordinators(), lambda shards: GroupsHere(shards, in_state, of_type)
    )
    found = sorted(chain.from_iterable(parts), key=lambda each: each.group_id)
    may_see = visible(request.scope, broker.permissions, ResourceType.GROUP)
    known = (each for each in found if after is None or each.group_id > after)
    behind = [each for each in known if may_see(each.group_id)]
    page = behind[:limit]
    more = page[-1].group_id if len(behind) > limit else None
    return GroupList([_summary(each) for each in page], more)


class GroupsHere(Verb[list[GroupListing]], frozen=True):
    """The groups that a node coordinates."""

    name = "list_groups"
    reply_type = list[GroupListing]

    shards: list[int]
    in_state: str | None
    of_type: str | None


@answers(GroupsHere)
async def _list_here(broker: Broker, verb: GroupsHere) -> list[GroupListing]:
    check_shards(broker.groups.shards, verb.shards)
    found = await broker.queue_groups.list_groups(
        () if verb.in_state is None else (verb.in_state,),
        () if verb.of_type is None else (verb.of_type,),
    )
    return list(found)


def _summary(listing: GroupListing) -> GroupSummary:
    return GroupSummary(
        listing.group_id, listing.state, listing.member_count, listing.epoch, listing.group_type
    )


@routes.get("/groups/{group:str}", "Describe a group", 404)
async def describe_group(
    request: Request[Any, Any, Any], broker: TheBroker, overview: TheGroupAdmin, group: GroupPath
) -> GroupDetail:
    """Its members and what each has, with the way to where it goes while it rebalances.

    Topics that the caller may not see are left out.
    """
    may_see = visible(request.scope, broker.permissions, ResourceType.TOPIC)
    if broker.queue_groups.is_queue(group_name(group)):
        found = await broker.queue_groups.describe(group_name(group))
        return _show(queue_group(broker, found), may_see)
    return _show(await _detail(broker, overview, group), may_see)


async def _detail(broker: Broker, overview: GroupAdmin, group: str) -> GroupDetail:
    found = await broker.groups.describe(group_name(group))
    members = [_member(overview, found, each) for each in found.members]
    topics = {topic for each in members for topic in each.topics}
    topics |= {place.topic for each in members for place in each.partitions}
    return GroupDetail(
        id=found.group_id,
        state=found.state,
        type=found.group_type,
        generation=found.epoch,
        assignor=found.protocol,
        leader=found.leader or None,
        topics=sorted(topics),
        members=members,
        changed_at=time_text(found.changed_at) if found.changed_at > 0 else None,
    )


def _show(group: GroupDetail, may_see: Callable[[str], bool]) -> GroupDetail:
    """Without topics that may not be seen."""

    def places(found: list[TopicPartition]) -> list[TopicPartition]:
        return [each for each in found if may_see(each.topic)]

    members = [
        msgspec.structs.replace(
            each,
            topics=list(filter(may_see, each.topics)),
            partitions=places(each.partitions),
            revoking=places(each.revoking),
            target=places(each.target),
        )
        for each in group.members
    ]
    return msgspec.structs.replace(
        group, topics=list(filter(may_see, group.topics)), members=members
    )


def _member(
    overview: GroupAdmin, group: GroupDescription, member: MemberDescription
) -> GroupMember:
    return GroupMember(
        id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        instance_id=member.instance_id,
        protocol=member.member_type if member.reader is None else "http",
        generation=member.member_epoch,
        state=member.state.capitalize() or group.state,
        topics=overview.list_subscribed(group, member),
        topics_regex=member.subscribed_regex,
        partitions=overview.list_assigned(group, member),
        revoking=overview.list_revoking(member),
        target=overview.target(member),
    )


def queue_group(broker: Broker, found: QueueGroupDescription) -> GroupDetail:
    """A group in queue mode, where every member has all partitions of its topics."""
    members = [_worker(broker, each) for each in found.workers]
    return GroupDetail(
        id=found.group_id,
        state=found.state,
        type="share",
        generation=found.generation,
        assignor="",
        leader=None,
        topics=sorted({*found.topics, *(topic for each in members for topic in each.topics)}),
        members=members,
        changed_at=None,
    )


def _worker(broker: Broker, worker: Worker) -> GroupMember:
    places = [
        TopicPartition(topic.name, index)
        for topic in broker.topics()
        for index in range(worker.assigned.get(topic.topic_id, 0))
    ]
    return GroupMember(
        id=worker.member_id,
        client_id=worker.client_id,
        client_host=worker.client_host.removeprefix("/"),
        instance_id=None,
        protocol=worker.protocol,
        generation=worker.generation,
        state="Stable",
        topics=sorted(worker.topics),
        topics_regex=None,
        partitions=places,
        revoking=[],
        target=places,
    )


# --- delete -------------------------------------------------------------------------------------


@routes.delete("/groups/{group:str}", "Delete a group and its offsets", 404, 409, 507)
async def delete_group(broker: TheBroker, group: GroupPath) -> GroupDeletedBody:
    """Only one without members; they would not notice, and go on as a group without a past."""
    await broker.queue_groups.delete(group_name(group))
    return GroupDeletedBody(group, deleted=True)


# --- offsets and lag ----------------------------------------------------------------------------


@routes.get("/groups/{group:str}/offsets", "Committed offsets", 404)
async def get_offsets(
    request: Request[Any, Any, Any], broker: TheBroker, overview: TheGroupAdmin, group: GroupPath
) -> GroupOffsets:
    """In the topics that the caller may see."""
    may_see = visible(request.scope, broker.permissions, ResourceType.TOPIC)
    described, found = await overview.read_committed(group_name(group))
    committed = {place: each for place, each in found.items() if may_see(place.topic)}
    topics: dict[str, dict[str, int]] = {}
    for place, each in committed.items():
        topics.setdefault(place.topic, {})[str(place.partition)] = each.offset
    details = [
        GroupOffset(
            place.topic, place.partition, each.offset, each.metadata, time_text(each.committed_at)
        )
        for place, each in committed.items()
    ]
    return GroupOffsets(group, described.epoch, topics, details)


@routes.get("/groups/{group:str}/lag", "How far behind", 404)
async def get_lag(
    request: Request[Any, Any, Any], broker: TheBroker, overview: TheGroupAdmin, group: GroupPath
) -> GroupLag:
    """For each partition that the group has committed in, or that a member has.

    In the topics that the caller may see.
    """
    may_see = visible(request.scope, broker.permissions, ResourceType.TOPIC)
    described, known = await overview.lag(group_name(group))
    found = [each for each in known if may_see(each.topic)]
    lag = sum(each.lag for each in found)
    return GroupLag(group, described.state, lag, [_lag(each) for each in found])


def _lag(found: PartitionLag) -> LagBody:
    member = found.member
    return body_of(
        LagBody,
        found,
        member_id=None if member is None else member.member_id,
        client_id=None if member is None else member.client_id,
    )


# --- reset --------------------------------------------------------------------------------------


@routes.post("/groups/{group:str}/offsets/reset", "Move the offsets of a group", 404, 409, 507)
async def reset_offsets(
    request: Request[Any, Any, Any],
    broker: TheBroker,
    overview: TheGroupAdmin,
    group: GroupPath,
    data: JSONBody[ResetOffsets],
) -> OffsetsReset:
    """Only while it has no members.  Beyond the first or the last message it is the nearest.

    Without a topic all of the group's offsets are moved, and all of their topics must be readable.
    """
    may_read = visible(request.scope, broker.permissions, ResourceType.TOPIC, Operation.READ)
    moves = await overview.reset(
        Reset(
            group_id=group_name(group),
            to=data.to,
            value=_reset_value(data),
            topic=data.topic,
            partition=data.partition,
            dry_run=data.dry_run,
        ),
        may_read,
    )
    return OffsetsReset(group, data.dry_run, [body_of(MovedOffset, each) for each in moves])


def _reset_value(data: ResetOffsets) -> int | None:
    if not isinstance(data.value, str):
        return data.value
    if data.to != "timestamp":
        raise InvalidRequest(f"value: reset to {data.to} needs a number")
    return parse_time(data.value, "value")


# --- rebalances ---------------------------------------------------------------------------------


@routes.get("/groups/{group:str}/rebalance/stats", "How often a group rebalances", 404)
async def group_rebalances(broker: TheBroker, group: GroupPath) -> RebalanceStats:
    group_id: GroupId = group_name(group)
    await broker.groups.describe(group_id)
    return _stats(broker.groups.statistics.groups.get(group_id, RebalanceStatistics()))


@routes.get("/rebalance/stats", "How often groups rebalance")
async def all_rebalances(broker: TheBroker) -> RebalanceStats:
    """Of the groups of all nodes, since each began to coordinate."""
    return _stats(add_up(await gather(broker, broker.group_coordinators(), RebalancesHere)))


class RebalancesHere(Verb[RebalanceStatistics], frozen=True):
    """How often groups rebalance that a node coordinates."""

    name = "rebalance_statistics"
    reply_type = RebalanceStatistics

    shards: list[int]


@answers(RebalancesHere)
async def _rebalances_here(broker: Broker, verb: RebalancesHere) -> RebalanceStatistics:
    check_shards(broker.groups.shards, verb.shards)
    return broker.groups.statistics.total


def _stats(counted: RebalanceStatistics) -> RebalanceStats:
    finished_at = counted.last_finished_at
    return RebalanceStats(
        total_rebalances=counted.started,
        finished_rebalances=counted.finished,
        rebalances_by_reason=dict(counted.by_reason),
        partitions_assigned=counted.partitions_assigned,
        partitions_revoked=counted.partitions_revoked,
        revocation_timeouts=counted.revocation_timeouts,
        sessions_expired=counted.sessions_expired,
        last_rebalance_duration_ms=counted.last_duration_ms,
        average_rebalance_duration_ms=counted.average_duration_ms,
        last_rebalance_at=None if finished_at is None else time_text(finished_at),
    )
