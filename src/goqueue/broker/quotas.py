"""How much each client of this node may use, by the metadata's quotas.

Each node holds its clients to the whole rate, as Kafka does: a client that uses three nodes may use
it three times.  What passes is counted here, and by nobody else.
"""

from collections.abc import Callable
from typing import Final

from goqueue.cluster import Metadata
from goqueue.cluster.metadata import SecurityTable
from goqueue.quotas import NO_METER, ClientMeter, Meters
from goqueue.runtime import Clock
from goqueue.security import ANONYMOUS, Principal

METERS_MAX: Final = 10_000  # that are remembered
THROTTLE_SECONDS_MAX: Final = 10.0  # at once: a client's requests and sessions must not time out


class Quotas:
    def __init__(self, clock: Clock, metadata: Callable[[], Metadata]) -> None:
        self.clock = clock
        self._metadata = metadata
        self._table: SecurityTable | None = None
        self._version = -1
        self._meters = Meters()
        self._known: dict[tuple[str, str, str], ClientMeter] = {}
        self.throttled: dict[str, int] = {}  # how often somebody had to wait, by quota

    @property
    def are_set(self) -> bool:
        """Whether there are any, also of tenants: without them nobody is counted."""
        table = self._metadata().security
        return bool(table.quotas or table.tenants)

    def meter_of(self, principal: Principal, client_id: str | None) -> ClientMeter:
        """What the client is held to now; `NO_METER` if it is nothing."""
        table = self._metadata().security
        if table is not self._table or table.version != self._version:
            self._table, self._version = table, table.version
            self._known.clear()
        key = principal.name, principal.tenant, client_id or ""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= METERS_MAX:
                self._known.clear()
            found = self._known[key] = self._make(principal, client_id or "")
        return found

    def connection_wait_seconds(self, ip: str) -> float:
        """How long a new connection from there came too early; 0: it may stay."""
        table = self._metadata().security.quotas
        if not table:
            return 0.0
        return self._meters.connection_wait_ns(table, ip, self.clock.instant()) / 1e9

    def note_throttled(self, key: str) -> None:
        self.throttled[key] = self.throttled.get(key, 0) + 1

    def _make(self, principal: Principal, client_id: str) -> ClientMeter:
        table = self._metadata().security
        tenant = table.tenants.get(table.user_tenants.get(principal.name) or principal.tenant)
        if not table.quotas and tenant is None:
            return NO_METER
        user = None if principal is ANONYMOUS else principal.name
        limits = None if tenant is None else (tenant.tenant_id, tenant.quotas.rates)
        return self._meters.meter_of(table.quotas, user, client_id, self.clock.instant(), limits)
