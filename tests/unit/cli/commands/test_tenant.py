"""`goqueue tenant`: spaces of names with limits of their own."""

import pytest

from tests.unit.cli.invocation import facts, run


@pytest.mark.usefixtures("guarded")
def test_a_tenants_life():
    quotas = ("--quota", "storage_bytes=1GiB", "--quota", "retention_ms=2d", "--quota", "topics=0")
    made = facts("tenant", "create", "acme", "--name", "Acme", *quotas)
    assert made["quotas"]["storage_bytes"] == 2**30
    assert made["quotas"]["retention_ms"] == 2 * 86_400_000
    assert made["quotas"]["topics"] == 0
    run("tenant", "create", "acme", code=5)
    assert facts("tenant", "update", "acme", "--quota", "groups=3")["quotas"]["topics"] == 0
    facts("tenant", "add-user", "acme", "wile")
    assert facts("tenant", "show", "acme")["users"] == ["wile"]
    assert "no limit" in run("tenant", "show", "acme", "-o", "table", code=0).stdout
    assert "wile" in run("tenant", "list", "-o", "table", code=0).stdout
    facts("tenant", "remove-user", "acme", "wile")
    assert facts("tenant", "suspend", "acme", "--reason", "unpaid")["status"] == "suspended"
    assert [each["id"] for each in facts("tenant", "list", "--status", "suspended")] == ["acme"]
    assert facts("tenant", "activate", "acme")["status"] == "active"
    assert facts("tenant", "disable", "acme")["status"] == "disabled"
    assert facts("tenant", "usage", "acme")["topics"] == 0
    assert facts("tenant", "stats", "acme")["topics_percent"] is None
    assert facts("tenant", "topics", "acme") == []
    facts("tenant", "delete", "acme", "--force")
    run("tenant", "show", "acme", code=4)


@pytest.mark.usefixtures("guarded")
def test_what_is_wrong_is_told():
    run("tenant", "create", "A", code=2)
    run("tenant", "create", "abc", "--quota", "topics=many", code=2)
    run("tenant", "create", "abc", "--quota", "unknown=1", code=2)
    run("tenant", "suspend", "abc", code=2)
