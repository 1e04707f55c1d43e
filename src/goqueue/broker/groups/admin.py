"""What administrators do with groups over HTTP: assignments, lag, setting and resetting offsets.

Lag counts offsets, as Kafka's tools do: from the committed offset (or from the first message, where
nothing is committed) to the first message that readers do not see yet.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Literal

import msgspec

from goqueue.broker.groups.services import GroupServices
from goqueue.broker.groups.topic_names import TopicNames
from goqueue.broker.messages.remote_partition import (
    Readable,
    RemotePartition,
    offset_for_time,
    readable,
    visible_end,
)
from goqueue.broker.storage.partition import Partition
from goqueue.groups import (
    CommitRequest,
    CommittedOffset,
    FetchRequest,
    GroupDescription,
    GroupMachine,
    MemberDescription,
    OffsetToCommit,
)
from goqueue.groups.embedded import PROTOCOL_TYPE, read_assignment, read_subscription
from goqueue.groups.errors import (
    GroupNotEmpty,
    GroupNotFound,
    InconsistentGroupProtocol,
    UnknownMember,
)
from goqueue.model.errors import (
    AccessDenied,
    InvalidRequest,
    OffsetOutOfRange,
    TopicNotFound,
)
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicName
from goqueue.model.topic_partition import TopicPartition

OPENED_AT_ONCE: Final = 32

ResetTo = Literal["earliest", "latest", "offset", "timestamp", "shift"]
Committed = dict[TopicPartition, CommittedOffset]


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    committed: Offset | None
    earliest: Offset
    end: Offset
    member: MemberDescription | None

    @property
    def lag(self) -> int:
        behind = self.earliest if self.committed is None else max(self.committed, self.earliest)
        return max(0, self.end - behind)


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is the offset, the time in milliseconds, or how far to shift."""

    group_id: GroupId
    to: ResetTo
    value: int | None = None
    topic: str | None = None  # None: all that the group has committed in
    partition: int | None = None
    dry_run: bool = False


