"""Ids for producers: none is given twice, on any node.

A node takes them from the metadata in blocks; what is left of its block is lost when it stops.
"""

from typing import Final, Protocol

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.metadata.controller import Controller
from goqueue.cluster import controller

PRODUCER_ID_BLOCK: Final = 1000


class ProducerIdBroker(Protocol):
    cluster: ClusterNode

    @property
    def controller(self) -> Controller: ...


class ProducerIds:
    def __init__(self, broker: ProducerIdBroker) -> None:
        self._broker = broker
        self._left = iter(range(0))  # of the last block

    async def reserve_producer_id(self) -> int:
        """An id that no producer was ever given; durable in blocks."""
        following = next(self._left, None)
        if following is None:
            first = await self.reserve_producer_ids(PRODUCER_ID_BLOCK)
            self._left = iter(range(first, first + PRODUCER_ID_BLOCK))
            following = next(self._left)
        return following

    async def reserve_producer_ids(self, count: int) -> int:
        """The first of so many ids."""
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            return await elsewhere.reserve_producer_ids(count)
        return await self._broker.controller.host.submit(
            lambda metadata: controller.reserve_producer_ids(metadata, count)
        )
