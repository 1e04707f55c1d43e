"""Tenants as administrators see and change them, and who belongs to which.

Users are mapped by name; a token may name its tenant itself.  Whoever belongs to a tenant that is
suspended, disabled or gone does not come in.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
import structlog

from goqueue.broker.cluster.log_sizes import LogSizes
from goqueue.broker.groups.coordinator import Groups
from goqueue.cluster import Metadata
from goqueue.cluster.controller import owner, topics_of
from goqueue.cluster.metadata import SecurityRecord, TenantRemoved, TenantSet, UserTenantSet
from goqueue.groups.errors import GroupMaxSizeReached
from goqueue.model.errors import (
    GoQueueError,
    InvalidRequest,
    TenantExists,
    TenantInUse,
    TenantLimitReached,
    TenantNotFound,
    TenantRefused,
)
from goqueue.model.ids import GroupId
from goqueue.quotas import ACTIVE, SUSPENDED, Namespace, Tenant, owner_of
from goqueue.quotas.tenants import Status
from goqueue.runtime import Clock
from goqueue.security import Principal

Start = Callable[[Coroutine[Any, Any, None]], None]

_log = structlog.get_logger("goqueue.tenants")

USAGE_SECONDS: Final = 5.0  # for which the size of what tenants have stored is remembered


class TenantBroker(Protocol):
    @property
    def metadata(self) -> Metadata: ...
    async def change_security(self, changes: Sequence[SecurityRecord], /) -> None: ...
    async def delete_topic(self, name: str, /) -> Any: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def log_sizes(self) -> LogSizes: ...


class Counts(msgspec.Struct):
    """What a tenant's users did through this node, since it started."""

    messages_published: int = 0
    bytes_published: int = 0
    messages_consumed: int = 0
    bytes_consumed: int = 0
    throttled: int = 0
    connections: int = 0


