"""Nodes and partitions as operators and the other nodes change them.

The controller's broker decides.  What an operator may ask of any node is passed on to it; what
nodes ask of it (`alter_partition`, `hand_over`, `leave`) comes in by `goqueue.broker.cluster`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.forwarding import NodeChange
from goqueue.broker.metadata.controller import Controller
from goqueue.cluster import Metadata, MetadataRecord, controller
from goqueue.cluster.controller import ElectionType, IsrChange
from goqueue.cluster.errors import NodeInUse
from goqueue.cluster.metadata import PartitionState, SecurityRecord
from goqueue.model.ids import GroupId, NodeEpoch, NodeId, TopicId
from goqueue.model.machine import Decision
from goqueue.runtime import Clock

DRAINED_AT_ONCE: Final = 50  # partitions

_log = structlog.get_logger("goqueue.broker")


class AdminBroker(Protocol):
    """The broker of this node."""

    cluster: ClusterNode

    @property
    def controller(self) -> Controller: ...


class ClusterAdmin:
    def __init__(self, broker: AdminBroker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock

    @property
    def _controller(self) -> Controller:
        return self._broker.controller

    # --- for other nodes --------------------------------------------------------------------------

    async def alter_partition(
        self, node_id: NodeId, node_epoch: NodeEpoch, change: IsrChange
    ) -> PartitionState:
        """The leader on that node proposes who is in sync."""
        return await self.change_partition(
            lambda metadata: controller.alter_partition(metadata, node_id, node_epoch, change)
        )

    async def hand_over(self, node_id: NodeId, limit: int) -> int:
        """Have other nodes lead what that one leads, for it is about to stop; gives how many.

        It gets nothing to lead until it has started again.
        """
        await self._controller.host.submit(
            lambda metadata: controller.drain_node(metadata, node_id)
        )
        return await self._controller.change(
            lambda metadata: controller.hand_over(metadata, node_id, limit)
        )

    async def leave(self, node_id: NodeId) -> None:
        """That node stops now: commits do not wait for it from now on."""
        await self._controller.change(lambda metadata: controller.fence_node(metadata, node_id))

    # --- for operators ----------------------------------------------------------------------------

    async def change_node(self, node_id: NodeId, change: NodeChange) -> None:
        """Have a node lead nothing, let it lead again, or remove it for good."""
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            await elsewhere.change_node(node_id, change)
            return
        change_metadata = self._controller.change
        match change:
            case "drain":
                await change_metadata(lambda metadata: controller.drain_node(metadata, node_id))
                while await self.hand_over(node_id, DRAINED_AT_ONCE):
                    await self._clock.sleep(0)
            case "undrain":
                await change_metadata(lambda metadata: controller.undrain_node(metadata, node_id))
            case "remove" if node_id == self._broker.cluster.node_id:
                raise NodeInUse(f"node {node_id} keeps the metadata, and cannot be removed")
            case "remove":
                await change_metadata(lambda metadata: controller.remove_node(metadata, node_id))
        _log.info("node changed", node=node_id, change=change)

    async def elect_leader(
        self, topic_id: TopicId, index: int, election_type: ElectionType
    ) -> PartitionState:
        """Raises `ElectionNotNeeded` or `LeaderNotAvailable`."""
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            return await elsewhere.elect_leader(topic_id, index, election_type)
        return await self.change_partition(
            lambda metadata: controller.elect_leader(metadata, topic_id, index, election_type)
        )

    async def reassign_partition(
        self, topic_id: TopicId, index: int, replicas: Sequence[NodeId] | None
    ) -> PartitionState:
        """Move it to these nodes; with None the move that is under way is cancelled."""
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            return await elsewhere.reassign_partition(topic_id, index, replicas)

        def decide(metadata: Metadata) -> Decision[MetadataRecord, PartitionState]:
            if replicas is None:
                return controller.cancel_reassignment(metadata, topic_id, index)
            return controller.reassign(metadata, topic_id, index, replicas)

        return await self.change_partition(decide)

    async def change_partition(
        self, decide: Callable[[Metadata], Decision[MetadataRecord, PartitionState]]
    ) -> PartitionState:
        """By a verb of the controller: another leader, say.  It shows when this returns."""
        return await self._controller.change(decide)

    async def change_group_config(
        self, group_id: GroupId, changes: Mapping[str, str | None], if_set: Mapping[str, str]
    ) -> None:
        """Settings of a group; `if_set` are those of `changes` that differ if one was set."""
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            await elsewhere.change_group_config(group_id, changes, if_set)
            return
        await self._controller.host.submit(
            lambda metadata: controller.change_group_config(metadata, group_id, changes, if_set)
        )

    async def change_broker_config(self, node: str, changes: Mapping[str, str | None]) -> None:
        """Settings of a node, by its number as text, or with an empty text of all of them."""
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            await elsewhere.change_broker_config(node, changes)
            return
        await self._controller.change(
            lambda metadata: controller.change_broker_config(metadata, node, changes)
        )

    async def change_security(self, changes: Sequence[SecurityRecord]) -> None:
        """Users, roles and ACLs: all of the changes, or none.  They show when this returns."""
        elsewhere = self._broker.cluster.elsewhere
        if elsewhere is not None:
            await elsewhere.change_security(changes)
            return
        await self._controller.change(
            lambda metadata: controller.change_security(metadata, changes)
        )

    async def raise_features(
        self, levels: Mapping[str, int], *, validate_only: bool = False
    ) -> None:
        """All of them, or none; raises `FeatureRefused`."""
        elsewhere = self._broker.cluster.elsewhere
        if validate_only:
            controller.raise_features(self._controller.image.current, levels)
        elif elsewhere is not None:
            await elsewhere.raise_features(levels)
        else:
            await self._controller.change(
                lambda metadata: controller.raise_features(metadata, levels)
            )
            _log.info("features raised", levels=dict(levels))
