"""A listener for frames: accepts connections, bounds what they hold, reaps the dead.

Subclasses handle the frames: the Kafka listener, and the listener for the other nodes of a cluster.
"""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import structlog

from goqueue.model.config import Address, KafkaConfig, parse_address
from goqueue.runtime import Environment, Handshakes, Listener
from goqueue.security import ANONYMOUS, Principal
from goqueue.server.address_counts import AddressCounts
from goqueue.server.kafka.connection import KafkaConnection
from goqueue.server.kafka.limits import HeldBytes, LogLimit
from goqueue.server.kafka.reply import ReplySlot
from goqueue.server.server_log import ServerLog
from goqueue.wire.frame_buffer import SHARED_BYTES
from goqueue.wire.frames import RequestHeader

REAP_SECONDS: Final = 1.0
ADDRESS_SHARE: Final = 4  # one address has at most this part of the logins that wait


class ConnectionMetrics(Protocol):
    def connection_opened(self, listener: str, /) -> None: ...
    def connection_closed(self, listener: str, /) -> None: ...


class FrameListener:
    name = "kafka"  # in metrics and logs
    pending_logins_max = 0  # connections that have not logged in
    login_seconds = 0.0  # within which a connection must have logged in
    port = "Kafka"  # for whoever came to the wrong one

    def __init__(
        self,
        environment: Environment,
        config: KafkaConfig,
        metrics: ConnectionMetrics,
        server_log: ServerLog | None = None,
    ) -> None:
        self.config = config  # a reload replaces it; connections keep the one they began with
        self.server_log = server_log or ServerLog()
        self.receive_buffer = bytearray(SHARED_BYTES)
        self.tls: ssl.SSLContext | None = None
        # Of TLS: from where, and why.
        self.on_failed_handshake: Callable[[str, ssl.SSLError], None] = lambda _host, _error: None
        self._environment = environment
        self._connection_metrics = metrics
        self._connections: dict[KafkaConnection, None] = {}  # in order: a seed must repeat it
        self._addresses = AddressCounts()
        self._logins = AddressCounts()  # of those that have not logged in
        self._received = HeldBytes[KafkaConnection](config.received_bytes_max)
        self._unsent = HeldBytes[KafkaConnection](config.unsent_bytes_max)
        self._log_limit = LogLimit()
        self._log = structlog.get_logger(f"goqueue.{self.name}")
        self._tasks: asyncio.TaskGroup | None = None
        self._listener: Listener | None = None
        self._reaper: asyncio.Task[None] | None = None
        self._stopping = False

    def explain_limit(self, limit: str) -> str:
        """What to change about a limit, for people."""
        return f"setting {self.name}.{limit}"

    # --- life -------------------------------------------------------------------------------------

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        address = parse_address(self.config.listen)
        self._listener = await self._environment.network.listen(
            address.host,
            address.port,
            lambda: KafkaConnection(self),
            self.tls,
            Handshakes(tasks, self.on_failed_handshake),
        )
        self._reaper = tasks.create_task(self._reap())

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def address(self) -> Address:
        assert self._listener is not None
        host, port = self._listener.address
        return Address(host, port)

    async def stop(self, seconds: float) -> None:
        """Accept nothing more, let what is under way finish for a while, then close."""
        self._stopping = True
        if self._listener is not None:
            await self._listener.close()
        if self._reaper is not None:
            self._reaper.cancel()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._connections and loop.time() < deadline:
            for connection in list(self._connections):
                connection.close_when_idle()
            await self._environment.clock.sleep(0.02)
        for connection in list(self._connections):
            connection.abort()

    # --- connections ------------------------------------------------------------------------------

    def admit(self, connection: KafkaConnection) -> bool:
        """Take a new connection in, unless there are too many."""
        refusal = self._refusal(connection)
        if refusal is not None:
            self.log_closing(connection, refusal)
            return False
        self._connections[connection] = None
        self._addresses.add(connection.host)
        if connection.principal is None:
            self._logins.add(connection.host)
        self._connection_metrics.connection_opened(self.name)
        return True

    def _refusal(self, connection: KafkaConnection) -> str | None:
        host, limit = connection.host, self.config.connections_max
        if len(self._connections) >= limit:
            return f"more than {limit} ({self.explain_limit('connections_max')})"
        limit = self.config.connections_per_address_max
        if limit and self._addresses.of(host) >= limit:
            setting = self.explain_limit("connections_per_address_max")
            return f"more than {limit} from one address ({setting})"
        limit = self.pending_logins_max
        if connection.principal is None and (
            self._logins.total >= limit or self._logins.of(host) >= limit // ADDRESS_SHARE
        ):
            return f"{limit} connections, or a quarter from one address, have not logged in" + (
                " (setting auth.pending_logins_max)"
            )
        return self.refuse_connection(connection)

    def note_login(self, connection: KafkaConnection) -> None:
        """It has logged in for the first time."""
        if connection in self._connections:
            self._logins.remove(connection.host)

    def forget(self, connection: KafkaConnection) -> None:
        now = asyncio.get_running_loop().time()
        self._received.note(connection, 0, now)
        self._unsent.note(connection, 0, now)
        if connection in self._connections:
            del self._connections[connection]
            self._addresses.remove(connection.host)
            if connection.principal is None:
                self._logins.remove(connection.host)
            self._connection_metrics.connection_closed(self.name)
            if not self._stopping:
                self.connection_ended(connection)

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None
        return self._tasks.create_task(work)

    async def _reap(self) -> None:
        """Close connections that are idle, stuck in a request, or not reading."""
        loop = asyncio.get_running_loop()
        while True:
            await self._environment.clock.sleep(REAP_SECONDS)
            now = loop.time()
            for connection in list(self._connections):
                reason = (
                    connection.overdue(now)
                    or self.find_revocation(connection)
                    or self.find_refusal(connection)
                )
                if reason is not None:
                    self.log_closing(connection, reason)
                    connection.abort()
            left_out = self._log_limit.take_left_out(now)
            if left_out:
                self._log.warning("more connections were closed than are logged", count=left_out)

    def log_closing(self, connection: KafkaConnection, reason: str) -> None:
        if self._log_limit.allows(asyncio.get_running_loop().time()):
            self._log.warning("closing a connection", peer=connection.peer, reason=reason)

    # --- what those who inherit say --------------------------------------------------------------

    def find_revocation(self, connection: KafkaConnection) -> str | None:
        """Why whoever logged in there may not go on, if so."""
        return None

    def identify(self, transport: asyncio.BaseTransport) -> Principal | None:
        """Who is there, as far as the connection itself says it; None: it has to log in."""
        return ANONYMOUS

    def find_refusal(self, connection: KafkaConnection) -> str | None:
        """Why a connection may not stay any longer, if so."""
        return None

    def refuse_connection(self, connection: KafkaConnection) -> str | None:
        """Why a new connection may not stay, if so."""
        return None

    async def handle(
        self, connection: KafkaConnection, header: RequestHeader, slot: ReplySlot
    ) -> None:
        raise NotImplementedError

    def observe(self, api_key: int, seconds: float) -> None:
        """A request was answered."""

    def http_answer(self, connection: KafkaConnection) -> str:
        """For whoever speaks HTTP to this port."""
        return f"This is GoQueue's {self.port} port"

    def connection_ended(self, connection: KafkaConnection) -> None:
        """Not called any more once the listener stops."""

    # --- what connections hold --------------------------------------------------------------------

    def note_received(
        self, connection: KafkaConnection, size: int, now: float, *, made_progress: bool = False
    ) -> None:
        """Note what it holds of requests; close whoever holds too much of what all may hold."""
        received = self._received
        received.note(connection, size, now, made_progress=made_progress)
        while (worst := received.to_close(now)) is not None:
            reason = (
                f"requests that are not whole or wait take {received.total} bytes on all"
                f" connections, {received.bytes_max} allowed"
                f" ({self.explain_limit('received_bytes_max')});"
                " this one holds the most for the longest"
            )
            self._close_for_room(worst, reason)

    def unsent(self, connection: KafkaConnection, size: int, now: float) -> None:
        """The same for replies that it has not read."""
        unsent = self._unsent
        unsent.note(connection, size, now)
        while (worst := unsent.to_close(now)) is not None:
            reason = (
                f"replies that clients do not read take {unsent.total} bytes on all connections,"
                f" {unsent.bytes_max} allowed ({self.explain_limit('unsent_bytes_max')});"
                " this one holds the most for the longest"
            )
            self._close_for_room(worst, reason)

    def _close_for_room(self, connection: KafkaConnection, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        self._received.note(connection, 0, now)
        self._unsent.note(connection, 0, now)
        self.log_closing(connection, reason)
        connection.abort()