class OffsetMove(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    before: Offset | None
    after: Offset


class GroupAdmin:
    def __init__(self, services: GroupServices) -> None:
        self._services = services
        self._names = TopicNames(services)

    # --- who has what -----------------------------------------------------------------------------

    def list_assigned(
        self, group: GroupDescription, member: MemberDescription
    ) -> list[TopicPartition]:
        """The partitions of a member, of either protocol."""
        if group.group_type == "consumer":
            return self._names.to_names(member.assigned)
        if group.protocol_type != PROTOCOL_TYPE:
            return []
        try:
            assigned = read_assignment(member.assignment)
        except InconsistentGroupProtocol:
            return []
        return sorted(
            TopicPartition(topic, index) for topic, some in assigned.items() for index in some
        )

    def list_revoking(self, member: MemberDescription) -> list[TopicPartition]:
        return self._names.to_names(member.revoking)

    def target(self, member: MemberDescription) -> list[TopicPartition]:
        return self._names.to_names(member.target)

    def list_subscribed(self, group: GroupDescription, member: MemberDescription) -> list[str]:
        """The topics a member names; those that a pattern of its finds are not among them."""
        if group.group_type == "consumer":
            return list(member.subscribed_names)
        if group.protocol_type != PROTOCOL_TYPE:
            return []
        try:
            return sorted(read_subscription(member.metadata).topics)
        except InconsistentGroupProtocol:
            return []

    async def read_committed(self, group_id: GroupId) -> tuple[GroupDescription, Committed]:
        """The group, and its offsets by topic and partition, in order; raises `GroupNotFound`."""
        return await self._services.groups.host_of(group_id).read(
            lambda machine: (
                machine.describe(group_id).reply.reply,
                _sort_offsets(machine, group_id),
            )
        )

    async def _read_offsets(self, group_id: GroupId) -> Committed:
        return await self._services.groups.host_of(group_id).read(
            lambda machine: _sort_offsets(machine, group_id)
        )

    # --- lag --------------------------------------------------------------------------------------

    async def lag(self, group_id: GroupId) -> tuple[GroupDescription, list[PartitionLag]]:
        """Of every partition in which the group has committed, or which a member owns."""
        group, committed = await self.read_committed(group_id)
        owners = {
            topic_partition: member
            for member in group.members
            for topic_partition in self.list_assigned(group, member)
        }
        partitions = [
            topic_partition
            for topic_partition in sorted({*owners, *committed})
            if self._exists(topic_partition)
        ]
        found = []
        for topic_partition, partition in await self._open(partitions):
            end = await visible_end(self._services, partition)
            offset = committed.get(topic_partition)
            found.append(
                PartitionLag(
                    topic=topic_partition.topic,
                    partition=topic_partition.partition,
                    committed=None if offset is None else offset.offset,
                    earliest=partition.log.start_offset,
                    end=end,
                    member=owners.get(topic_partition),
                )
            )
        return group, found

    def _exists(self, topic_partition: TopicPartition) -> bool:
        topic = self._services.metadata.find(topic_partition.topic)
        return topic is not None and topic.has_partition(topic_partition.partition)

    async def _open(
        self, partitions: list[TopicPartition]
    ) -> list[tuple[TopicPartition, Readable]]:
        found: list[tuple[TopicPartition, Readable]] = []
        for some in _slices(partitions):
            opened = await asyncio.gather(
                *(self._readable(each) for each in some),
                return_exceptions=True,
            )
            for topic_partition, partition in zip(some, opened, strict=True):
                if isinstance(partition, Partition | RemotePartition):
                    found.append((topic_partition, partition))
                elif not isinstance(partition, TopicNotFound):  # deleted meanwhile
                    raise partition
        return found

    async def _readable(self, place: TopicPartition) -> Readable:
        return await readable(self._services, self._services.topic(place.topic), place.partition)

    # --- commit and reset -------------------------------------------------------------------------

    async def commit(
        self, group_id: GroupId, offsets: dict[TopicPartition, Offset], metadata: str = ""
    ) -> None:
        """Set offsets from outside; only a group without members takes that."""
        for topic_partition in offsets:
            self._check_exists(topic_partition)
        if self._services.queue_groups.is_queue(group_id):
            for topic_partition, offset in offsets.items():
                await self._check_in_log(group_id, topic_partition, offset)
        wanted = tuple(
            OffsetToCommit(
                TopicName(topic_partition.topic),
                topic_partition.partition,
                offset,
                metadata=metadata,
            )
            for topic_partition, offset in offsets.items()
        )
        await self._check_empty(group_id)
        try:
            results = await self._services.groups.commit(
                CommitRequest(group_id=group_id, offsets=wanted)
            )
        except UnknownMember as error:  # one has joined meanwhile
            raise GroupNotEmpty(str(error)) from error
        for refused in (each.error for each in results if each.error is not None):
            raise refused

    def _check_exists(self, topic_partition: TopicPartition) -> None:
        self._services.topic(topic_partition.topic).check_partition(topic_partition.partition)

    async def _check_in_log(
        self, group_id: GroupId, topic_partition: TopicPartition, offset: int
    ) -> None:
        """A queue group's floor stays within the log; a stream group may commit what it likes."""
        log = (await self._readable(topic_partition)).log
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} of {topic_partition.topic}-{topic_partition.partition} is outside"
                f" of the log, which has {log.start_offset} to {log.end_offset}: queue group"
                f" {group_id!r} would miss what is published next"
            )

    async def _check_empty(self, group_id: GroupId) -> None:
        await self._services.queue_groups.refuse_members(group_id)
        try:
            members = len((await self._services.groups.describe(group_id)).members)
        except GroupNotFound:
            return
        if members:
            raise GroupNotEmpty(
                f"group {group_id!r} has {members} active members:"
                " stop them before resetting offsets"
            )

    async def reset(
        self, request: Reset, may_read: Callable[[str], bool] = lambda _: True
    ) -> list[OffsetMove]:
        """Move the group's offsets; with `dry_run` only say where to.

        Raises `AccessDenied`, and moves nothing, unless all of their topics may be read.
        """
        _check_value(request)
        committed = await self._read_offsets(request.group_id)
        partitions = await self._partitions_to_reset(request, committed)
        if not all(map(may_read, {each.topic for each in partitions})):
            raise AccessDenied(
                f"group {request.group_id!r} has offsets of topics that you may not READ:"
                " name the topic to reset"
            )
        if not request.dry_run:
            await self._check_empty(request.group_id)
        moves = []
        for topic_partition, partition in await self._open(partitions):
            offset = committed.get(topic_partition)
            before = None if offset is None else offset.offset
            after = await self._new_offset(request, partition, before)
            moves.append(
                OffsetMove(topic_partition.topic, topic_partition.partition, before, after)
            )
        if not request.dry_run:
            offsets = {TopicPartition(each.topic, each.partition): each.after for each in moves}
            await self.commit(request.group_id, offsets)
        return moves

    async def _partitions_to_reset(
        self, request: Reset, committed: Committed
    ) -> list[TopicPartition]:
        if request.topic is None:
            if not committed:
                await self._services.groups.describe(request.group_id)  # raises if there is none
            return [
                topic_partition for topic_partition in committed if self._exists(topic_partition)
            ]
        topic = self._services.topic(request.topic)
        if request.partition is None:
            return [TopicPartition(topic.name, index) for index in range(topic.partitions)]
        topic_partition = TopicPartition(topic.name, request.partition)
        self._check_exists(topic_partition)
        return [topic_partition]

    async def _new_offset(
        self, request: Reset, partition: Readable, before: Offset | None
    ) -> Offset:
        """Always one that can be read: beyond either end it is that end."""
        start = partition.log.start_offset
        end = await visible_end(self._services, partition)
        value = 0 if request.value is None else request.value
        match request.to:
            case "earliest":
                return start
            case "latest":
                return end
            case "offset":
                wanted = value
            case "shift":
                wanted = (start if before is None else before) + value
            case _:
                found = await offset_for_time(self._services, partition, Timestamp(value))
                wanted = end if found is None else found
        return Offset(min(max(wanted, start), end))


def _sort_offsets(machine: GroupMachine, group_id: GroupId) -> Committed:
    (fetched,) = machine.fetch([FetchRequest(group_id=group_id)]).reply.reply
    return {
        TopicPartition(topic, index): offset
        for (topic, index), offset in sorted(fetched.offsets.items())
        if offset is not None
    }


def _check_value(request: Reset) -> None:
    needs_value = request.to in ("offset", "timestamp", "shift")
    if needs_value != (request.value is not None):
        raise InvalidRequest(f"value: reset to {request.to} {_needs(needs_value)}")
    if request.value is not None and request.value < 0 and request.to != "shift":
        raise InvalidRequest(f"value: {request.value} is below 0")
    if request.partition is not None and request.topic is None:
        raise InvalidRequest("partition: a partition is a topic's; name the topic too")


def _needs(needs_value: bool) -> str:
    return "needs one" if needs_value else "takes none"


def _slices(partitions: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    for start in range(0, len(partitions), OPENED_AT_ONCE):
        yield partitions[start : start + OPENED_AT_ONCE]
