"""The connections of tenants' clients: how many there are, and who may not stay."""

from goqueue.broker.tenants import Tenants
from goqueue.model.errors import TenantLimitReached, TenantRefused
from goqueue.quotas import Namespace
from goqueue.security import Principal
from goqueue.server.address_counts import AddressCounts
from goqueue.server.kafka.connection import KafkaConnection
from goqueue.wire.errors import MalformedRequest


class TenantConnections:
    """Of one listener."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._counts = AddressCounts()

    def admit(self, connection: KafkaConnection, principal: Principal) -> None:
        """Who logs in; raises `TenantRefused` or `TenantLimitReached`."""
        tenant = self._tenants.of(principal)
        if tenant is None:
            return
        limit, count = tenant.quotas.connections, self._counts.of(tenant.tenant_id)
        if limit and count >= limit:
            raise TenantLimitReached("connections", f"{count} connections, {limit} allowed")
        self._counts.add(tenant.tenant_id)
        self._tenants.counts_of(tenant.tenant_id).connections = count + 1
        connection.tenant_id = tenant.tenant_id

    def forget(self, connection: KafkaConnection) -> None:
        tenant_id = connection.tenant_id
        if tenant_id:
            connection.tenant_id = ""
            self._counts.remove(tenant_id)
            self._tenants.counts_of(tenant_id).connections = self._counts.of(tenant_id)

    def find_refusal(self, connection: KafkaConnection) -> str | None:
        """Why it may not stay, if so: its tenant was suspended, or its user moved."""
        principal = connection.principal
        if principal is None:
            return None
        try:
            tenant = self._tenants.of(principal)
        except TenantRefused as error:
            return str(error)
        is_same = (tenant.tenant_id if tenant else "") == connection.tenant_id
        return None if is_same else f"{principal} belongs to another tenant now"

    def namespace_of(self, connection: KafkaConnection) -> Namespace | None:
        """None: it sees all names as they are.  Ends a connection that may not stay."""
        principal = connection.principal
        if principal is None or not (self._tenants.are_set or principal.tenant):
            return None
        refusal = self.find_refusal(connection)
        if refusal is not None:
            raise MalformedRequest(refusal)
        return self._tenants.namespace_of(principal)
