"""What the broker gives to its families: queues, dead letters, shares.  They never see `Broker`."""

from collections.abc import Mapping
from typing import Protocol

from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Metadata, Topic
from goqueue.log import Appended
from goqueue.model.config import Config
from goqueue.model.ids import Offset
from goqueue.runtime import Environment


class BrokerServices(Protocol):
    config: Config
    environment: Environment
    groups: Groups
    group_configs: GroupConfigs
    partitions: Partitions

    @property
    def metadata(self) -> Metadata: ...

    @property
    def others(self) -> OtherNodes | None:
        """The other nodes of the cluster; None on a single broker."""
        ...

    def topics(self) -> list[Topic]: ...

    def topic(self, name: str) -> Topic: ...

    def has_topic(self, name: str) -> bool: ...

    async def partition(self, topic: str, index: int) -> Partition: ...

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
        may_look_alike: bool = False,
        replication_factor: int | None = None,
    ) -> Topic: ...

    async def add_partitions(self, name: str, count: int) -> Topic: ...

    async def check_schemas(
        self, partition: Partition, data: bytearray | memoryview, *, refuses: bool = False
    ) -> object: ...

    def append(
        self, partition: Partition, data: bytearray | memoryview, *, is_checked: bool = False
    ) -> Appended: ...

    async def delete_records(self, partition: Partition, before: Offset) -> Offset: ...

    async def reserve_producer_id(self) -> int: ...
