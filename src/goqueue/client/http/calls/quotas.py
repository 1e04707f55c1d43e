"""Every request about quotas."""

from collections.abc import Mapping

from goqueue.api.quotas import QuotaBody, QuotaChange, QuotaList
from goqueue.client.http.calls.call import Call, change, get


def quotas(
    *, user: str | None = None, client_id: str | None = None, ip: str | None = None
) -> Call[list[QuotaBody]]:
    """Those that match all that is given; `<default>` is whoever has none of its own."""
    query = {"user": user, "client_id": client_id, "ip": ip}
    return get("/admin/quotas", QuotaList, query).then(lambda found: found.quotas)


def set_quotas(
    quotas: Mapping[str, float | None],
    *,
    user: str | None = None,
    client_id: str | None = None,
    ip: str | None = None,
) -> Call[QuotaBody]:
    """Rates a second, by name; None removes one.  Gives all that there are then."""
    body = QuotaChange(dict(quotas), user, client_id, ip)
    return change("PATCH", "/admin/quotas", QuotaBody, body, is_repeatable=True)


def delete_quotas(
    *, user: str | None = None, client_id: str | None = None, ip: str | None = None
) -> Call[QuotaBody]:
    """Gives those that there were."""
    given = {"user": user, "client_id": client_id, "ip": ip}
    query = {name: each for name, each in given.items() if each is not None}
    return change("DELETE", "/admin/quotas", QuotaBody, query=query)
