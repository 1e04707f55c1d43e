"""What administrators see of groups."""

from collections.abc import Iterator

import msgspec

from goqueue.groups.classic import ClassicGroup
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.context import CoordinatorContext
from goqueue.groups.errors import GroupNotEmpty, GroupNotFound
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import GroupDeleted, OffsetsDeleted, ReaderTraits
from goqueue.groups.topics import show_regex
from goqueue.model.ids import GroupId, Timestamp, TopicName

CLASSIC = "classic"
CONSUMER = "consumer"


class GroupListing(msgspec.Struct, frozen=True):
    group_id: GroupId
    protocol_type: str
    state: str
    group_type: str  # "classic" or "consumer"
    epoch: int = 0  # or the generation
    member_count: int = 0


class MemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A member of either kind; fields of the other kind are empty."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    member_type: str
    rack_id: str | None = None
    metadata: bytes = b""  # classic: what it says of itself in the group's protocol
    assignment: bytes = b""  # classic: what the leader gave it
    reader: ReaderTraits | None = None  # of one that polls over HTTP
    member_epoch: int = 0
    subscribed_names: tuple[TopicName, ...] = ()
    subscribed_regex: str | None = None
    state: str = ""
    assigned: PartitionSet = NO_PARTITIONS
    revoking: PartitionSet = NO_PARTITIONS
    target: PartitionSet = NO_PARTITIONS


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    group_type: str
    state: str
    protocol_type: str
    protocol: str  # or the assignor
    epoch: int  # or the generation
    target_epoch: int
    leader: str = ""
    changed_at: Timestamp = Timestamp(0)
    members: tuple[MemberDescription, ...] = ()


def list_groups(
    context: CoordinatorContext,
    states: frozenset[str] = frozenset(),
    types: frozenset[str] = frozenset(),
) -> tuple[GroupListing, ...]:
    """All groups, or those in the states and of the types asked for; case does not matter."""
    states = frozenset(map(str.lower, states))
    types = frozenset(map(str.lower, types))
    return tuple(
        listing
        for listing in _listings(context)
        if (not states or listing.state.lower() in states)
        and (not types or listing.group_type in types)
    )


def _listings(context: CoordinatorContext) -> Iterator[GroupListing]:
    for group in context.groups.values():
        if isinstance(group, ClassicGroup):
            kind, epoch = group.protocol_type, group.generation
            count = len(group.members)
            yield GroupListing(group.group_id, kind, group.state, CLASSIC, epoch, count)
        else:
            epoch, count = group.epoch, len(group.members)
            yield GroupListing(group.group_id, CONSUMER, group.state, CONSUMER, epoch, count)
    for group_id in context.offsets.groups():
        if group_id not in context.groups:  # offsets alone
            yield GroupListing(group_id, "", "Empty", CLASSIC)


def describe(context: CoordinatorContext, group_id: GroupId) -> GroupDescription:
    match context.groups.get(group_id):
        case ClassicGroup() as group:
            return _describe_classic(group)
        case ConsumerGroup() as group:
            return _describe_consumer(group)
        case None:
            return _describe_offsets(context, group_id)


def _describe_classic(group: ClassicGroup) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        group_type=CLASSIC,
        state=group.state,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        epoch=group.generation,
        target_epoch=group.generation,
        leader=group.leader,
        changed_at=group.changed_at,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_type=CLASSIC,
                metadata=member.metadata(group.protocol),
                assignment=group.assignments.get(member.member_id, b""),
                member_epoch=group.generation,
            )
            for member in group.members.values()
        ),
    )


def _describe_consumer(group: ConsumerGroup) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        group_type=CONSUMER,
        state=group.state,
        protocol_type=CONSUMER,
        protocol=group.assignor,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        changed_at=group.changed_at,
        members=tuple(_describe_member(group, member_id) for member_id in group.members),
    )


def _describe_member(group: ConsumerGroup, member_id: str) -> MemberDescription:
    member = group.members[member_id]
    current = group.current[member_id]
    return MemberDescription(
        member_id=member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_type=CONSUMER if member.classic is None else CLASSIC,
        rack_id=member.rack_id,
        reader=member.reader,
        member_epoch=current.epoch,
        subscribed_names=member.subscribed_names,
        subscribed_regex=member.subscribed_regex and show_regex(member.subscribed_regex),
        state=current.state,
        assigned=current.assigned,
        revoking=current.revoking,
        target=group.targets.get(member_id, NO_PARTITIONS),
    )


def _describe_offsets(context: CoordinatorContext, group_id: GroupId) -> GroupDescription:
    if group_id not in context.offsets:
        raise GroupNotFound(f"no group {group_id!r}")
    return GroupDescription(
        group_id=group_id,
        group_type=CLASSIC,
        state="Empty",
        protocol_type="",
        protocol="",
        epoch=0,
        target_epoch=0,
    )


def delete(change: PendingChange) -> None:
    """An empty group and all its offsets."""
    group_id, group = change.group_id, change.group
    held = change.context.offsets.partitions(group_id)
    if group is None and not held:
        raise GroupNotFound(f"no group {group_id!r}")
    if group is not None and not group.is_empty:
        raise GroupNotEmpty(f"group {group_id!r} has {len(group.members)} members")
    change.context.drop(group_id)
    if held:
        change.write(OffsetsDeleted(group_id, tuple(held)))
    if group is not None:
        change.write(GroupDeleted(group_id))
