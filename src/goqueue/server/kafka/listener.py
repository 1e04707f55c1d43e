"""The Kafka listener: hands requests to their handlers.

Produce and Fetch are decoded by hand; all other APIs go through one table, `HANDLERS`, and what
is not in it is not advertised.
"""

import asyncio
from functools import partial
from typing import Final

from goqueue.broker import Broker
from goqueue.model.config import Address, KafkaConfig, parse_address
from goqueue.model.errors import GoQueueError
from goqueue.security import ANONYMOUS, Principal
from goqueue.server.kafka.access import Access
from goqueue.server.kafka.audited_changes import CHANGES, changes_of
from goqueue.server.kafka.authentication import SASL_APIS, Authentication
from goqueue.server.kafka.connection import KafkaConnection, api_name
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.demands import DEMANDS
from goqueue.server.kafka.fetch import handle_fetch
from goqueue.server.kafka.fetch_sessions import FetchSessions
from goqueue.server.kafka.frame_listener import FrameListener
from goqueue.server.kafka.handlers import HANDLERS, SERVED_APIS
from goqueue.server.kafka.nodes import is_reachable
from goqueue.server.kafka.produce import handle_produce
from goqueue.server.kafka.reply import ReplySlot
from goqueue.server.kafka.tenancy.connections import TenantConnections
from goqueue.server.kafka.tenancy.limits import NO_LIMITS, ClientLimits
from goqueue.server.kafka.tenancy.messages import into_namespace, out_of_namespace
from goqueue.server.kafka.throttling import throttle_of
from goqueue.server.kafka.versions import refuse_api_versions
from goqueue.server.metrics import Metrics
from goqueue.server.server_log import ServerLog
from goqueue.server.tls import note_failed_handshake
from goqueue.wire.apis import ApiKey, versions_of
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frames import RequestHeader
from goqueue.wire.messages import decode_request, encode_response

FETCH_BYTES_MIN: Final = 64 * 1024  # of a fetch response, however little room there is


