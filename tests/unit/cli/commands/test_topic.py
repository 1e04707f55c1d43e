"""`goqueue topic`: topics are created, shown, changed and deleted."""

import pytest

from goqueue.embedding import BrokerInThread
from tests.unit.cli.invocation import facts, run


@pytest.mark.parametrize(
    "arguments",
    [
        ("create",),
        ("list", "--output", "xml"),
        ("create", "t", "--set", "retention.ms"),
        ("alter", "t"),
        ("delete", "t"),
        ("list", "-c", "nowhere"),
    ],
)
def test_what_makes_no_sense_ends_with_2(arguments: tuple[str, ...]):
    result = run("topic", *arguments, code=2)
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("server")
def test_the_life_of_a_topic():
    made = facts("topic", "create", "life", "-p", 2, "--set", "retention.ms=7d")
    assert made == {"name": "life", "partitions": 2, "created": True}
    assert facts("topic", "create", "life", "--if-not-exists")["created"] is False
    run("topic", "create", "life", code=5)
    assert facts("topic", "add-partitions", "life", "-p", 3)["partitions_before"] == 2
    assert facts("topic", "describe", "life")["settings"]["retention.ms"] == "604800000"
    changed = facts("topic", "alter", "life", "--unset", "retention.ms", "--set", "segment.ms=1h")
    assert changed["segment.ms"] == "3600000"
    assert "life" in [each["name"] for each in facts("topic", "list")]
    assert facts("topic", "delete", "life", "--force") == {"name": "life", "deleted": True}
    run("topic", "describe", "life", code=4)


@pytest.mark.usefixtures("server")
def test_more_replicas_than_nodes_are_refused():
    assert facts("topic", "create", "replicated", "--replication", 1)["created"]
    refused = run("topic", "create", "replicated-2", "--replication", 2, code=2)
    assert "replication factor 2, and there is one node" in refused.stderr


def test_tables_have_units(server: BrokerInThread):
    server.create_topic("units", settings={"retention.ms": "3600000"})
    shown = run("topic", "describe", "units", "-o", "table", code=0).stdout
    assert "PARTITION" in shown
    assert "this topic" in shown
    listed = run("topic", "list", "-o", "table", code=0).stdout
    assert "retention.ms=" in listed
