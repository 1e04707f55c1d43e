"""What members over HTTP and the administration of groups need of the broker."""

from typing import Protocol
from uuid import UUID

from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.broker.traces.recorder import TraceRecorder
from goqueue.cluster import Metadata, Topic
from goqueue.log import TimedOffset
from goqueue.model.ids import GroupId, Timestamp


class QueueGroups(Protocol):
    def is_queue(self, group_id: GroupId) -> bool: ...

    async def refuse_members(self, group_id: GroupId) -> None: ...


class GroupServices(BrokerServices, Protocol):
    recorder: TraceRecorder

    @property
    def metadata(self) -> Metadata: ...

    def topic_by_id(self, topic_id: UUID) -> Topic: ...

    @property
    def queue_groups(self) -> QueueGroups: ...

    async def latest_offset(self, partition: Partition, *, committed_only: bool) -> TimedOffset: ...

    async def offset_for_time(
        self, partition: Partition, timestamp: Timestamp, *, committed_only: bool
    ) -> TimedOffset | None: ...