class KafkaListener(FrameListener):
    def __init__(
        self,
        broker: Broker,
        config: KafkaConfig,
        metrics: Metrics,
        server_log: ServerLog | None = None,
    ) -> None:
        super().__init__(broker.environment, config, metrics, server_log)
        self.http_address: Address | None = None  # of the listener beside this one
        self._broker = broker
        self._metrics = metrics
        self._tenants = TenantConnections(broker.tenants)
        self._authentication = Authentication(broker, self._tenants.admit)
        self.on_failed_handshake = partial(note_failed_handshake, broker.audit, self.name)
        self.login_seconds = self._authentication.login_seconds
        self.pending_logins_max = broker.config.auth.pending_logins_max
        self._unchecked = Access(broker.permissions, ANONYMOUS, "")
        self._sessions = FetchSessions(config.fetch_sessions_max, broker.environment.random)

    # --- addresses --------------------------------------------------------------------------------

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
        if self.http_address is not None and not is_reachable(self.http_address):
            return Address(self._host_for(connection), self.http_address.port)
        return self.http_address

    def _host_for(self, connection: KafkaConnection) -> str:
        if self.config.advertised:
            return parse_address(self.config.advertised).host
        return connection.local_host or self.address.host

    def http_answer(self, connection: KafkaConnection) -> str:
        """For whoever speaks HTTP to this port."""
        address = self.http_address_for(connection)
        where = f"HTTP is served at http://{address}" if address else "there is no HTTP port"
        return f"This is GoQueue's Kafka port; {where}"

    def identify(self, transport: asyncio.BaseTransport) -> Principal | None:
        return self._authentication.identify(transport)

    def refuse_connection(self, connection: KafkaConnection) -> str | None:
        wait = self._broker.quotas.connection_wait_seconds(connection.host)
        if wait:
            return f"over the quota connection_creation_rate for {wait:.1f} s"
        try:
            if connection.principal is not None:
                self._tenants.admit(connection, connection.principal)
        except GoQueueError as error:
            return str(error)
        return None

    def find_refusal(self, connection: KafkaConnection) -> str | None:
        return self._tenants.find_refusal(connection)

    def find_revocation(self, connection: KafkaConnection) -> str | None:
        return self._authentication.find_revocation(connection)

    def connection_ended(self, connection: KafkaConnection) -> None:
        self._tenants.forget(connection)
        self._authentication.forget(connection)
        self._broker.queue_members.disconnect(connection.peer)

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
        if connection.principal is None and api_key != ApiKey.API_VERSIONS:
            await self._authentication.handle(connection, header, slot)
            return
        limits = self._limits_of(connection, header)
        if limits.throttle is not None:
            await limits.throttle.wait(api_key)
        if api_key == ApiKey.PRODUCE:
            access = self._access_of(connection, api_key)
            await handle_produce(self._broker, access, header, slot, limits)
        elif api_key == ApiKey.FETCH:
            await self._handle_fetch(connection, header, slot, limits)
        else:
            await self._handle_other(connection, header, slot, limits)

    def _limits_of(self, connection: KafkaConnection, header: RequestHeader) -> ClientLimits:
        table, principal = self._broker.metadata.security, connection.principal
        if not table.has_limits and not (principal and principal.tenant):
            return NO_LIMITS
        quotas = self._broker.quotas
        namespace = self._tenants.namespace_of(connection)
        if not quotas.are_set:
            return NO_LIMITS if namespace is None else ClientLimits(None, namespace)
        counts = self._broker.tenants.counts_of(namespace.tenant_id) if namespace else None
        return ClientLimits(throttle_of(quotas, connection, header, counts), namespace)

    async def _handle_fetch(
        self,
        connection: KafkaConnection,
        header: RequestHeader,
        slot: ReplySlot,
        limits: ClientLimits,
    ) -> None:
        access, bytes_max = self._access_of(connection, header.api_key), self._fetch_bytes_max()
        slot.fill(
            await handle_fetch(self._broker, access, self._sessions, bytes_max, header, limits)
        )

    def _access_of(self, connection: KafkaConnection, api_key: int) -> Access:
        if not self._unchecked.is_enforced:
            return self._unchecked
        broker = self._broker
        principal = connection.principal or ANONYMOUS  # who may ask for versions
        name = api_name(api_key)
        return Access(broker.permissions, principal, connection.host, broker.audit, name)

    def _note_changes(
        self, connection: KafkaConnection, api_key: int, request: object, response: object
    ) -> None:
        """What was refused for want of a permission is on record already."""
        principal = connection.principal or ANONYMOUS
        for change in changes_of(api_key, request, response):
            self._broker.audit.note(
                "change",
                allowed=True,
                principal=str(principal),
                host=connection.host,
                listener="kafka",
                request=api_name(api_key),
                resource=change.resource,
                reason=self._broker.permissions.explain(principal),
                result=change.result,
                details=change.details,
            )

    async def _handle_other(
        self,
        connection: KafkaConnection,
        header: RequestHeader,
        slot: ReplySlot,
        limits: ClientLimits,
    ) -> None:
        if header.api_key in SASL_APIS:
            await self._authentication.handle(connection, header, slot)
            return
        handler = HANDLERS.get(ApiKey(header.api_key))
        if handler is None or header.api_key not in DEMANDS:
            raise MalformedRequest(f"API {api_name(header.api_key)} is not served")
        context = Context(
            self._broker,
            header,
            self.address_for(connection),
            self.http_address_for(connection),
            connection.peer,
            self._access_of(connection, header.api_key),
        )
        request = decode_request(header.api_key, header.api_version, header.body)
        if limits.namespace is not None:
            request = into_namespace(header.api_key, request, limits.namespace)
        response = await handler(context, request)
        if header.api_key in CHANGES and self._broker.audit.is_enabled:
            self._note_changes(connection, header.api_key, request, response)
        if limits.namespace is not None:
            response = out_of_namespace(header.api_key, response, limits.namespace)
        if limits.throttle is not None:
            response = limits.throttle.charge_other(header.api_key, response)
        slot.fill([encode_response(header.api_key, header.api_version, response)])
