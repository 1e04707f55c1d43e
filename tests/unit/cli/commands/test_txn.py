"""`goqueue txn`: open transactions are listed, shown and aborted."""

import pytest

from goqueue.client import Client
from goqueue.client.errors import Refused
from goqueue.embedding import BrokerInThread
from tests.unit.cli.invocation import facts, run


def test_a_transaction_that_hangs_is_seen_and_aborted(server: BrokerInThread):
    server.create_topic("transacted")
    with Client(server.http) as client, pytest.raises(Refused):
        look_and_abort(client)
    assert list(server.read("transacted")) == []


def look_and_abort(client: Client) -> None:
    with client.transactional("hanging").transaction() as transaction:
        transaction.publish("transacted", ["never seen"])
        (listed,) = facts("txn", "list")
        assert (listed["transactional_id"], listed["state"]) == ("hanging", "ongoing")
        shown = facts("txn", "describe", "hanging")
        assert [each["topic"] for each in shown["partitions"]] == ["transacted"]
        assert "transacted-0" in run("txn", "describe", "hanging", "-o", "table", code=0).stdout
        assert "pass --force to abort" in run("txn", "abort", "hanging", code=2).stderr
        assert facts("txn", "abort", "hanging", "--force")["transactional_id"] == "hanging"
        assert facts("txn", "list") == []
        known = [each["transactional_id"] for each in facts("txn", "list", "--all")]
        assert "hanging" in known


@pytest.mark.usefixtures("server")
def test_an_unknown_id_ends_with_4():
    run("txn", "describe", "nobody", code=4)
