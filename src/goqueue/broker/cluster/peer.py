"""Another node, as long as it has to be reached: one kept connection, made again when it broke.

    ask ──> connected? ── yes ──> request, answer
               └── no: connect, Hello, Prove; after a failure a little later, the next address,
                       each time twice as long with jitter, until the deadline of whoever asks, or
                       until the metadata says that the node is gone

What was asked is never asked twice here: whoever asks knows whether it may be.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import structlog

from goqueue.broker.cluster.connection import NodeConnection
from goqueue.broker.cluster.handshake import NONCE_BYTES, Identity, check_reply, say_hello
from goqueue.model.config import Address, parse_address
from goqueue.model.errors import (
    Fenced,
    GoQueueError,
    InvalidSetting,
    NodeUnreachable,
    ShuttingDown,
    Uncertain,
)
from goqueue.model.ids import Instant, NodeId
from goqueue.runtime import Environment
from goqueue.wire.apis import ApiKey
from goqueue.wire.node_messages import FRAME_BYTES_MAX, NodeRequest
from goqueue.wire.primitives import Buffer

CONNECT_SECONDS: Final = 1.0  # for the connection, and again for its greeting
FIRST_DELAY_SECONDS: Final = 0.05
DELAY_SECONDS_MAX: Final = 1.0
NANOSECONDS: Final = 1_000_000_000
SUSPECT_NS: Final = 1_500_000_000  # a session, and the time to agree that it is over

ReplyT = TypeVar("ReplyT")
AddressesOf = Callable[[], Sequence[str]]

_log = structlog.get_logger("goqueue.cluster")


class Peer:
    def __init__(
        self,
        environment: Environment,
        identity: Callable[[], Identity],
        addresses: AddressesOf,
        answer_bytes_max: int = FRAME_BYTES_MAX,
        is_live: Callable[[], bool] = lambda: True,
        on_reached: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`addresses` are where it may be, looked up at each try; the first one that answers.

        While it is not `is_live`, whoever asks does not wait for it beyond one try.  `on_reached`
        hears that there is a connection, and that it broke off.
        """
        self._on_reached = on_reached
        self._is_live = is_live
        self._answer_bytes_max = answer_bytes_max
        self._network = environment.network
        self._clock = environment.clock
        self._random = environment.random
        self._identity = identity
        self._addresses = addresses
        self._turn = 0  # among the addresses
        self._connection: NodeConnection | None = None
        self._connecting = asyncio.Lock()
        self._delay_seconds = 0.0  # before the next try
        self._refused = False  # at the last try, nobody listened there
        self._closed = False
        self._hurry = asyncio.Event()  # replaced when it was set
        self.node_id: NodeId | None = None  # of the last node that was reached

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.ended is None

    @property
    def was_refused(self) -> bool:
        """At the last try nobody listened there: the process is gone."""
        return self._refused

    async def ask(self, request: NodeRequest[ReplyT], seconds: float) -> ReplyT:
        """See `NodeConnection.ask`; the time is for everything together."""
        deadline = self._clock.instant() + int(seconds * NANOSECONDS)
        connection = await self._connect_by(deadline)
        try:
            return await connection.ask(request, max(self._left(deadline), 0.001))
        except Fenced:  # it is not, or no longer, the one who decides: try the next address
            self._turn_away(connection, "it is not the controller")
            raise

    async def ask_kafka(
        self, api_key: ApiKey, version: int, body: Sequence[Buffer], seconds: float
    ) -> memoryview:
        """See `NodeConnection.ask_kafka`; the time is for everything together."""
        deadline = self._clock.instant() + int(seconds * NANOSECONDS)
        connection = await self._connect_by(deadline)
        left = max(self._left(deadline), 0.001)
        return await connection.ask_kafka(api_key, version, body, left)

    async def connect(self, seconds: float) -> None:
        """Return when there is a connection; raises as `ask` does."""
        await self._connect_by(self._clock.instant() + int(seconds * NANOSECONDS))

    def turn_elsewhere(self, reason: str) -> None:
        """What was asked is not waited for, and the next try is made at once."""
        if self._connection is not None:
            self._connection.abort(reason)
            self._connection = None
        self._turn, self._refused, self._delay_seconds = 0, False, 0.0
        self._hurry.set()
        self._hurry = asyncio.Event()

    def follow_addresses(self, reason: str) -> None:
        """They may be others now: `turn_elsewhere`, unless it is connected to one of them."""
        if self._connection is None or self._connection.address not in self._known_addresses():
            self.turn_elsewhere(reason)

    def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.abort("this node ends it")

    # --- connecting -------------------------------------------------------------------------------

    async def _connect_by(self, deadline: int) -> NodeConnection:
        while True:
            connection = self._connection
            if connection is not None and connection.ended is None:
                return connection
            try:
                async with asyncio.timeout(max(self._left(deadline), 0.001)):
                    return await self._connect_once()
            except TimeoutError as error:
                raise NodeUnreachable(f"no answer from {self._names()} in time") from error
            except NodeUnreachable:
                if self._left(deadline) <= self._delay_seconds or not self._is_live():
                    raise

    async def _connect_once(self) -> NodeConnection:
        """One try, for all who wait for it; the next one comes later."""
        async with self._connecting:
            if self._connection is not None and self._connection.ended is None:
                return self._connection
            if self._closed:
                raise ShuttingDown("this node is shutting down")
            if self._delay_seconds:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(
                        self._delay_seconds * self._random.uniform(0.5, 1.0)
                    ):
                        await self._hurry.wait()
            self._delay_seconds = min(
                max(2 * self._delay_seconds, FIRST_DELAY_SECONDS), DELAY_SECONDS_MAX
            )
            self._connection = await self._greet(self._next_address())
            self._delay_seconds, self._refused = 0.0, False
            return self._connection

    def _next_address(self) -> Address:
        found = self._addresses()
        if not found:
            raise NodeUnreachable("it is not known where the other node is")
        text = found[self._turn % len(found)]
        self._turn += 1
        try:
            return parse_address(text)
        except InvalidSetting as error:
            raise NodeUnreachable(str(error)) from error

    async def _greet(self, address: Address) -> NodeConnection:
        connection = NodeConnection(
            str(address), self._answer_bytes_max, lambda: self._on_reached(False)
        )
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._network.connect(address.host, address.port, lambda: connection)
        except (OSError, TimeoutError) as error:
            self._refused = isinstance(error, ConnectionRefusedError)
            text = str(error) or "no answer"
            raise NodeUnreachable(f"no node at {address}: {text}") from error
        self._refused = False
        try:
            await self._prove(connection)
        except Uncertain as error:  # nothing was asked but who is there
            raise NodeUnreachable(str(error)) from error
        except GoQueueError as error:
            connection.abort(str(error))
            _log.error("another node refused this one", address=str(address), problem=str(error))
            raise
        except BaseException:
            connection.abort("given up")
            raise
        self._turn -= 1  # here again next time
        self._on_reached(True)
        return connection

    async def _prove(self, connection: NodeConnection) -> None:
        me = self._identity()
        hello = say_hello(me, self._random.bytes(NONCE_BYTES))
        reply = await connection.ask(hello, CONNECT_SECONDS)
        await connection.ask(check_reply(me, hello, reply), CONNECT_SECONDS)
        self.node_id = NodeId(reply.node_id)

    def _turn_away(self, connection: NodeConnection, reason: str) -> None:
        if self._connection is connection:
            self._connection = None
            self._turn += 1
            self._delay_seconds = FIRST_DELAY_SECONDS
        connection.abort(reason)

    def _left(self, deadline: int) -> float:
        return (deadline - self._clock.instant()) / NANOSECONDS

    def _known_addresses(self) -> Sequence[str]:
        try:
            return self._addresses()
        except Fenced:
            return ()

    def _names(self) -> str:
        return ", ".join(self._known_addresses()) or "a node without an address"


