"""Tenants; for administrators."""

from typing import Annotated, Any

import msgspec
from litestar.params import JSONBody, PathParameter

from goqueue.api.tenants import (
    ChangeTenant,
    CreateTenant,
    SuspendTenant,
    TenantBody,
    TenantDeleted,
    TenantList,
    TenantOnNode,
    TenantQuotasBody,
    TenantQuotasChange,
    TenantStats,
    TenantStatus,
    TenantTopics,
    TenantUsage,
    TenantUser,
)
from goqueue.broker import Broker
from goqueue.broker.cluster.other_nodes import Verb
from goqueue.broker.tenants import Counts
from goqueue.cluster.controller import topics_of
from goqueue.model.times import time_text
from goqueue.quotas import Namespace, Tenant, TenantQuotas
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.gathering import answers, gather
from goqueue.server.http.routes.family import Routes, query

routes = Routes(
    "tenants",
    {
        404: "No such tenant.",
        409: "It exists already, or has topics or users.",
        422: "There are as many as are kept.",
    },
)

TenantPath = Annotated[str, PathParameter(description="The tenant's id.", max_length=64)]
UserPath = Annotated[str, PathParameter(description="The user's name.", max_length=200)]


@routes.get("/admin/tenants", "List the tenants")
async def list_tenants(
    broker: TheBroker,
    status: Annotated[TenantStatus | None, query("Only those of this status.")] = None,
) -> TenantList:
    found = [_body(broker, each) for each in broker.tenants.describe_all()]
    shown = [each for each in found if status in (None, each.status)]
    return TenantList(shown, len(shown))


@routes.post("/admin/tenants", "Create a tenant", 409, 422, status_code=201)
async def create_tenant(broker: TheBroker, data: JSONBody[CreateTenant]) -> TenantBody:
    """Limits that are not given are the defaults; 0 is no limit."""
    tenant = Tenant(
        tenant_id=data.id,
        name=data.name,
        description=data.description,
        quotas=msgspec.structs.replace(TenantQuotas(), **_list_given(data.quotas)),
        metadata=data.metadata,
    )
    return _body(broker, await broker.tenants.create(tenant))


@routes.get("/admin/tenants/{tenant:str}", "Show a tenant", 404)
async def get_tenant(broker: TheBroker, tenant: TenantPath) -> TenantBody:
    return _body(broker, broker.tenants.get(tenant))


@routes.patch("/admin/tenants/{tenant:str}", "Change a tenant", 404)
async def change_tenant(
    broker: TheBroker, tenant: TenantPath, data: JSONBody[ChangeTenant]
) -> TenantBody:
    """What is not given stays as it is, also among the limits."""
    fields = {"name": data.name, "description": data.description, "metadata": data.metadata}
    changes = {name: each for name, each in fields.items() if each is not None}
    if data.quotas is not None:
        await broker.tenants.update_quotas(tenant, _list_given(data.quotas))
    return _body(broker, await broker.tenants.update(tenant, changes))


@routes.delete("/admin/tenants/{tenant:str}", "Delete a tenant", 404, 409)
async def delete_tenant(
    broker: TheBroker,
    tenant: TenantPath,
    force: Annotated[bool, query("Also when it has topics: they are deleted.")] = False,
) -> TenantDeleted:
    """Its users stay locked out, until they are deleted or moved to another tenant."""
    count = await broker.tenants.remove(tenant, force=force)
    return TenantDeleted(tenant, True, count)


@routes.post("/admin/tenants/{tenant:str}/suspend", "Suspend a tenant", 404)
async def suspend_tenant(
    broker: TheBroker, tenant: TenantPath, data: JSONBody[SuspendTenant]
) -> TenantBody:
    """Its users are logged out, and told why."""
    return _body(broker, await broker.tenants.set_status(tenant, "suspended", data.reason))


@routes.post("/admin/tenants/{tenant:str}/activate", "Activate a tenant", 404)
async def activate_tenant(broker: TheBroker, tenant: TenantPath) -> TenantBody:
    return _body(broker, await broker.tenants.set_status(tenant, "active"))


@routes.post("/admin/tenants/{tenant:str}/disable", "Disable a tenant", 404)
async def disable_tenant(broker: TheBroker, tenant: TenantPath) -> TenantBody:
    """Its users are logged out; its data stays."""
    return _body(broker, await broker.tenants.set_status(tenant, "disabled"))


@routes.get("/admin/tenants/{tenant:str}/quotas", "Show a tenant's limits", 404)
async def get_tenant_quotas(broker: TheBroker, tenant: TenantPath) -> TenantQuotasBody:
    return _quotas(broker.tenants.get(tenant))


