"""A node among others, from its own side: it registers with the controller, and shows it is alive.

    join ──> registered ── heartbeat every 100 ms ──> … ── the controller is new: register again
                                                       └── another process has this number: stop

Registering, following and heartbeats have a connection each, so that none waits for another.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import structlog

from goqueue.broker.cluster.handshake import Identity
from goqueue.broker.cluster.peer import Peer
from goqueue.broker.cluster.sessions import SESSION_NS
from goqueue.broker.metadata.node_file import NodeFile
from goqueue.broker.metadata.remote_log import RemoteLog
from goqueue.cluster.errors import FeatureRefused
from goqueue.cluster.features import supported_features
from goqueue.model.errors import (
    DuplicateNodeId,
    Fenced,
    GoQueueError,
    NodeUnreachable,
    QuorumUnavailable,
    Unauthorized,
    Uncertain,
    WrongCluster,
    WrongDataDirectory,
)
from goqueue.model.ids import NodeEpoch, NodeId
from goqueue.runtime import Environment
from goqueue.wire.node_messages import (
    MetadataEnd,
    NodeAccepted,
    NodeHeartbeat,
    NodeRequest,
    RegisterNode,
)

HEARTBEAT_SECONDS: Final = 0.1
ANSWER_SECONDS: Final = 1.0  # of a heartbeat
REGISTER_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 5.0  # for the controller's answer, before this node says that it waits
FOR_GOOD: Final = (DuplicateNodeId, Unauthorized, WrongCluster, WrongDataDirectory, FeatureRefused)

ReplyT = TypeVar("ReplyT")

_log = structlog.get_logger("goqueue.cluster")


class Membership:
    def __init__(
        self,
        environment: Environment,
        node: NodeFile,
        identity: Callable[[], Identity],
        addresses: Callable[[], Sequence[str]],
        *,
        session_ns: int = SESSION_NS,
    ) -> None:
        """`addresses` are where the controller may be."""

        def controller() -> Peer:
            return Peer(environment, identity, addresses)

        self._clock = environment.clock
        self.session_ns = session_ns
        self._addresses = addresses
        self._node = node
        self._registration: RegisterNode | None = None
        self._epoch = NodeEpoch(0)
        self._questions = controller()
        self._heartbeats = controller()
        self.log = RemoteLog(self._questions, controller(), environment.clock)
        self._heard_at = environment.clock.instant()
        self.is_heard = False  # by the controller, at the last heartbeat
        self.is_registered = False  # this process, with any controller

    # --- the controller, as this node hears it ----------------------------------------------------

    @property
    def is_controller_silent(self) -> bool:
        """It has not answered for a session, or nobody listens there any more."""
        is_late = self._clock.instant() - self._heard_at >= self.session_ns
        return is_late or self.is_controller_gone

    @property
    def is_controller_gone(self) -> bool:
        """Nobody listens where it was."""
        return self._heartbeats.was_refused

    @property
    def hears_controller(self) -> bool:
        """As of now: a connection that has ended is news, whoever ended it."""
        return self.is_heard and self._heartbeats.is_connected and not self.is_controller_silent

    def turn_to_controller(self) -> None:
        """There is another one, which has a session to answer."""
        self._heard_at = self._clock.instant()
        self.is_heard = False
        for peer in (self._questions, self._heartbeats):
            peer.follow_addresses("another node is the controller")

    def adopt(self, epoch: NodeEpoch) -> None:
        """This process has registered."""
        self._heard_at = self._clock.instant()
        self._epoch = epoch
        self.is_registered = True

    # --- asking it --------------------------------------------------------------------------------

    @property
    def voter(self) -> NodeId | None:
        """The node that is followed, once it has answered."""
        return self._questions.node_id

    async def ask(self, request: NodeRequest[ReplyT], seconds: float) -> ReplyT:
        """See `Peer.ask`; of the controller."""
        return await self._questions.ask(request, seconds)

    async def wait_for_controller(self) -> None:
        """Return when it answers.  Nodes are started in any order, also after a power cut.

        Says whom it waits for; raises when this node must not go on.
        """
        await self._insist(MetadataEnd(), WAIT_SECONDS)

    async def _insist(self, request: NodeRequest[ReplyT], seconds: float) -> ReplyT:
        """Ask until there is an answer."""
        while True:
            try:
                return await self._questions.ask(request, seconds)
            except (NodeUnreachable, Uncertain, Fenced, QuorumUnavailable) as error:
                where = list(self._addresses())
                _log.warning("waiting for the controller", addresses=where, problem=str(error))

    async def register(
        self, addresses: dict[str, str], rack: str = "", machine: str = ""
    ) -> NodeAccepted:
        """With the controller; raises as `Peer.ask` does."""
        self._registration = self._registration_at(addresses, rack, machine)
        return await self._register(self._registration)

    async def join(self, addresses: dict[str, str], rack: str, machine: str) -> NodeAccepted:
        """Register, however long the controller takes to answer.

        Whoever asks twice is registered once.
        """
        self._registration = self._registration_at(addresses, rack, machine)
        accepted = await self._insist(self._registration, REGISTER_SECONDS)
        self.adopt(NodeEpoch(accepted.epoch))
        return accepted

    def _registration_at(self, addresses: dict[str, str], rack: str, machine: str) -> RegisterNode:
        node = self._node
        return RegisterNode(
            node.node_id,
            node.directory_id,
            node.incarnation,
            addresses,
            rack,
            machine,
            {
                name: (levels.min_level, levels.max_level)
                for name, levels in supported_features().items()
            },
        )

    async def _register(self, registration: RegisterNode) -> NodeAccepted:
        accepted = await self._questions.ask(registration, REGISTER_SECONDS)
        self.adopt(NodeEpoch(accepted.epoch))
        return accepted

    async def run(self, applied: Callable[[], int]) -> None:
        """Show that this node is alive, until cancelled; raises when it must not go on."""
        while True:
            await self.show_alive(applied())
            await self._clock.sleep(HEARTBEAT_SECONDS)

    async def show_alive(self, applied: int) -> None:
        """One heartbeat; raises when this node must not go on."""
        try:
            await self._beat(applied)
        except FOR_GOOD:
            raise
        except GoQueueError as error:
            if self.is_heard:
                _log.warning("the controller does not hear this node", problem=str(error))
            self.is_heard = False

    async def _beat(self, applied: int) -> None:
        heartbeat = NodeHeartbeat(self._node.node_id, self._epoch, applied)
        reply = await self._heartbeats.ask(heartbeat, ANSWER_SECONDS)
        if not reply.is_registered and self._registration is not None:
            await self._register(self._registration)
        self.is_heard = True
        self._heard_at = self._clock.instant()

    def close(self) -> None:
        self._heartbeats.close()
