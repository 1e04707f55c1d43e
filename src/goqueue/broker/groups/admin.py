"""What operators ask of groups: who has what, how far behind, and "go back to yesterday".

Lag counts offsets, as Kafka's tools do: from what is committed (or from the first message, where
nothing is) to the first one that readers do not see yet.
"""

import asyncio
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.groups.http_requests import TopicPartition
from goqueue.broker.groups.topic_names import Places
from goqueue.broker.storage.partition import Partition
from goqueue.groups import (
    CommitRequest,
    CommittedOffset,
    FetchRequest,
    GroupDescription,
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
    InvalidRequest,
    OffsetOutOfRange,
    PartitionNotFound,
    TopicNotFound,
)
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicName

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


class GroupOverview:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._places = Places(broker)

    # --- who has what -----------------------------------------------------------------------------

    def assigned(self, group: GroupDescription, member: MemberDescription) -> list[TopicPartition]:
        """What a member has, whichever protocol it speaks."""
        if group.group_type == "consumer":
            return self._places.named(member.assigned)
        if group.protocol_type != PROTOCOL_TYPE:
            return []
        try:
            assigned = read_assignment(member.assignment)
        except InconsistentGroupProtocol:
            return []
        return sorted(
            TopicPartition(topic, index) for topic, some in assigned.items() for index in some
        )

    def revoking(self, member: MemberDescription) -> list[TopicPartition]:
        return self._places.named(member.revoking)

    def target(self, member: MemberDescription) -> list[TopicPartition]:
        return self._places.named(member.target)

    def subscribed(self, group: GroupDescription, member: MemberDescription) -> list[str]:
        """The topics a member names; those that a pattern of its finds are not among them."""
        if group.group_type == "consumer":
            return list(member.subscribed_names)
        if group.protocol_type != PROTOCOL_TYPE:
            return []
        try:
            return sorted(read_subscription(member.metadata).topics)
        except InconsistentGroupProtocol:
            return []

    def committed(self, group_id: GroupId) -> Committed:
        """By topic and partition, in order; raises `GroupNotFound`."""
        self._broker.groups.describe(group_id)
        return self._committed(group_id)

    def _committed(self, group_id: GroupId) -> Committed:
        (fetched,) = self._broker.groups.fetch([FetchRequest(group_id=group_id)])
        return {
            TopicPartition(topic, index): offset
            for (topic, index), offset in sorted(fetched.offsets.items())
            if offset is not None
        }

    # --- lag --------------------------------------------------------------------------------------

    async def lag(self, group_id: GroupId) -> list[PartitionLag]:
        """Of every partition that the group has committed in, or that a member has."""
        group = self._broker.groups.describe(group_id)
        owners = {
            place: member for member in group.members for place in self.assigned(group, member)
        }
        committed = self._committed(group_id)
        places = [place for place in sorted({*owners, *committed}) if self._exists(place)]
        found = []
        for place, partition in await self._opened(places):
            newest = await self._broker.latest_offset(partition, committed_only=True)
            offset = committed.get(place)
            found.append(
                PartitionLag(
                    topic=place.topic,
                    partition=place.partition,
                    committed=None if offset is None else offset.offset,
                    earliest=partition.log.start_offset,
                    end=newest.offset,
                    member=owners.get(place),
                )
            )
        return found

    def _exists(self, place: TopicPartition) -> bool:
        topic = self._broker.metadata.find(place.topic)
        return topic is not None and topic.has_partition(place.partition)

    async def _opened(self, places: list[TopicPartition]) -> list[tuple[TopicPartition, Partition]]:
        found: list[tuple[TopicPartition, Partition]] = []
        for some in _slices(places):
            opened = await asyncio.gather(
                *(self._broker.partition(each.topic, each.partition) for each in some),
                return_exceptions=True,
            )
            for place, partition in zip(some, opened, strict=True):
                if isinstance(partition, Partition):
                    found.append((place, partition))
                elif not isinstance(partition, TopicNotFound):  # deleted meanwhile
                    raise partition
        return found

    # --- commit and reset -------------------------------------------------------------------------

    async def commit(
        self, group_id: GroupId, offsets: dict[TopicPartition, Offset], metadata: str = ""
    ) -> None:
        """Set offsets from outside; only a group without members takes that."""
        for place in offsets:
            self._check_place(place)
        if self._broker.queue_groups.is_queue(group_id):
            for place, offset in offsets.items():
                await self._check_in_log(group_id, place, offset)
        wanted = tuple(
            OffsetToCommit(TopicName(place.topic), place.partition, offset, metadata=metadata)
            for place, offset in offsets.items()
        )
        self._check_empty(group_id)
        try:
            results = await self._broker.groups.commit(
                CommitRequest(group_id=group_id, offsets=wanted)
            )
        except UnknownMember as error:  # one has joined meanwhile
            raise GroupNotEmpty(str(error)) from error
        for refused in (each.error for each in results if each.error is not None):
            raise refused

    def _check_place(self, place: TopicPartition) -> None:
        topic = self._broker.topic(place.topic)
        if not topic.has_partition(place.partition):
            raise PartitionNotFound(
                f"topic {place.topic!r} has partitions 0 to {topic.partitions - 1},"
                f" not {place.partition}"
            )

    async def _check_in_log(self, group_id: GroupId, place: TopicPartition, offset: int) -> None:
        """A queue group's floor stays within the log; a stream group may commit what it likes."""
        log = (await self._broker.partition(place.topic, place.partition)).log
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} of {place.topic}-{place.partition} is outside of the log, which"
                f" has {log.start_offset} to {log.end_offset}: queue group {group_id!r} would miss"
                " what is published next"
            )

    def _check_empty(self, group_id: GroupId) -> None:
        self._broker.queue_groups.refuse_members(group_id)
        try:
            members = len(self._broker.groups.describe(group_id).members)
        except GroupNotFound:
            return
        if members:
            raise GroupNotEmpty(
                f"group {group_id!r} has {members} active members:"
                " stop them before resetting offsets"
            )

    async def reset(self, request: Reset) -> list[OffsetMove]:
        """Move the group's offsets; with `dry_run` only say where to."""
        _check_value(request)
        committed = self._committed(request.group_id)
        places = self._places_to_reset(request, committed)
        if not request.dry_run:
            self._check_empty(request.group_id)
        moves = []
        for place, partition in await self._opened(places):
            offset = committed.get(place)
            before = None if offset is None else offset.offset
            after = await self._destination(request, partition, before)
            moves.append(OffsetMove(place.topic, place.partition, before, after))
        if not request.dry_run:
            offsets = {TopicPartition(each.topic, each.partition): each.after for each in moves}
            await self.commit(request.group_id, offsets)
        return moves

    def _places_to_reset(self, request: Reset, committed: Committed) -> list[TopicPartition]:
        if request.topic is None:
            if not committed:
                self._broker.groups.describe(request.group_id)  # raises if there is none
            return [place for place in committed if self._exists(place)]
        topic = self._broker.topic(request.topic)
        if request.partition is None:
            return [TopicPartition(topic.name, index) for index in range(topic.partitions)]
        place = TopicPartition(topic.name, request.partition)
        self._check_place(place)
        return [place]

    async def _destination(
        self, request: Reset, partition: Partition, before: Offset | None
    ) -> Offset:
        """Always one that can be read: beyond either end it is that end."""
        start = partition.log.start_offset
        end = (await self._broker.latest_offset(partition, committed_only=True)).offset
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
                found = await self._broker.offset_for_time(
                    partition, Timestamp(value), committed_only=True
                )
                wanted = end if found is None else found.offset
        return Offset(min(max(wanted, start), end))


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


def _slices(places: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    for start in range(0, len(places), OPENED_AT_ONCE):
        yield places[start : start + OPENED_AT_ONCE]
