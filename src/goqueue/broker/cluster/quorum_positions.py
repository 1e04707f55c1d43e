"""How far nodes have followed the metadata, as the controller hears it with heartbeats."""

from typing import Protocol

import msgspec

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.metadata.controller import Controller
from goqueue.cluster.errors import LeaderNotAvailable
from goqueue.model.ids import NodeId

ASK_SECONDS = 3.0


class NodePosition(msgspec.Struct, frozen=True, array_like=True):
    node_id: NodeId
    applied: int  # the first index of the metadata that it does not show yet
    heard_ms_ago: int


class Positions(msgspec.Struct, frozen=True):
    """Of the controller's log, and of the nodes that have registered with it."""

    controller: NodeId
    term: int
    end: int
    committed_end: int
    nodes: list[NodePosition]


class PositionsOf(Verb[Positions], frozen=True):
    name = "quorum_positions"
    reply_type = Positions


class Services(Protocol):
    cluster: ClusterNode
    others: OtherNodes | None

    @property
    def node_id(self) -> NodeId: ...

    @property
    def controller(self) -> Controller: ...


class QuorumPositions:
    def __init__(self, broker: Services) -> None:
        self._broker = broker
        if broker.others is not None:
            broker.others.serve(PositionsOf, self._answer)

    async def find(self) -> Positions:
        """Raises `LeaderNotAvailable` while there is no controller, or why it was not reached."""
        broker = self._broker
        controller = broker.cluster.controller_id
        if controller is None:
            raise LeaderNotAvailable("no node decides about metadata now")
        if broker.others is None or controller == broker.node_id:
            return self._here()
        return await broker.others.ask(controller, PositionsOf(), ASK_SECONDS)

    async def _answer(self, _node_id: NodeId, _verb: PositionsOf) -> Positions:
        return self._here()

    def _here(self) -> Positions:
        broker = self._broker
        if not broker.controller.is_leading:
            raise LeaderNotAvailable(f"node {broker.node_id} is not the controller any more")
        journal = broker.controller.journal
        return Positions(
            broker.node_id,
            broker.controller.metadata.controller.term or broker.controller.term,
            journal.end_offset,
            journal.committed_end,
            [NodePosition(*each) for each in broker.cluster.positions()],
        )
