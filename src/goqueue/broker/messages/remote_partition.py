"""A partition that another node leads, for those who only read: its offsets, times and messages.

It looks like a `Partition` as far as readers ask.  What `log` says is as of the last look; nobody
wakes a long poll for it, so whoever waits looks again after `LOOK_SECONDS`.
"""

from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

import msgspec

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.storage.partition import Partition
from goqueue.broker.traces.recorder import PartitionTracer, TraceRecorder
from goqueue.cluster import Topic
from goqueue.log import TimedOffset
from goqueue.model.errors import NotLeader
from goqueue.model.ids import Epoch, NodeId, Offset, Timestamp, TopicId

LOOK_SECONDS: Final = 0.25


class LogThere(msgspec.Struct, frozen=True):
    """What readers and people want to know of the log."""

    start_offset: Offset
    end_offset: Offset
    high_watermark: Offset
    visible_end: Offset  # of what committed readers see
    size: int
    segment_count: int
    leader_epoch: Epoch
    failed: str | None

    @property
    def segments(self) -> Sequence[int]:
        return range(self.segment_count)


class LookAt(Verb[LogThere], frozen=True):
    name = "look_at_partition"
    reply_type = LogThere

    topic_id: UUID
    partition: int


class FindTime(Verb[Offset | None], frozen=True):
    """The offset of the first record at the time or later."""

    name = "find_offset_for_time"
    reply_type = Offset | None

    topic_id: UUID
    partition: int
    time: Timestamp


class Services(Protocol):
    recorder: TraceRecorder

    @property
    def others(self) -> OtherNodes | None: ...

    def topic_by_id(self, topic_id: UUID) -> Topic: ...

    async def partition(self, topic: str, index: int) -> Partition: ...

    async def latest_offset(self, partition: Partition, *, committed_only: bool) -> TimedOffset: ...

    async def offset_for_time(
        self, partition: Partition, timestamp: Timestamp, *, committed_only: bool
    ) -> TimedOffset | None: ...


class RemotePartition:
    def __init__(
        self, others: OtherNodes, leader: NodeId, topic: Topic, index: int, log: LogThere
    ) -> None:
        self.others = others
        self.leader = leader
        self.topic = topic.name
        self.topic_id: TopicId = topic.topic_id
        self.index = index
        self.log = log
        self.messages_out = 0  # its leader counts
        self.bytes_out = 0
        self.tracer: PartitionTracer | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leader_epoch(self) -> Epoch:
        return self.log.leader_epoch

    def subscribe(self, _poll: object) -> None:
        """Nobody is woken."""

    def unsubscribe(self, _poll: object) -> None:
        """Nobody was to be woken."""

    async def look(self) -> LogThere:
        self.log = await self.others.ask(self.leader, LookAt(self.topic_id, self.index))
        return self.log

    async def offset_for_time(self, time: Timestamp) -> Offset | None:
        return await self.others.ask(self.leader, FindTime(self.topic_id, self.index, time))


Readable = Partition | RemotePartition


async def readable(services: Services, topic: Topic, index: int) -> Readable:
    """The partition, wherever it is led; raises as `Broker.partition` and `OtherNodes.ask` do."""
    others = services.others
    if others is None:
        return await services.partition(topic.name, index)
    topic.check_partition(index)
    leader = others.leader(topic, index)
    if leader == others.node_id:
        return await services.partition(topic.name, index)
    log = await others.ask(leader, LookAt(topic.topic_id, index))
    found = RemotePartition(others, leader, topic, index, log)
    found.tracer = services.recorder.tracer(topic.name, topic.topic_id, index, topic.settings)
    return found


def is_remote(partitions: Sequence[Readable]) -> bool:
    return any(isinstance(each, RemotePartition) for each in partitions)


async def visible_end(services: Services, partition: Readable) -> Offset:
    """The offset of the next record that a committed reader will see."""
    if isinstance(partition, RemotePartition):
        return (await partition.look()).visible_end
    return (await services.latest_offset(partition, committed_only=True)).offset


async def offset_for_time(
    services: Services, partition: Readable, time: Timestamp
) -> Offset | None:
    """Of the first record at the time or later; None when there is none yet."""
    if isinstance(partition, RemotePartition):
        return await partition.offset_for_time(time)
    found = await services.offset_for_time(partition, time, committed_only=True)
    return None if found is None else found.offset


class PartitionsHere:
    """What this node does for others that look at its partitions."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def serve(self, others: OtherNodes) -> None:
        others.serve(LookAt, self.look)
        others.serve(FindTime, self.find_time)

    async def look(self, _: NodeId, verb: LookAt) -> LogThere:
        partition = await self._find(verb.topic_id, verb.partition)
        end = (await self._services.latest_offset(partition, committed_only=True)).offset
        log = partition.log
        return LogThere(
            log.start_offset,
            log.end_offset,
            log.high_watermark,
            end,
            log.size,
            len(log.segments),
            partition.leader_epoch,
            log.failed,
        )

    async def find_time(self, _: NodeId, verb: FindTime) -> Offset | None:
        partition = await self._find(verb.topic_id, verb.partition)
        return await offset_for_time(self._services, partition, verb.time)

    async def _find(self, topic_id: UUID, index: int) -> Partition:
        topic = self._services.topic_by_id(topic_id)
        partition = await self._services.partition(topic.name, index)
        if not partition.leads:
            raise NotLeader(f"{partition} is not led here")
        return partition