class Peers:
    """All other nodes, by number."""

    def __init__(
        self,
        environment: Environment,
        identity: Callable[[], Identity],
        addresses: Callable[[], Mapping[NodeId, str]],
        is_live: Callable[[NodeId], bool] = lambda _: True,
    ) -> None:
        self.clock = environment.clock
        self._environment = environment
        self._is_live = is_live  # as the metadata has it
        self._identity = identity
        self._addresses = addresses  # of the cluster ports, as the metadata has them
        self._peers: dict[NodeId, Peer] = {}
        self._lost_at: dict[NodeId, Instant] = {}  # when a connection broke off, until the next

    def is_suspect(self, node_id: NodeId) -> bool:
        """Its connection broke off a moment ago, and it has not been reached again: the metadata
        may not say yet that it is gone.
        """
        lost_at = self._lost_at.get(node_id)
        return lost_at is not None and self.clock.instant() - lost_at < SUSPECT_NS

    def _note(self, node_id: NodeId, is_reached: bool) -> None:
        if is_reached:
            self._lost_at.pop(node_id, None)
        else:
            self._lost_at[node_id] = self.clock.instant()

    def of(self, node_id: NodeId) -> Peer:
        found = self._peers.get(node_id)
        if found is None:
            found = self._peers[node_id] = self._make(node_id)
        return found

    def another(self, node_id: NodeId, answer_bytes_max: int = FRAME_BYTES_MAX) -> Peer:
        """With a connection of its own, for who asks all the time; whoever asks closes it.

        Since it is made again at once, its end says more of the node than that of others.
        """
        return self._make(node_id, answer_bytes_max, lambda each: self._note(node_id, each))

    def _make(
        self,
        node_id: NodeId,
        answer_bytes_max: int = FRAME_BYTES_MAX,
        on_reached: Callable[[bool], None] = lambda _: None,
    ) -> Peer:

        def addresses() -> Sequence[str]:
            address = self._addresses().get(node_id)
            return () if address is None else (address,)

        return Peer(
            self._environment,
            self._identity,
            addresses,
            answer_bytes_max,
            lambda: self._is_live(node_id),
            on_reached,
        )

    def give_up(self, node_id: NodeId) -> None:
        """The node is gone, by the metadata: nobody waits for its answers any more."""
        peer = self._peers.get(node_id)
        if peer is not None:
            peer.turn_elsewhere("the node is fenced, or was removed")

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
