"""What the controller does for the other nodes: they follow it, register, show that they are alive,
and ask it to decide.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import structlog

from goqueue.broker.cluster.forwarding import Decider, carry_out
from goqueue.broker.cluster.handshake import Identity
from goqueue.broker.cluster.peer import Peer
from goqueue.broker.cluster.sessions import SESSION_NS, NodeSessions
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.metadata.remote_log import serve_follow
from goqueue.cluster import Metadata, MetadataRecord, Node
from goqueue.cluster.controller import (
    Registration,
    check_not_removed,
    end_reassignment_throttle,
    fence_node,
    prefer_leaders,
    register_node,
    unfence_node,
)
from goqueue.cluster.metadata import FeatureRange
from goqueue.model.config import parse_address
from goqueue.model.errors import DuplicateNodeId, Fenced, GoQueueError, Unauthorized
from goqueue.model.ids import NodeEpoch, NodeId
from goqueue.model.machine import Decision
from goqueue.runtime import Environment
from goqueue.wire.node_messages import (
    Forward,
    Forwarded,
    HeartbeatReply,
    MetadataEnd,
    MetadataEndReply,
    MetadataFollow,
    MetadataPart,
    NodeAccepted,
    NodeApi,
    NodeHeartbeat,
    RegisterNode,
)

PREFER_SECONDS: Final = 30.0
PREFERRED_AT_ONCE: Final = 50
THROTTLE_SECONDS: Final = 10.0  # after the last move, before its throttle ends
RETURN_NS: Final = 4_000_000_000  # until the others have found a controller that was away
SUSPECT_NS: Final = 300_000_000  # for who was silent before: three heartbeats
LOOK_SECONDS: Final = 0.3  # whether anybody listens at a node whose connection has ended

_log = structlog.get_logger("goqueue.cluster")

Handlers = dict[NodeApi, Callable[[NodeId, Any], Awaitable[object]]]


class ControllerService:
    def __init__(
        self,
        environment: Environment,
        broker: Decider,
        identity: Callable[[], Identity],
        *,
        is_elected: bool = False,
        session_ns: int = SESSION_NS,
    ) -> None:
        """`is_elected`: another node may be the controller, too."""
        self._environment = environment
        self._broker = broker
        self._identity = identity
        self._is_elected = is_elected
        self.sessions = NodeSessions(
            environment.clock,
            self._is_refused,
            self._note,
            is_elected=is_elected,
            session_ns=session_ns,
        )

    @property
    def handlers(self) -> Handlers:
        return {
            NodeApi.METADATA_FOLLOW: self._follow,
            NodeApi.METADATA_END: self._end,
            NodeApi.REGISTER_NODE: self._register,
            NodeApi.NODE_HEARTBEAT: self._heartbeat,
            NodeApi.FORWARD: self._forward,
        }

    def connection_lost(self, node_id: NodeId) -> None:
        self.sessions.connection_lost(node_id)

    async def run(self, suspects: Collection[NodeId] = ()) -> None:
        """Until cancelled.  Nodes that were registered before have a session to show themselves.

        `suspects` are looked after at once, and have less: a majority has not heard them for a
        session already.

        A controller that was away has to be found first: it does not listen yet, and the others
        try again a second later.
        """
        controller, me = self._broker.controller, self._identity().node_id
        for node in controller.image.current.nodes.members:
            if node.node_id != me and self.sessions.find(node.node_id) is None:
                grace_ns = 0 if self._is_elected else RETURN_NS
                if node.node_id in suspects:
                    grace_ns = SUSPECT_NS - self.sessions.session_ns
                self.sessions.begin(node, controller.journal.committed_end, grace_ns=grace_ns)
        for node_id in suspects:
            self.sessions.connection_lost(node_id)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.sessions.run())
            tasks.create_task(self._prefer_leaders())
            tasks.create_task(self._end_throttle())

    async def _prefer_leaders(self) -> None:
        """Give partitions back to the nodes that should lead them, once those are in sync.

        A few at a time: each takes its clients a moment.
        """
        while True:
            await self._environment.clock.sleep(PREFER_SECONDS)
            controller = self._broker.controller
            if not controller.is_leading:
                continue
            try:
                count = await controller.host.submit(
                    lambda metadata: prefer_leaders(metadata, PREFERRED_AT_ONCE)
                )
            except GoQueueError as error:  # tried again
                _log.error("leaders not given back", problem=str(error))
                continue
            if count:
                _log.info("preferred leaders lead again", partitions=count)

    async def _end_throttle(self) -> None:
        """Once nothing moves any more, and not at once: whoever sets it moves replicas next."""
        idle = 0
        while True:
            await self._environment.clock.sleep(THROTTLE_SECONDS / 2)
            controller = self._broker.controller
            decision = end_reassignment_throttle(controller.image.current)
            idle = idle + 1 if decision.reply and controller.is_leading else 0
            if idle < 2:
                continue
            try:
                await controller.host.submit(end_reassignment_throttle)
            except GoQueueError as error:  # tried again
                _log.error("the throttle of moves is not ended", problem=str(error))

    # --- requests ---------------------------------------------------------------------------------

    async def _follow(self, node_id: NodeId, request: MetadataFollow) -> MetadataPart:
        return await serve_follow(self._check_leading().log, request)

    async def _end(self, node_id: NodeId, request: MetadataEnd) -> MetadataEndReply:
        return MetadataEndReply(await self._check_leading().log.end())

    async def _register(self, node_id: NodeId, request: RegisterNode) -> NodeAccepted:
        _check_sender(node_id, request.node_id)
        await self._refuse_twin(request)
        controller = self._check_leading()
        registered = await controller.host.submit(lambda metadata: _register(metadata, request))
        end = controller.journal.committed_end
        self.sessions.begin(registered, end)
        return NodeAccepted(registered.epoch, end)

    async def _heartbeat(self, node_id: NodeId, request: NodeHeartbeat) -> HeartbeatReply:
        _check_sender(node_id, request.node_id)
        check_not_removed(self._check_leading().image.current, node_id)
        epoch = NodeEpoch(request.epoch)
        return HeartbeatReply(self.sessions.beat(node_id, epoch, request.applied))

    async def _forward(self, node_id: NodeId, request: Forward) -> Forwarded:
        return await carry_out(self._broker, node_id, request)

    def _check_leading(self) -> Controller:
        controller = self._broker.controller
        if not controller.is_leading:
            raise Fenced("this node is not the controller")
        return controller

    async def _refuse_twin(self, request: RegisterNode) -> None:
        """Raises `DuplicateNodeId` while another process with that number runs, and is heard.

        Whoever comes with another disk would take that process's place, and its replicas.
        """
        node_id = NodeId(request.node_id)
        session, node = self.sessions.find(node_id), self._find_node(node_id)
        if session is None or node is None or not session.is_active:
            return
        is_same = (node.directory_id, node.incarnation) == (
            request.directory_id,
            request.incarnation,
        )
        address = str(session.address)
        if is_same or request.addresses.get("cluster") == address:
            return  # nobody else can listen there
        if await self._answers(node_id, address):
            raise DuplicateNodeId(
                f"node {node_id} is running already, at {address}, with another data directory:"
                " stop it first, or give this node another number (setting node_id)"
            )

    def _find_node(self, node_id: NodeId) -> Node | None:
        return self._broker.controller.image.current.nodes.get(node_id)

    async def _answers(self, node_id: NodeId, address: str) -> bool:
        """Whether that very node is there; a connection that is made says no more than that."""
        peer = Peer(self._environment, self._identity, lambda: (address,))
        try:
            await peer.connect(LOOK_SECONDS)
        except GoQueueError:
            return False
        finally:
            peer.close()
        return peer.node_id == node_id

    # --- looking after a node ---------------------------------------------------------------------

    async def _note(self, node_id: NodeId, epoch: NodeEpoch, is_active: bool) -> None:
        """Raises `StaleNodeEpoch` when it has registered again meanwhile: another session."""
        decide = unfence_node if is_active else fence_node
        host = self._check_leading().host
        await host.submit(lambda metadata: decide(metadata, node_id, epoch))

    async def _is_refused(self, node_id: NodeId) -> bool:
        session = self.sessions.find(node_id)
        if session is None or session.address is None:
            return False
        address = str(session.address)
        peer = Peer(self._environment, self._identity, lambda: (address,))
        try:
            await peer.connect(LOOK_SECONDS)
        except GoQueueError:
            return peer.was_refused
        finally:
            peer.close()
        return False


def _register(metadata: Metadata, request: RegisterNode) -> Decision[MetadataRecord, Node]:
    """The same process is registered once, however often it asks, at the same addresses."""
    known = metadata.nodes.get(NodeId(request.node_id))
    asked = Registration(
        node_id=NodeId(request.node_id),
        directory_id=request.directory_id,
        incarnation=request.incarnation,
        addresses={name: parse_address(text) for name, text in request.addresses.items()},
        rack=request.rack,
        machine=request.machine,
        features={name: FeatureRange(*levels) for name, levels in request.features.items()},
    )
    if known is not None and asked == _registration_of(known):
        return Decision((), known)
    return register_node(metadata, asked)


def _registration_of(node: Node) -> Registration:
    return Registration(
        node_id=node.node_id,
        directory_id=node.directory_id,
        incarnation=node.incarnation,
        addresses=node.addresses,
        rack=node.rack,
        machine=node.machine,
        features=node.features,
    )


def _check_sender(proved: NodeId, claimed: int) -> None:
    if proved != claimed:
        raise Unauthorized(f"node {proved} speaks for node {claimed}")