class Tenants:
    def __init__(self, broker: TenantBroker, clock: Clock, start: Start) -> None:
        """`start` runs work until it ends, or the broker stops."""
        self._broker = broker
        self._start = start
        self._clock = clock
        self._namespaces: dict[str, Namespace] = {}
        self._counts: dict[str, Counts] = {}
        self._stored: dict[str, int] = {}  # bytes of those that have any, as of `_counted_at`
        self._counted_at: int | None = None  # instant
        self._counting = asyncio.Lock()

    # --- who belongs where ------------------------------------------------------------------------

    @property
    def are_set(self) -> bool:
        table = self._broker.metadata.security
        return bool(table.tenants or table.user_tenants)

    def id_of(self, principal: Principal) -> str:
        """The tenant's id; empty: the principal belongs to none."""
        return self._broker.metadata.security.user_tenants.get(principal.name) or principal.tenant

    def of(self, principal: Principal) -> Tenant | None:
        """Raises `TenantRefused` when it may not come in."""
        table = self._broker.metadata.security
        mapped = table.user_tenants.get(principal.name, "")
        if mapped and principal.tenant and mapped != principal.tenant:
            raise TenantRefused(f"{principal} belongs to another tenant than its token says")
        tenant_id = mapped or principal.tenant
        if not tenant_id:
            return None
        tenant = table.tenants.get(tenant_id)
        if tenant is None:
            raise TenantRefused(f"the tenant {tenant_id[:80]!r} of {principal} is gone")
        if tenant.refusal is not None:
            raise TenantRefused(tenant.refusal)
        return tenant

    def namespace_of(self, principal: Principal) -> Namespace | None:
        """Raises `TenantRefused`."""
        tenant = self.of(principal)
        if tenant is None:
            return None
        found = self._namespaces.get(tenant.tenant_id)
        if found is None:
            found = self._namespaces[tenant.tenant_id] = Namespace(tenant.tenant_id)
        return found

    # --- what it uses -----------------------------------------------------------------------------

    def counts_of(self, tenant_id: str) -> Counts:
        return self._counts.setdefault(tenant_id, Counts())

    async def check_storage(self, tenant: Tenant) -> None:
        """Raises `TenantLimitReached` when as much is stored as may be.

        By what was last counted: other nodes are asked, and who publishes does not wait for them.
        Only the first one after a start does.
        """
        limit = tenant.quotas.storage_bytes
        if not limit:
            return
        if self._counted_at is None:
            await self._count_if_old()
        elif self._is_count_old and not self._counting.locked():
            self._start(self._count_again())
        stored = self._stored.get(tenant.tenant_id, 0)
        if stored >= limit:
            raise TenantLimitReached("storage_bytes", f"{stored} bytes, {limit} allowed")

    async def stored_bytes(self, tenant_id: str) -> int:
        """Of its topics, one replica of each partition, as of a moment ago."""
        await self._count_if_old()
        return self._stored.get(tenant_id, 0)

    @property
    def _is_count_old(self) -> bool:
        now = self._clock.instant()
        return self._counted_at is None or now - self._counted_at > USAGE_SECONDS * 1e9

    async def _count_if_old(self) -> None:
        async with self._counting:
            if self._is_count_old:
                self._stored = await self._count_stored()
                self._counted_at = self._clock.instant()

    def last_stored_bytes(self, tenant_id: str) -> int:
        """As of when somebody last asked."""
        return self._stored.get(tenant_id, 0)

    async def _count_again(self) -> None:
        try:
            await self._count_if_old()
        except GoQueueError as error:
            _log.warning("what tenants have stored was not counted", error=str(error))
            self._counted_at = self._clock.instant()  # the old numbers hold until the next time

    async def _count_stored(self) -> dict[str, int]:
        found: dict[str, int] = {}
        sizes, metadata = await self._broker.log_sizes.by_partition(), self._broker.metadata
        for (topic_id, _), size in sizes.items():
            if metadata.has_id(topic_id):
                tenant = owner_of(metadata.topic_by_id(topic_id).name)
                if tenant in metadata.security.tenants:
                    found[tenant] = found.get(tenant, 0) + size
        return found

    def check_join(self, group_id: str, member_id: str) -> None:
        """Of a tenant's group; raises `GroupMaxSizeReached`.  Each coordinator counts its own."""
        tenant = owner(self._broker.metadata, group_id)
        if tenant is None:
            return
        quotas, holds = tenant.quotas, Namespace(tenant.tenant_id).holds
        groups, own_id = self._broker.groups, GroupId(group_id)
        if not groups.coordinates(own_id):
            return  # it says so itself
        listed = {each.group_id for each in groups.list_groups() if holds(each.group_id)}
        if own_id not in listed:
            if quotas.groups and len(listed) >= quotas.groups:
                raise GroupMaxSizeReached(
                    f"the tenant's limit groups is reached: {quotas.groups} are allowed"
                )
            return
        members = {each.member_id for each in groups.describe_ahead(own_id).members}
        limit = quotas.consumers_per_group
        if limit and member_id not in members and len(members) >= limit:
            raise GroupMaxSizeReached(
                f"the tenant's limit consumers_per_group is reached: {limit} are allowed"
            )

    # --- changes ----------------------------------------------------------------------------------

    def get(self, tenant_id: str) -> Tenant:
        found = self._broker.metadata.security.tenants.get(tenant_id)
        if found is None:
            raise TenantNotFound(f"there is no tenant {tenant_id[:80]!r}")
        return found

    def describe_all(self) -> list[Tenant]:
        return sorted(
            self._broker.metadata.security.tenants.values(), key=lambda each: each.tenant_id
        )

    def users_of(self, tenant_id: str) -> list[str]:
        found = self._broker.metadata.security.user_tenants.items()
        return sorted(user for user, each in found if each == tenant_id)

    async def create(self, tenant: Tenant) -> Tenant:
        if tenant.tenant_id in self._broker.metadata.security.tenants:
            raise TenantExists(f"there is a tenant {tenant.tenant_id!r} already")
        now = self._clock.now()
        made = msgspec.structs.replace(tenant, created_at=now, updated_at=now)
        await self._broker.change_security([TenantSet(made)])
        return made

    async def update(self, tenant_id: str, changes: Mapping[str, Any]) -> Tenant:
        """What is not named stays as it is."""
        return await self._change(tenant_id, lambda each: msgspec.structs.replace(each, **changes))

    async def update_quotas(self, tenant_id: str, changes: Mapping[str, int]) -> Tenant:
        """What is not named stays as it is."""

        def change(tenant: Tenant) -> Tenant:
            quotas = msgspec.structs.replace(tenant.quotas, **changes)
            return msgspec.structs.replace(tenant, quotas=quotas)

        return await self._change(tenant_id, change)

    async def set_status(self, tenant_id: str, status: Status, reason: str = "") -> Tenant:
        if status == SUSPENDED and not reason.strip():
            raise InvalidRequest("say why the tenant is suspended: its users are told so")
        at = 0 if status == ACTIVE else self._clock.now()
        changes = {"status": status, "reason": reason, "suspended_at": at}
        return await self.update(tenant_id, changes)

    async def remove(self, tenant_id: str, *, force: bool = False) -> int:
        """With `force` its topics go too; gives how many.  Its users stay locked out."""
        self.get(tenant_id)
        topics = topics_of(self._broker.metadata, tenant_id)
        if topics and not force:
            raise TenantInUse(
                f"the tenant {tenant_id} has {len(topics)} topics: delete them, or force it"
            )
        if topics:
            await self.set_status(tenant_id, "disabled", "it is being deleted")
        for topic in topics:
            await self._broker.delete_topic(topic.name)
        await self._broker.change_security([TenantRemoved(tenant_id)])
        return len(topics)

    async def set_user(self, user: str, tenant_id: str) -> None:
        """An empty id takes the user out."""
        await self._broker.change_security([UserTenantSet(user, tenant_id)])

    async def _change(self, tenant_id: str, change: Callable[[Tenant], Tenant]) -> Tenant:
        changed = change(self.get(tenant_id))
        changed = msgspec.structs.replace(changed, updated_at=self._clock.now())
        await self._broker.change_security([TenantSet(changed)])
        return changed
