"""What is given to those who ask all nodes about their partitions.  They never see `Broker`."""

from typing import Protocol

from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Metadata, Topic
from goqueue.model.ids import NodeId


class ClusterServices(Protocol):
    partitions: Partitions
    others: OtherNodes | None

    @property
    def node_id(self) -> NodeId: ...

    @property
    def metadata(self) -> Metadata: ...

    def topics(self, *, internal: bool = False) -> list[Topic]: ...
