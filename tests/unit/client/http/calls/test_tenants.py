"""Requests about tenants."""

import msgspec

from goqueue.api.tenants import (
    TenantBody,
    TenantDeleted,
    TenantList,
    TenantQuotasBody,
    TenantTopics,
    TenantUser,
)
from tests.unit.client.http.fake_server import FakeServer, client_of, said

QUOTAS = TenantQuotasBody(*range(15))
ACME = TenantBody("acme", "", "", "active", None, None, None, None, QUOTAS, {}, [])


def test_a_tenants_life():
    server = FakeServer(
        said(201, ACME),
        said(200, ACME),
        said(200, TenantList([ACME], 1)),
        *(said(200, ACME) for _ in range(4)),
        said(200, TenantDeleted("acme", True, 0)),
    )
    client = client_of(server)
    client.create_tenant("acme", quotas={"topics": 3})
    client.change_tenant("acme", name="Acme")
    assert client.tenants(status="active") == [ACME]
    client.tenant("acme")
    client.suspend_tenant("acme", "unpaid")
    client.activate_tenant("acme")
    client.disable_tenant("acme")
    assert client.delete_tenant("acme", force=True).deleted
    bodies = [msgspec.json.decode(each.content) for each in server.requests[:2]]
    assert bodies == [{"id": "acme", "quotas": {"topics": 3}}, {"name": "Acme"}]
    assert msgspec.json.decode(server.requests[4].content) == {"reason": "unpaid"}
    assert dict(server.requests[7].url.params) == {"force": "true"}


def test_users_and_topics():
    server = FakeServer(
        said(200, TenantUser("ann", "acme")),
        said(200, TenantUser("ann", None)),
        said(200, TenantTopics("acme", ["t"])),
    )
    client = client_of(server)
    client.add_tenant_user("acme", "ann")
    client.remove_tenant_user("acme", "ann")
    assert client.tenant_topics("acme") == ["t"]
    assert [each.method for each in server.requests] == ["PUT", "DELETE", "GET"]