@routes.put("/admin/tenants/{tenant:str}/quotas", "Change a tenant's limits", 404)
async def put_tenant_quotas(
    broker: TheBroker, tenant: TenantPath, data: JSONBody[TenantQuotasChange]
) -> TenantQuotasBody:
    """What is not given stays as it is."""
    return _quotas(await broker.tenants.update_quotas(tenant, _list_given(data)))


@routes.get("/admin/tenants/{tenant:str}/usage", "What a tenant uses", 404)
async def get_tenant_usage(broker: TheBroker, tenant: TenantPath) -> TenantUsage:
    return await _usage(broker, broker.tenants.get(tenant))


@routes.get("/admin/tenants/{tenant:str}/stats", "How much of its limits a tenant uses", 404)
async def get_tenant_stats(broker: TheBroker, tenant: TenantPath) -> TenantStats:
    """Connections of the node that has the most: each node counts its own."""
    found = broker.tenants.get(tenant)
    used, quotas = await _usage(broker, found), found.quotas
    return TenantStats(
        tenant,
        _percent(used.storage_bytes, quotas.storage_bytes),
        _percent(used.topics, quotas.topics),
        _percent(used.partitions, quotas.partitions),
        _percent(max(each.connections for each in used.nodes), quotas.connections),
    )


@routes.get("/admin/tenants/{tenant:str}/topics", "A tenant's topics", 404)
async def get_tenant_topics(broker: TheBroker, tenant: TenantPath) -> TenantTopics:
    broker.tenants.get(tenant)
    out = Namespace(tenant).out
    return TenantTopics(
        tenant, sorted(out(each.name) for each in topics_of(broker.metadata, tenant))
    )


@routes.put("/admin/tenants/{tenant:str}/users/{user:str}", "Put a user into a tenant", 404)
async def put_tenant_user(broker: TheBroker, tenant: TenantPath, user: UserPath) -> TenantUser:
    """Before the user is made: without a tenant it would see what belongs to none."""
    await broker.tenants.set_user(user, tenant)
    return TenantUser(user, tenant)


@routes.delete("/admin/tenants/{tenant:str}/users/{user:str}", "Take a user out", 404, 409)
async def delete_tenant_user(broker: TheBroker, tenant: TenantPath, user: UserPath) -> TenantUser:
    """One that has no password, roles or keys any more."""
    if broker.metadata.security.user_tenants.get(user) == tenant:
        await broker.tenants.set_user(user, "")
    return TenantUser(user, None)


def _list_given(change: TenantQuotasChange) -> dict[str, Any]:
    found = msgspec.structs.asdict(change)
    return {name: each for name, each in found.items() if each is not None}


def _quotas(tenant: Tenant) -> TenantQuotasBody:
    return TenantQuotasBody(**msgspec.structs.asdict(tenant.quotas))


def _body(broker: Broker, tenant: Tenant) -> TenantBody:
    return TenantBody(
        tenant.tenant_id,
        tenant.name,
        tenant.description,
        tenant.status,
        time_text(tenant.created_at),
        time_text(tenant.updated_at),
        time_text(tenant.suspended_at) if tenant.suspended_at else None,
        tenant.reason or None,
        _quotas(tenant),
        tenant.metadata,
        broker.tenants.users_of(tenant.tenant_id),
    )


class TenantCountsHere(Verb[Counts], frozen=True):
    """What a tenant's users did through a node."""

    name = "tenant_counts"
    reply_type = Counts

    tenant_id: str


@answers(TenantCountsHere)
async def _count_here(broker: Broker, verb: TenantCountsHere) -> Counts:
    return broker.tenants.counts_of(verb.tenant_id)


async def _usage(broker: Broker, tenant: Tenant) -> TenantUsage:
    live = () if broker.others is None else broker.others.live
    nodes = sorted({broker.node_id, *live})
    counts = await gather(
        broker, dict.fromkeys(nodes, ()), lambda _: TenantCountsHere(tenant.tenant_id)
    )
    topics = topics_of(broker.metadata, tenant.tenant_id)

    def add_up(name: str) -> int:
        return sum(getattr(each, name) for each in counts)

    return TenantUsage(
        tenant.tenant_id,
        add_up("messages_published"),
        add_up("bytes_published"),
        add_up("messages_consumed"),
        add_up("bytes_consumed"),
        add_up("throttled"),
        add_up("connections"),
        await broker.tenants.stored_bytes(tenant.tenant_id),
        len(topics),
        sum(each.partitions for each in topics),
        [
            TenantOnNode(
                node_id,
                each.messages_published,
                each.messages_consumed,
                each.throttled,
                each.connections,
            )
            for node_id, each in zip(nodes, counts, strict=True)
        ],
    )


def _percent(used: int, limit: int) -> float | None:
    return round(100 * used / limit, 2) if limit else None
