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
from goqueue.server.kafka.connection import KafkaConnection, Slot, api_name
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.fetch import handle_fetch
from goqueue.server.kafka.fetch_sessions import FetchSessions
from goqueue.server.kafka.frame_buffer import SHARED_BYTES
from goqueue.server.kafka.handlers import HANDLERS
from goqueue.server.kafka.produce import handle_produce
from goqueue.server.kafka.versions import refuse_api_versions
from goqueue.server.metrics import Metrics
from goqueue.server.server_log import ServerLog
from goqueue.wire.apis import ApiKey, versions_of
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frames import RequestHeader
from goqueue.wire.messages import decode_request, encode_response

REAP_SECONDS: Final = 1.0
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
        self._sessions = FetchSessions(config.fetch_sessions_max, broker.doors.random)
        self._connections: set[KafkaConnection] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._listener: Listener | None = None
        self._reaper: asyncio.Task[None] | None = None
        self._stopping = False

    # --- life -------------------------------------------------------------------------------------

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        address = parse_address(self.config.listen)
        self._listener = await self._broker.doors.network.listen(
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
            await self._broker.doors.clock.sleep(0.02)
        for connection in list(self._connections):
            connection.abort()

    # --- connections ------------------------------------------------------------------------------

    def admit(self, connection: KafkaConnection) -> bool:
        """Take a new connection in, unless there are too many."""
        if len(self._connections) >= self.config.connections_max:
            _log.warning(
                "connection refused: too many",
                peer=connection.peer,
                connections_max=self.config.connections_max,
            )
            return False
        self._connections.add(connection)
        self._metrics.connection_opened("kafka")
        return True

    def forget(self, connection: KafkaConnection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._metrics.connection_closed("kafka")
            if not self._stopping:  # else the members come again, and go on with what they hold
                self._broker.shares.disconnected(connection.peer)

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None
        return self._tasks.create_task(work)

    async def _reap(self) -> None:
        """Close connections that are idle, stuck in a request, or not reading."""
        loop = asyncio.get_running_loop()
        while True:
            await self._broker.doors.clock.sleep(REAP_SECONDS)
            now = loop.time()
            for connection in list(self._connections):
                reason = connection.overdue(now)
                if reason is not None:
                    _log.info("closing a connection", peer=connection.peer, reason=reason)
                    connection.abort()

    # --- requests ---------------------------------------------------------------------------------

    def observe(self, api_key: int, seconds: float) -> None:
        self._metrics.observe_kafka_request(api_name(api_key), seconds)

    async def handle(self, connection: KafkaConnection, header: RequestHeader, slot: Slot) -> None:
        api_key, version = header.api_key, header.api_version
        known = versions_of(api_key)
        if known is None or not known.min <= version <= known.max:
            if api_key == ApiKey.API_VERSIONS:
                slot.fill([refuse_api_versions()])
                return
            raise MalformedRequest(f"API {api_name(api_key)} ({api_key}) v{version} is not served")
        if api_key == ApiKey.PRODUCE:
            await handle_produce(self._broker, header, slot)
        elif api_key == ApiKey.FETCH:
            bytes_max = self.config.fetch_bytes_max
            slot.fill(await handle_fetch(self._broker, self._sessions, bytes_max, header))
        else:
            await self._handle_other(connection, header, slot)

    async def _handle_other(
        self, connection: KafkaConnection, header: RequestHeader, slot: Slot
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
