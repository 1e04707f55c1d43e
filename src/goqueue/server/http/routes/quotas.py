"""Quotas of users, client ids and IP addresses."""

from typing import Annotated

from litestar.params import JSONBody

from goqueue.api.quotas import DEFAULT, QuotaBody, QuotaChange, QuotaList
from goqueue.cluster.metadata import ClientQuotasChanged
from goqueue.quotas import ANY, QuotaEntity
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.family import Routes, query

routes = Routes("quotas", {422: "There are as many quotas as are kept."})

UserQuery = Annotated[str | None, query("Only of this user; `<default>` is all others.")]
ClientQuery = Annotated[str | None, query("Only of this client id; `<default>` is all others.")]
IpQuery = Annotated[str | None, query("Only of this IP address; `<default>` is all others.")]


@routes.get("/admin/quotas", "List quotas")
async def list_quotas(
    broker: TheBroker, user: UserQuery = None, client_id: ClientQuery = None, ip: IpQuery = None
) -> QuotaList:
    wanted = _entity(user, client_id, ip)
    found = [
        _body(entity, dict(rates))
        for entity, rates in broker.metadata.security.quotas.items()
        if wanted.user in (None, entity.user)
        and wanted.client_id in (None, entity.client_id)
        and wanted.ip in (None, entity.ip)
    ]
    return QuotaList(found, len(found))


@routes.patch("/admin/quotas", "Set quotas, or remove some", 422)
async def change_quotas(broker: TheBroker, data: JSONBody[QuotaChange]) -> QuotaBody:
    """They count from the next request on.  Gives all quotas of that user, client id or address."""
    entity = _entity(data.user, data.client_id, data.ip).check()
    await broker.change_security([ClientQuotasChanged(entity, dict(data.quotas))])
    return _body(entity, dict(broker.metadata.security.quotas.get(entity, {})))


@routes.delete("/admin/quotas", "Remove all quotas of a user, client id or address")
async def delete_quotas(
    broker: TheBroker, user: UserQuery = None, client_id: ClientQuery = None, ip: IpQuery = None
) -> QuotaBody:
    """Gives those that there were."""
    entity = _entity(user, client_id, ip).check()
    there = dict(broker.metadata.security.quotas.get(entity, {}))
    if there:
        await broker.change_security([ClientQuotasChanged(entity, dict.fromkeys(there))])
    return _body(entity, there)


def _entity(user: str | None, client_id: str | None, ip: str | None) -> QuotaEntity:
    return QuotaEntity(*(ANY if each == DEFAULT else each for each in (user, client_id, ip)))


def _body(entity: QuotaEntity, rates: dict[str, float]) -> QuotaBody:
    names = entity.user, entity.client_id, entity.ip
    return QuotaBody(rates, *(DEFAULT if each == ANY else each for each in names))
