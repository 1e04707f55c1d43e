"""The Kafka listener: accepts connections, hands requests to their handlers, reaps the dead.

Produce and Fetch are decoded by hand; all other APIs go through one table, `HANDLERS`, and what
is not in it is not advertised.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from goqueue.broker import Broker
from goqueue.model.config import Address, KafkaConfig, parse_address
from goqueue.runtime import Listener
from goqueue.server.kafka.connection import KafkaConnection, api_name
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.fetch import handle_fetch
from goqueue.server.kafka.fetch_sessions import FetchSessions
from goqueue.server.kafka.frame_buffer import SHARED_BYTES
from goqueue.server.kafka.handlers import HANDLERS, SERVED_APIS
from goqueue.server.kafka.limits import HeldBytes, LogLimit
from goqueue.server.kafka.produce import handle_produce
from goqueue.server.kafka.reply import ReplySlot
from goqueue.server.kafka.versions import refuse_api_versions
from goqueue.server.metrics import Metrics
from goqueue.server.server_log import ServerLog
from goqueue.wire.apis import ApiKey, versions_of
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frames import RequestHeader
from goqueue.wire.messages import decode_request, encode_response

REAP_SECONDS: Final = 1.0
FETCH_BYTES_MIN: Final = 64 * 1024  # of a fetch response, however little room there is
EVERY_ADDRESS: Final = ("0.0.0.0", "::")

_log = structlog.get_logger("goqueue.kafka")


class KafkaListener:
    def __init__(
        self,
        broker: Broker,
        config: KafkaConfig,
        metrics: Metrics,
        server_log: ServerLog | None = None,
    ) -> None:
        self.config = config  # a reload replaces it; connections keep the one they began with
        self.server_log = server_log or ServerLog()
        self.receive_buffer = bytearray(SHARED_BYTES)
        self.http_address: Address | None = None  # of the listener beside this one
        self._broker = broker
        self._metrics = metrics
        self._sessions = FetchSessions(config.fetch_sessions_max, broker.environment.random)
        self._connections: set[KafkaConnection] = set()
        self._received = HeldBytes[KafkaConnection](config.received_bytes_max)
        self._unsent = HeldBytes[KafkaConnection](config.unsent_bytes_max)
        self._log_limit = LogLimit()
        self._tasks: asyncio.TaskGroup | None = None
        self._listener: Listener | None = None
        self._reaper: asyncio.Task[None] | None = None
        self._stopping = False

    # --- life -------------------------------------------------------------------------------------

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        address = parse_address(self.config.listen)
        self._listener = await self._broker.environment.network.listen(
            address.host, address.port, lambda: KafkaConnection(self)
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

    def address_for(self, connection: KafkaConnection) -> Address:
        """Where this client should connect to: as advertised, or where it already reached us."""
        if self.config.advertised:
            return parse_address(self.config.advertised)
        return Address(connection.local_host or self.address.host, self.address.port)

    def http_address_for(self, connection: KafkaConnection) -> Address | None:
        """The same for HTTP.  One that listens on every address is where the client is already."""
        advertised = self._broker.config.http.advertised
        if advertised:
            return parse_address(advertised)
        if self.http_address is not None and self.http_address.host in EVERY_ADDRESS:
            return Address(self._host_for(connection), self.http_address.port)
        return self.http_address

    def _host_for(self, connection: KafkaConnection) -> str:
        if self.config.advertised:
            return parse_address(self.config.advertised).host
        return connection.local_host or self.address.host

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
            await self._broker.environment.clock.sleep(0.02)
        for connection in list(self._connections):
            connection.abort()

    # --- connections ------------------------------------------------------------------------------

    def admit(self, connection: KafkaConnection) -> bool:
        """Take a new connection in, unless there are too many."""
        if len(self._connections) >= self.config.connections_max:
            limit = self.config.connections_max
            self.log_closing(connection, f"more than {limit} (setting kafka.connections_max)")
            return False
        self._connections.add(connection)
        self._metrics.connection_opened("kafka")
        return True

    def forget(self, connection: KafkaConnection) -> None:
        now = asyncio.get_running_loop().time()
        self._received.note(connection, 0, now)
        self._unsent.note(connection, 0, now)
        if connection in self._connections:
            self._connections.discard(connection)
            self._metrics.connection_closed("kafka")
            if not self._stopping:  # else the members come again, and go on with what they hold
                self._broker.queue_members.disconnected(connection.peer)

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None
        return self._tasks.create_task(work)

    async def _reap(self) -> None:
        """Close connections that are idle, stuck in a request, or not reading."""
        loop = asyncio.get_running_loop()
        while True:
            await self._broker.environment.clock.sleep(REAP_SECONDS)
            now = loop.time()
            for connection in list(self._connections):
                reason = connection.overdue(now)
                if reason is not None:
                    self.log_closing(connection, reason)
                    connection.abort()
            left_out = self._log_limit.take_left_out(now)
            if left_out:
                _log.warning("more connections were closed than are logged", count=left_out)

    def log_closing(self, connection: KafkaConnection, reason: str) -> None:
        if self._log_limit.allows(asyncio.get_running_loop().time()):
            _log.warning("closing a connection", peer=connection.peer, reason=reason)

    def http_answer(self, connection: KafkaConnection) -> str:
        """For whoever speaks HTTP to this port."""
        address = self.http_address_for(connection)
        where = f"HTTP is served at http://{address}" if address else "there is no HTTP port"
        return f"This is GoQueue's Kafka port; {where}"

    # --- what connections hold --------------------------------------------------------------------

    def received(
        self, connection: KafkaConnection, size: int, now: float, *, made_progress: bool = False
    ) -> None:
        """Note what it holds of requests; close whoever holds too much of what all may hold."""
        received = self._received
        received.note(connection, size, now, made_progress=made_progress)
        while (worst := received.to_close(now)) is not None:
            reason = (
                f"requests that are not whole or wait take {received.total} bytes on all"
                f" connections, {received.bytes_max} allowed (setting kafka.received_bytes_max);"
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
                f" {unsent.bytes_max} allowed (setting kafka.unsent_bytes_max);"
                " this one holds the most for the longest"
            )
            self._close_for_room(worst, reason)

    def _close_for_room(self, connection: KafkaConnection, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        self._received.note(connection, 0, now)
        self._unsent.note(connection, 0, now)
        self.log_closing(connection, reason)
        connection.abort()

    def _fetch_bytes_max(self) -> int:
        """Of a fetch response: less when clients are slow to read what they were sent."""
        room = self._unsent.bytes_max // 2 - self._unsent.total
        return min(self.config.fetch_bytes_max, max(FETCH_BYTES_MIN, room))

    # --- requests ---------------------------------------------------------------------------------

    def observe(self, api_key: int, seconds: float) -> None:
        self._metrics.observe_kafka_request(api_name(api_key), seconds)

    async def handle(
        self, connection: KafkaConnection, header: RequestHeader, slot: ReplySlot
    ) -> None:
        api_key, version = header.api_key, header.api_version
        known = versions_of(api_key)
        if known is None or not known.min <= version <= known.max:
            if api_key == ApiKey.API_VERSIONS:
                slot.fill([refuse_api_versions(SERVED_APIS)])
                return
            raise MalformedRequest(f"API {api_name(api_key)} ({api_key}) v{version} is not served")
        if api_key == ApiKey.PRODUCE:
            await handle_produce(self._broker, header, slot)
        elif api_key == ApiKey.FETCH:
            bytes_max = self._fetch_bytes_max()
            slot.fill(await handle_fetch(self._broker, self._sessions, bytes_max, header))
        else:
            await self._handle_other(connection, header, slot)

    async def _handle_other(
        self, connection: KafkaConnection, header: RequestHeader, slot: ReplySlot
    ) -> None:
        handler = HANDLERS.get(ApiKey(header.api_key))
        if handler is None:
            raise MalformedRequest(f"API {api_name(header.api_key)} is not served")
        context = Context(
            self._broker,
            header,
            self.address_for(connection),
            self.http_address_for(connection),
            connection.peer,
        )
        request = decode_request(header.api_key, header.api_version, header.body)
        response = await handler(context, request)
        slot.fill([encode_response(header.api_key, header.api_version, response)])
