"""Queue groups as operators see them, whichever protocol their members use.

The members of a group decide its mode.  A group without members is a queue group from its first
receive until it is deleted.  Its ack floors are also committed as offsets of a consumer group of
the same name, which is not listed.
"""

import contextlib
from collections.abc import Iterable
from typing import Literal

import msgspec

from goqueue.broker.barrier import Barrier
from goqueue.broker.queues.members import QueueMembers
from goqueue.broker.queues.service import Queues
from goqueue.broker.services import BrokerServices
from goqueue.groups import Assignment, GroupListing, ShareMember
from goqueue.groups.errors import GroupNotEmpty, GroupNotFound
from goqueue.model.ids import GroupId, TopicName, TopicPartition


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One member, or a consumer that is at work without having joined (generation 0)."""

    member_id: str
    client_id: str
    client_host: str
    protocol: Literal["http", "share"]
    rack_id: str | None = None
    generation: int
    topics: tuple[str, ...]
    assigned: Assignment


class QueueGroupDescription(msgspec.Struct, frozen=True):
    group_id: GroupId
    generation: int
    workers: list[Worker]
    topics: list[TopicName]  # that it has begun in

    @property
    def state(self) -> str:
        return "Stable" if self.workers else "Empty"


class QueueGroups:
    def __init__(self, services: BrokerServices, queues: Queues, members: QueueMembers) -> None:
        self._services = services
        self._queues = queues
        self._members = members

    @property
    def barrier(self) -> Barrier:
        """Of verbs that look at groups and queues in several steps."""
        return Barrier(self._services.groups, self._queues)

    def barrier_of(self, *group_ids: GroupId) -> Barrier:
        """As `barrier`, for some groups."""
        return Barrier(self._services.groups.barrier_of(*group_ids), self._queues)

    # --- which mode -------------------------------------------------------------------------------

    def is_queue(self, group_id: GroupId) -> bool:
        """Ahead of the logs: it says whom to ask."""
        streams = self._services.groups.host_of(group_id).ahead
        if streams.has_members(group_id):
            return False
        if self.member_count(group_id) > 0:
            return True
        group = self._queues.groups.get(group_id)
        if group is None or not group.has_begun:
            return False
        return bool(group.states) or not streams.has_group(group_id)

    def member_count(self, group_id: GroupId) -> int:
        return len(self._members.members(group_id))

    async def refuse_members(self, group_id: GroupId) -> None:
        """For what nobody does to a group that is at work."""
        count = self.member_count(group_id)
        if count:
            await self._services.groups.host_of(group_id).wait_settled()
            raise GroupNotEmpty(f"group {group_id!r} has members ({count}): stop them first")

    # --- looking ----------------------------------------------------------------------------------

    async def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[GroupListing, ...]:
        """Groups of both modes, of these states and types if any are given; by name."""
        wanted_states, wanted_types = _fold_names(states), _fold_names(types)
        async with self.barrier:
            return tuple(
                each
                for _, each in sorted(self._list_all().items())
                if (not wanted_states or each.state.lower() in wanted_states)
                and (not wanted_types or each.group_type.lower() in wanted_types)
            )

    def _list_all(self) -> dict[GroupId, GroupListing]:
        found = {each.group_id: each for each in self._services.groups.list_groups()}
        groups = self._services.groups
        names = {*filter(groups.coordinates, self._queues.groups), *groups.share_groups()}
        for group_id in names:
            if self.is_queue(group_id):
                found[group_id] = self._describe_group(group_id)
        return found

    def _describe_group(self, group_id: GroupId) -> GroupListing:
        found = self.describe_ahead(group_id)
        count = len(found.workers)
        return GroupListing(group_id, "share", found.state, "share", found.generation, count)

    async def describe(self, group_id: GroupId) -> QueueGroupDescription:
        """Also of a group that only has settings; raises `GroupNotFound`."""
        async with self.barrier_of(group_id):
            return self.describe_ahead(group_id)

    def describe_ahead(self, group_id: GroupId) -> QueueGroupDescription:
        """As `describe`, for verbs that end with a barrier."""
        if not self._is_known(group_id):
            raise GroupNotFound(f"there is no group {group_id!r} in queue mode")
        workers = [self._describe_joined(each) for each in self._members.members(group_id).values()]
        share = self._services.groups.share_group(group_id)
        queue = self._queues.groups.get(group_id)
        joined = {each.member_id for each in workers}
        workers += [
            self._at_work(name, asked)
            for name, asked in self._queues.consumers(group_id).items()
            if name not in joined
        ]
        topics = sorted({topic for topic, _ in queue.states}) if queue is not None else []
        epoch = 0 if share is None else share.epoch
        return QueueGroupDescription(group_id, epoch, workers, topics)

    def _describe_joined(self, member: ShareMember) -> Worker:
        return Worker(
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            protocol="http" if member.is_worker else "share",
            rack_id=member.rack_id,
            generation=member.epoch,
            topics=member.subscribed_names,
            assigned=self._describe_assignment(member.subscribed_names),
        )

    def _at_work(self, consumer: str, asked: Iterable[str]) -> Worker:
        """One that never joined."""
        return Worker(
            member_id=consumer,
            client_id="",
            client_host="",
            protocol="http",
            generation=0,
            topics=tuple(asked),
            assigned=self._describe_assignment(asked),
        )

    def _describe_assignment(self, names: Iterable[str]) -> Assignment:
        there = [self._services.topic(name) for name in names if self._services.has_topic(name)]
        return {topic.topic_id: topic.partitions for topic in there if not topic.is_internal}

    # --- deleting ---------------------------------------------------------------------------------

    async def delete(self, group_id: GroupId) -> None:
        """A group of either mode, with its offsets, states and settings; not one with members."""
        await self.refuse_members(group_id)
        streams = self._services.groups.host_of(group_id).ahead
        if not self._is_known(group_id) or streams.has_members(group_id):
            await self._services.groups.delete_group(group_id)  # or raises that it has members
            return
        await self._services.groups.delete_share_group(group_id)
        await self._queues.forget(group_id)
        with contextlib.suppress(GroupNotFound):
            await self._services.groups.delete_group(group_id)

    def _is_known(self, group_id: GroupId) -> bool:
        is_known = self._queues.is_known(group_id)
        return is_known or self._services.groups.share_group(group_id) is not None

    async def delete_offsets(self, group_id: GroupId, topic: TopicName) -> bool:
        """Let a group without members start over in the topic; gives whether it had begun."""
        await self.describe(group_id)
        await self.refuse_members(group_id)
        if group_id not in self._queues.groups:
            return False
        partitions = await self._queues.forget_partitions(group_id, topic)
        with contextlib.suppress(GroupNotFound):
            places = [TopicPartition(topic, index) for index in partitions]
            await self._services.groups.delete_offsets(group_id, places)
        return bool(partitions)


def _fold_names(words: Iterable[str]) -> set[str]:
    return {word.lower() for word in words}
