"""Every request about tenants."""

from collections.abc import Mapping

from goqueue.api.tenants import (
    TenantBody,
    TenantDeleted,
    TenantList,
    TenantStats,
    TenantStatus,
    TenantTopics,
    TenantUsage,
    TenantUser,
)
from goqueue.client.http.calls.call import Call, change, get, path_of, post

Limits = Mapping[str, int | str]


def _path(tenant: str, *more: str) -> str:
    return path_of("admin", "tenants", tenant, *more)


def tenants(*, status: TenantStatus | None = None) -> Call[list[TenantBody]]:
    call = get("/admin/tenants", TenantList, {"status": status})
    return call.then(lambda found: found.tenants)


def tenant(tenant_id: str) -> Call[TenantBody]:
    return get(_path(tenant_id), TenantBody)


def create_tenant(
    tenant_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    quotas: Limits | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Call[TenantBody]:
    """Limits that are not given are the defaults; 0 is no limit."""
    body = {
        "id": tenant_id,
        "name": name,
        "description": description,
        "quotas": quotas,
        "metadata": metadata,
    }
    return post("/admin/tenants", TenantBody, body)


def change_tenant(
    tenant_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    quotas: Limits | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Call[TenantBody]:
    """What is not given stays as it is."""
    body = {"name": name, "description": description, "quotas": quotas, "metadata": metadata}
    return change("PATCH", _path(tenant_id), TenantBody, body, is_repeatable=True)


def suspend_tenant(tenant_id: str, reason: str) -> Call[TenantBody]:
    """Its users are logged out, and told why."""
    return post(_path(tenant_id, "suspend"), TenantBody, {"reason": reason}, is_repeatable=True)


def activate_tenant(tenant_id: str) -> Call[TenantBody]:
    return post(_path(tenant_id, "activate"), TenantBody, is_repeatable=True)


def disable_tenant(tenant_id: str) -> Call[TenantBody]:
    return post(_path(tenant_id, "disable"), TenantBody, is_repeatable=True)


def delete_tenant(tenant_id: str, *, force: bool = False) -> Call[TenantDeleted]:
    """With `force` its topics are deleted, too."""
    query = {"force": "true"} if force else {}
    return change("DELETE", _path(tenant_id), TenantDeleted, query=query)


def tenant_usage(tenant_id: str) -> Call[TenantUsage]:
    return get(_path(tenant_id, "usage"), TenantUsage)


def tenant_stats(tenant_id: str) -> Call[TenantStats]:
    return get(_path(tenant_id, "stats"), TenantStats)


def tenant_topics(tenant_id: str) -> Call[list[str]]:
    """As the tenant's users know them."""
    return get(_path(tenant_id, "topics"), TenantTopics).then(lambda found: found.topics)


def add_tenant_user(tenant_id: str, user: str) -> Call[TenantUser]:
    """Before the user is made."""
    return change("PUT", _path(tenant_id, "users", user), TenantUser, is_repeatable=True)


def remove_tenant_user(tenant_id: str, user: str) -> Call[TenantUser]:
    """One that has no password, roles or keys any more."""
    return change("DELETE", _path(tenant_id, "users", user), TenantUser)
