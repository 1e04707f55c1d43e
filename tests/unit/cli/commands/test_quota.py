"""`goqueue quota`: rates as people write them."""

import pytest

from tests.unit.cli.invocation import facts, run


@pytest.mark.usefixtures("guarded")
def test_quotas_are_set_listed_and_deleted():
    ann = ("--user", "ann")
    (made,) = facts("quota", "set", *ann, "producer_byte_rate=1MiB", "request_rate=2.5")
    assert made["quotas"] == {"producer_byte_rate": 1048576.0, "request_rate": 2.5}
    facts("quota", "set", *ann, "--client-id", "<default>", "request_rate=1")
    assert len(facts("quota", "list", *ann)) == 2
    assert "producer_byte_rate" in run("quota", "list", "-o", "table", code=0).stdout
    (left,) = facts("quota", "delete", *ann, "request_rate", "--force")
    assert left["quotas"] == {"producer_byte_rate": 1048576.0}
    facts("quota", "delete", *ann, "--force")
    run("quota", "delete", *ann, "--force", code=4)
    assert len(facts("quota", "list", *ann)) == 1
    facts("quota", "delete", *ann, "--client-id", "<default>", "--force")


@pytest.mark.usefixtures("guarded")
def test_what_is_missing_or_wrong_is_told():
    assert "--user" in run("quota", "set", "request_rate=1", code=2).stderr
    run("quota", "set", "--user", "ann", "request_rate", code=2)
    run("quota", "set", "--user", "ann", "producer_byte_rate=much", code=2)
    unknown = run("quota", "set", "--user", "ann", "request_percentage=5", code=2).stderr
    assert "request_rate" in unknown
