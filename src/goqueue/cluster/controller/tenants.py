"""Tenants: what may be set, and what a tenant's topics may be."""

from collections.abc import Iterator, Mapping
from typing import Final

from goqueue.cluster.metadata import (
    Metadata,
    TenantRemoved,
    TenantSet,
    Topic,
    UserTenantSet,
)
from goqueue.model.errors import (
    InvalidRequest,
    PolicyViolation,
    TenantInUse,
    TenantLimitReached,
    TenantNotFound,
)
from goqueue.quotas import Namespace, Tenant, owner_of

TENANTS_MAX: Final = 1_000
NO_LIMIT: Final = -1
DLQ_SUFFIX: Final = ".dlq"

TenantRecord = TenantSet | TenantRemoved | UserTenantSet


def decide_tenants(metadata: Metadata, change: TenantRecord) -> Iterator[TenantRecord]:
    """What is to be written; nothing if it is so already."""
    table = metadata.security
    match change:
        case TenantSet():
            tenant = change.tenant.check()
            if tenant.tenant_id not in table.tenants:
                _check_new(metadata, tenant)
            if table.tenants.get(tenant.tenant_id) != tenant:
                yield change
        case TenantRemoved():
            if change.tenant_id not in table.tenants:
                raise TenantNotFound(f"there is no tenant {change.tenant_id[:80]!r}")
            if topics_of(metadata, change.tenant_id):
                raise TenantInUse(f"the tenant {change.tenant_id} has topics: delete them first")
            yield change
        case UserTenantSet():
            yield from _decide_user(metadata, change)


def _check_new(metadata: Metadata, tenant: Tenant) -> None:
    if len(metadata.security.tenants) >= TENANTS_MAX:
        raise PolicyViolation(f"there are {TENANTS_MAX} tenants already: remove some")
    if topics_of(metadata, tenant.tenant_id):
        raise TenantInUse(
            f"there are topics that begin with {tenant.tenant_id!r} and a dot, which the tenant"
            " would get: choose another id"
        )


def _decide_user(metadata: Metadata, change: UserTenantSet) -> Iterator[UserTenantSet]:
    """Who leaves a tenant would see all that has none: only a name that nobody can use leaves."""
    table, user = metadata.security, change.user
    if change.tenant_id and change.tenant_id not in table.tenants:
        raise TenantNotFound(f"there is no tenant {change.tenant_id[:80]!r}")
    if not user or len(user.encode()) > 200:
        raise InvalidRequest("a user's name has 1 to 200 bytes")
    if table.user_tenants.get(user, "") == change.tenant_id:
        return
    has_key = any(key.user == user for key in table.api_keys.values())
    if not change.tenant_id and (user in table.users or has_key):
        raise TenantInUse(
            f"the user {user!r} has a password, roles or API keys, and would be nobody's:"
            " delete them first, or move it to another tenant"
        )
    yield change


def topics_of(metadata: Metadata, tenant_id: str) -> list[Topic]:
    holds = Namespace(tenant_id).holds
    return [topic for name, topic in metadata.topics.items() if holds(name)]


# --- a tenant's topics ----------------------------------------------------------------------------


def owner(metadata: Metadata, name: str) -> Tenant | None:
    """The tenant whose name it is."""
    tenants = metadata.security.tenants
    return tenants.get(owner_of(name)) if tenants else None


def owner_id(metadata: Metadata, name: str) -> str:
    """The id of that tenant; empty: the name is nobody's."""
    found = owner(metadata, name)
    return "" if found is None else found.tenant_id


def is_dead_letters(metadata: Metadata, name: str) -> bool:
    """Of a topic that is there: the broker makes it, and it takes no room of others."""
    return name.endswith(DLQ_SUFFIX) and metadata.find(name.removesuffix(DLQ_SUFFIX)) is not None


def check_room(metadata: Metadata, name: str, partitions: int, added: int, topics: int) -> None:
    """For a topic that will have `partitions`, of which so many are new.

    Raises `TenantLimitReached`.
    """
    tenant = owner(metadata, name)
    if tenant is None or is_dead_letters(metadata, name):
        return
    quotas, there = tenant.quotas, topics_of(metadata, tenant.tenant_id)
    total = sum(each.partitions for each in there) + added
    for limit, count, what in (
        (quotas.topics, len(there) + topics, "topics"),
        (quotas.partitions_per_topic, partitions, "partitions_per_topic"),
        (quotas.partitions, total, "partitions"),
    ):
        if limit and count > limit:
            raise TenantLimitReached(what, f"{count} {what.replace('_', ' ')}, {limit} allowed")


def limit_settings(
    metadata: Metadata, name: str, settings: Mapping[str, str], given: Mapping[str, str | None]
) -> dict[str, str]:
    """The settings of a tenant's topic: what was not given is cut to the limit.

    Raises `TenantLimitReached` for what was.
    """
    kept, tenant = dict(settings), owner(metadata, name)
    if tenant is None:
        return kept
    quotas, found = tenant.quotas, metadata.settings_of(kept, 1)
    for limit, value, setting, what in (
        (quotas.retention_ms, found.retention_ms, "retention.ms", "retention_ms"),
        (quotas.message_bytes, found.max_message_bytes, "max.message.bytes", "message_bytes"),
    ):
        if limit and (value > limit or value == NO_LIMIT):
            if given.get(setting) is not None and not is_dead_letters(metadata, name):
                raise TenantLimitReached(what, f"{setting} is {value}, {limit} allowed")
            kept[setting] = str(limit)
    return kept


def check_delay(metadata: Metadata, name: str, delay_ms: int) -> None:
    """Of a message for a topic; raises `TenantLimitReached`."""
    tenant = owner(metadata, name)
    limit = tenant.quotas.delay_ms if tenant is not None else 0
    if limit and delay_ms > limit:
        raise TenantLimitReached("delay_ms", f"a delay of {delay_ms} ms, {limit} allowed")
