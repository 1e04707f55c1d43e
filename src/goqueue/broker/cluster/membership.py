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
from goqueue.broker.metadata.node_file import NodeFile
from goqueue.broker.metadata.remote_log import RemoteLog
from goqueue.model.errors import (
    DuplicateNodeId,
    GoQueueError,
    Unauthorized,
    WrongCluster,
    WrongDataDirectory,
)
from goqueue.model.ids import NodeEpoch, NodeId
from goqueue.runtime import Environment
from goqueue.wire.node_messages import (
    NodeAccepted,
    NodeHeartbeat,
    NodeRequest,
    RegisterNode,
)

HEARTBEAT_SECONDS: Final = 0.1
ANSWER_SECONDS: Final = 1.0  # of a heartbeat
REGISTER_SECONDS: Final = 5.0
FOR_GOOD: Final = (DuplicateNodeId, Unauthorized, WrongCluster, WrongDataDirectory)

ReplyT = TypeVar("ReplyT")

_log = structlog.get_logger("goqueue.cluster")


class Membership:
    def __init__(
        self,
        environment: Environment,
        node: NodeFile,
        identity: Callable[[], Identity],
        seeds: Sequence[str],
    ) -> None:
        def controller() -> Peer:
            return Peer(environment, identity, lambda: seeds)

        self._clock = environment.clock
        self._node = node
        self._registration: RegisterNode | None = None
        self._epoch = NodeEpoch(0)
        self._questions = controller()
        self._heartbeats = controller()
        self.log = RemoteLog(self._questions, controller(), environment.clock)
        self.is_heard = False  # by the controller, at the last heartbeat

    @property
    def voter(self) -> NodeId | None:
        """The node that is followed, once it has answered."""
        return self._questions.node_id

    async def ask(self, request: NodeRequest[ReplyT], seconds: float) -> ReplyT:
        """See `Peer.ask`; of the controller."""
        return await self._questions.ask(request, seconds)

    async def register(
        self, addresses: dict[str, str], rack: str = "", machine: str = ""
    ) -> NodeAccepted:
        """With the controller; raises as `Peer.ask` does."""
        node = self._node
        self._registration = RegisterNode(
            node.node_id, node.directory_id, node.incarnation, addresses, rack, machine
        )
        return await self._register(self._registration)

    async def _register(self, registration: RegisterNode) -> NodeAccepted:
        accepted = await self._questions.ask(registration, REGISTER_SECONDS)
        self._epoch = NodeEpoch(accepted.epoch)
        return accepted

    async def run(self, applied: Callable[[], int]) -> None:
        """Show that this node is alive, until cancelled; raises when it must not go on."""
        while True:
            try:
                await self._beat(applied())
            except FOR_GOOD:
                raise
            except GoQueueError as error:
                if self.is_heard:
                    _log.warning("the controller does not hear this node", problem=str(error))
                self.is_heard = False
            await self._clock.sleep(HEARTBEAT_SECONDS)

    async def _beat(self, applied: int) -> None:
        heartbeat = NodeHeartbeat(self._node.node_id, self._epoch, applied)
        reply = await self._heartbeats.ask(heartbeat, ANSWER_SECONDS)
        if not reply.is_registered and self._registration is not None:
            await self._register(self._registration)
        self.is_heard = True

    def close(self) -> None:
        self._heartbeats.close()
