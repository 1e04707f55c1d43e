"""`goqueue acl`: Kafka's words for who may do what."""

import pytest

from goqueue.cli.commands.acl import operation_of, principal_of
from goqueue.cli.failures import UsageFailure
from tests.unit.cli.invocation import facts, run

OF_CARL = ("--principal", "User:carl")


@pytest.mark.usefixtures("guarded")
def test_entries_are_added_for_each_operation_and_resource_listed_and_removed():
    what = (*OF_CARL, "--operation", "Read", "--operation", "describe", "--topic", "car")
    added = facts("acl", "add", *what, "--group", "g", "--prefixed")
    assert len(added) == 4
    assert {each["pattern"] for each in added} == {"prefixed"}
    facts("acl", "add", *OF_CARL, "--operation", "write", "--topic", "cars", "--deny")
    found = facts("acl", "list", *OF_CARL, "--topic", "cars", "--operation", "write")
    assert [(each["permission"], each["resource_name"]) for each in found] == [("deny", "cars")]
    assert len(facts("acl", "list", *OF_CARL, "--topic", "cars", "--group", "ggg")) == 5
    assert "PRINCIPAL" in run("acl", "list", "-o", "table", code=0).stdout
    removed = facts("acl", "remove", *what, "--prefixed", "--force")
    assert {each["resource_type"] for each in removed} == {"topic"}
    run("acl", "remove", *what, "--prefixed", "--force", code=4)
    assert len(facts("acl", "list", *OF_CARL)) == 3


@pytest.mark.usefixtures("guarded")
def test_of_the_cluster_there_is_one():
    (added,) = facts(
        "acl", "add", "--principal", "dora", "--operation", "alter-configs", "--cluster"
    )
    assert (added["resource_name"], added["pattern"]) == ("kafka-cluster", "literal")


@pytest.mark.usefixtures("guarded")
def test_what_is_missing_or_unknown_is_told():
    missing = run("acl", "add", "--topic", "t", code=2).stderr
    assert "--principal; --operation" in missing
    run("acl", "add", *OF_CARL, "--operation", "read", code=2)
    known = run("acl", "add", *OF_CARL, "--operation", "fly", "--topic", "t", code=2).stderr
    assert "describe-configs" in known
    run("acl", "add", *OF_CARL, "--operation", "write", "--group", "g", code=2)


def test_operations_and_principals_as_people_write_them():
    for text in ("DescribeConfigs", "describe-configs", "DESCRIBE_CONFIGS"):
        assert operation_of(text) == "describe_configs"
    with pytest.raises(UsageFailure):
        operation_of("")
    assert principal_of("bob") == principal_of("User:bob") == "User:bob"
