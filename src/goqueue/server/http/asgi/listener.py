"""The HTTP listener: the application on a socket, embedded in the running event loop."""

import asyncio
import ssl
from functools import partial
from typing import Any

import structlog
from uvicorn.server import ServerState

from goqueue.broker import Broker
from goqueue.model.config import Address, HttpConfig, parse_address
from goqueue.runtime import Handshakes, Listener
from goqueue.server.address_counts import AddressCounts
from goqueue.server.http.asgi.access import Access
from goqueue.server.http.asgi.app import API_ROOTS, allowed_methods, create_app
from goqueue.server.http.asgi.connection import HttpConnection, server_config
from goqueue.server.http.asgi.long_polls import LongPolls
from goqueue.server.http.asgi.readiness import Health
from goqueue.server.http.asgi.request_limits import Gate
from goqueue.server.http.asgi.requesting_app import RequestingApp
from goqueue.server.http.forwarding.calls import HttpCalls
from goqueue.server.http.forwarding.routed_app import RoutedApp
from goqueue.server.http.gathering import serve_gathered
from goqueue.server.http.quotas.metered_app import MeteredApp
from goqueue.server.http.security.audited import HttpAudit
from goqueue.server.http.security.authorized_app import AuthorizedApp
from goqueue.server.http.security.identity import Identification
from goqueue.server.http.tenancy.tenant_app import TenantApp
from goqueue.server.metrics import Metrics
from goqueue.server.server_log import ServerLog
from goqueue.server.tls import note_failed_handshake

_log = structlog.get_logger("goqueue.http")


class HttpListener:
    """Started and stopped by who composes the server.  Touches no signals and no global logging."""

    def __init__(
        self,
        broker: Broker,
        config: HttpConfig,
        metrics: Metrics,
        health: Health | None = None,
        server_log: ServerLog | None = None,
    ) -> None:
        self.health = health or Health()
        self._broker = broker
        self._config = config
        self._metrics = metrics
        self._state = ServerState()
        self._addresses = AddressCounts()
        self._polls = LongPolls(broker.environment.clock, config.long_poll_ms_max)
        server_log = server_log or ServerLog()
        app = create_app(broker, config, metrics, self.health, self._polls, server_log)
        self._calls: HttpCalls | None = None
        clock = broker.environment.clock
        served: Any = app
        served = RequestingApp(served, clock)
        if broker.others is not None:
            self._calls = HttpCalls(served)
            broker.cluster.handlers |= self._calls.handlers
            serve_gathered(broker)
            served = RequestingApp(RoutedApp(app, broker, broker.others), clock)
        audit = HttpAudit(broker.audit, broker.permissions, broker.environment.clock)
        if broker.permissions.is_asked:
            served = AuthorizedApp(served, app, broker.permissions, audit, broker.has_topic)
        served = MeteredApp(served, app, broker.quotas, broker.tenants)
        if broker.permissions.is_asked:
            served = TenantApp(served, app, broker)
        gate = Gate(
            served,
            access=Access(config),
            identification=Identification(broker),
            audit=audit,
            compress=config.compress,
            body_bytes_max=config.body_bytes_max,
            clock=broker.environment.clock,
            metrics=metrics,
            server_log=server_log,
            requests_max=config.connections_max,
            connection_count=lambda: len(self._state.connections),
            api_roots=API_ROOTS,
            allowed_methods=lambda path: allowed_methods(app, path),
        )
        self._server_config = server_config(gate, config.idle_seconds)
        self._listener: Listener | None = None
        self.tls: ssl.SSLContext | None = None

    @property
    def address(self) -> Address:
        """Where it really listens: the port is known also when 0 was asked for."""
        assert self._listener is not None, "not started"
        return Address(*self._listener.address)

    @property
    def connection_count(self) -> int:
        return len(self._state.connections)

    @property
    def ready(self) -> bool:
        """What `/readyz` says; set by who knows that all listeners serve."""
        return self.health.ready

    @ready.setter
    def ready(self, ready: bool) -> None:
        if ready:
            self.health.set_ready()
        else:
            self.health.set_stopping()

    async def start(self, tasks: asyncio.TaskGroup | None = None) -> None:
        """Listen.  With tasks, TLS handshakes that fail are put on record."""
        address = parse_address(self._config.listen)
        failed = partial(note_failed_handshake, self._broker.audit, "http")
        self._listener = await self._broker.environment.network.listen(
            address.host,
            address.port,
            self._connection,
            self.tls,
            None if tasks is None else Handshakes(tasks, failed),
        )
        _log.info("http listens", address=str(self.address))

    def _connection(self) -> HttpConnection:
        return HttpConnection(
            self._server_config,
            self._state,
            self._metrics,
            self._config.connections_max,
            self._broker.config.tls.principal_rules,
            self._admit,
            self._addresses.remove,
        )

    def _admit(self, address: str) -> bool:
        limit = self._config.connections_per_address_max
        is_over = limit and self._addresses.of(address) >= limit
        if is_over or self._broker.quotas.connection_wait_seconds(address):
            return False
        self._addresses.add(address)
        return True

    async def stop(self, seconds: float) -> None:
        """Accept nothing more, answer what is open, and cut what takes longer than `seconds`."""
        if self._listener is not None:
            await self._listener.close()
        self._polls.end_all()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._calls is not None:
            await self._calls.stop(seconds)
        requests = list(self._state.tasks)
        if requests:
            _, late = await asyncio.wait(requests, timeout=seconds)
            for request in late:
                request.cancel()
            if late:
                await asyncio.wait(late)
        for connection in list(self._state.connections):
            connection.transport.close()
