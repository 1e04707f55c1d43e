"""What queues look like over all leaders: statistics, and who holds what.

Each node tells of the partitions that it leads.  What a node that is not reached would tell is
`missing`, by partition: the answer is whole for all others.  Only partitions of topics that the
group is known to have begun in are missed.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from goqueue.broker.barrier import Barrier
from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.queues.stats import WhichInFlight
from goqueue.broker.services import BrokerServices
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, NodeId, TopicName, TopicPartition
from goqueue.queue import GroupStats, InFlight, QueueGroupNotFound, sum_of

ReplyT = TypeVar("ReplyT")
Missing = dict[TopicPartition, GoQueueError]


class StatsHere(Verb[list[GroupStats]], frozen=True):
    """Of one group, or of all; empty when this node knows nothing of it."""

    name = "queue_stats"
    reply_type = list[GroupStats]

    group_id: GroupId | None


class HeldThere(msgspec.Struct, frozen=True):
    is_known: bool
    topics: list[TopicName]  # that the group has begun in
    held: list[InFlight]


class HeldHere(Verb[HeldThere], frozen=True):
    name = "queue_in_flight"
    reply_type = HeldThere

    group_id: GroupId
    which: WhichInFlight
    limit: int


class ForgetPartitionsHere(Verb[list[int]], frozen=True):
    """Let the group start over in the partitions of the topic that this node leads; gives which."""

    name = "forget_queue_partitions"
    reply_type = list[int]

    group_id: GroupId
    topic: TopicName


class MoveAckFloorHere(Verb[bool], frozen=True):
    name = "move_ack_floor"
    reply_type = bool

    group_id: GroupId
    topic: TopicName
    partition: int
    offset: int


class QueuesHere(Protocol):
    """`Queues`, of what this node leads."""

    async def wait_settled(self) -> None: ...

    async def stats_ahead(self, group: str | None = None) -> list[GroupStats]: ...

    def in_flight(
        self, group: str, *, which: WhichInFlight | None = None, limit: int = 1000
    ) -> list[InFlight]: ...

    def begun_topics(self, group_id: GroupId) -> list[TopicName]: ...

    async def forget_partitions_here(self, group_id: GroupId, topic: str) -> list[int]: ...

    async def move_ack_floor_here(
        self, group_id: GroupId, topic: str, partition: int, offset: int
    ) -> None: ...


class QueueOverview:
    def __init__(self, services: BrokerServices, others: OtherNodes, queues: QueuesHere) -> None:
        self._services = services
        self._others = others
        self._queues = queues

    def serve(self) -> None:
        self._others.serve(StatsHere, self._stats_here)
        self._others.serve(HeldHere, self._list_held_here)
        self._others.serve(ForgetPartitionsHere, self._forget_here)
        self._others.serve(MoveAckFloorHere, self._move_here)

    # --- asking -----------------------------------------------------------------------------------

    async def stats(self, group_id: GroupId | None, missing: Missing) -> list[GroupStats]:
        """Raises `QueueGroupNotFound` when no node knows the group, and all were asked."""
        answers, refused = await self._ask_all(StatsHere(group_id))
        by_group: dict[GroupId, list[GroupStats]] = {}
        for each in (each for some in answers for each in some):
            by_group.setdefault(each.group_id, []).append(each)
        if group_id is not None and not by_group:
            raise next(iter(refused.values()), None) or _not_found(group_id)
        found = [_join(some) for _, some in sorted(by_group.items())]
        topics = {each.topic for stats in found for each in stats.partitions}
        self._note_missing(topics, refused, missing)
        return found

    async def list_held(
        self, group_id: GroupId, which: WhichInFlight, limit: int, missing: Missing
    ) -> list[InFlight]:
        answers, refused = await self._ask_all(HeldHere(group_id, which, limit))
        topics = {topic for each in answers for topic in each.topics}
        if not any(each.is_known for each in answers):
            raise next(iter(refused.values()), None) or _not_found(group_id)
        self._note_missing(topics, refused, missing)
        found = [held for each in answers for held in each.held]
        return sorted(found, key=lambda each: (each.topic, each.partition, each.offset))[:limit]

    async def forget_partitions(self, group_id: GroupId, topic: TopicName) -> list[int]:
        """Raises when a leader is not reached: the group would go on there."""
        found: list[int] = []
        for node_id in self._leaders([topic]):
            there = await self._others.ask(node_id, ForgetPartitionsHere(group_id, topic))
            found += there
        return sorted(found)

    async def move_ack_floor(
        self, group_id: GroupId, topic: TopicName, partition: int, offset: int
    ) -> None:
        leader = self._others.leader(self._services.topic(topic), partition)
        await self._others.ask(leader, MoveAckFloorHere(group_id, topic, partition, offset))

    async def _ask_all(self, verb: Verb[ReplyT]) -> tuple[list[ReplyT], dict[NodeId, GoQueueError]]:
        nodes = {*self._leaders(topic.name for topic in self._services.topics())}
        nodes.add(self._others.node_id)
        answers = await self._others.ask_each(dict.fromkeys(sorted(nodes), verb))
        refused = {node: each for node, each in answers.items() if isinstance(each, GoQueueError)}
        return [each for each in answers.values() if not isinstance(each, GoQueueError)], refused

    def _leaders(self, topics: Iterable[str]) -> list[NodeId]:
        return self._others.leaders([self._services.topic(name) for name in topics])

    def _note_missing(
        self, topics: Collection[str], refused: dict[NodeId, GoQueueError], missing: Missing
    ) -> None:
        for name in sorted(topics):
            if self._services.has_topic(name):
                self._others.note_missing(self._services.topic(name), refused, missing)

    # --- serving ----------------------------------------------------------------------------------

    async def _stats_here(self, _: NodeId, verb: StatsHere) -> list[GroupStats]:
        async with Barrier(self._queues):
            try:
                return await self._queues.stats_ahead(verb.group_id)
            except QueueGroupNotFound:
                return []

    async def _list_held_here(self, _: NodeId, verb: HeldHere) -> HeldThere:
        async with Barrier(self._queues):
            try:
                held = self._queues.in_flight(verb.group_id, which=verb.which, limit=verb.limit)
            except QueueGroupNotFound:
                return HeldThere(False, [], [])
            return HeldThere(True, self._queues.begun_topics(verb.group_id), held)

    async def _forget_here(self, _: NodeId, verb: ForgetPartitionsHere) -> list[int]:
        return await self._queues.forget_partitions_here(verb.group_id, verb.topic)

    async def _move_here(self, _: NodeId, verb: MoveAckFloorHere) -> bool:
        await self._queues.move_ack_floor_here(
            verb.group_id, verb.topic, verb.partition, verb.offset
        )
        return True


def _join(parts: Sequence[GroupStats]) -> GroupStats:
    """One group as several leaders have it."""
    if len(parts) == 1:
        return parts[0]
    consumers: dict[str, int] = {}
    for each in parts:
        for name, count in each.consumers.items():
            consumers[name] = consumers.get(name, 0) + count
    partitions = (each for stats in parts for each in stats.partitions)
    topics = {topic for each in parts for topic in each.topic_totals}
    return GroupStats(
        parts[0].group_id,
        sum(each.in_flight for each in parts),
        consumers,
        sum_of(each.totals for each in parts),
        tuple(sorted(partitions, key=lambda each: (each.topic, each.partition))),
        {
            topic: sum_of(each.topic_totals[topic] for each in parts if topic in each.topic_totals)
            for topic in sorted(topics)
        },
    )


def _not_found(group_id: GroupId) -> QueueGroupNotFound:
    return QueueGroupNotFound(f"there is no queue group {group_id!r}")
