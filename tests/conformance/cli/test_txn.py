"""`goqueue txn` against a server with transactions open, finished and unknown."""

from collections.abc import Callable, Iterator

import httpx
import pytest

from goqueue.client import Client, Message
from goqueue.client.errors import Refused
from goqueue.client.http.transactions import Transaction
from tests.conformance.cli.commands import Run, RunningServer, decoded

NAME = "billing/1 of 2"  # clients choose their ids freely


def ids_of(run: Run, *options: str) -> list[str]:
    return [each["transactional_id"] for each in decoded(run("txn", "list", *options))]


def in_transaction(client: Client, topic: str, act: Callable[[Transaction], None]) -> None:
    """Something happens while a transaction is open that has written, acked and moved on."""
    client.create_topic(topic, partitions=1)
    client.publish(topic, [Message("job")])
    (job,) = client.receive(topic, "workers", wait_ms=5_000)
    with client.transactional(NAME).transaction() as transaction:
        transaction.publish(topic, [Message("result")])
        transaction.ack(job)
        transaction.commit_offsets("streamers", {(topic, 0): 1})
        act(transaction)


def test_an_open_transaction_is_listed_described_and_aborted(
    run: Run, client: Client, names: Iterator[str]
):
    topic = next(names)

    def look_and_abort(transaction: Transaction) -> None:
        (listed,) = decoded(run("txn", "list"))
        described = decoded(run("txn", "describe", NAME))
        assert described == listed
        assert described["state"] == "ongoing"
        assert described["transaction_id"] == transaction.ids.transaction_id
        assert described["partitions"] == [{"topic": topic, "partition": 0}]
        assert (described["groups"], described["acks"]) == (["streamers"], 1)
        table = run("txn", "list", "-o", "table").stdout
        assert NAME in table
        assert "ongoing" in table
        assert f"{topic}-0" in run("txn", "describe", NAME, "-o", "table").stdout
        run("txn", "abort", NAME, code=2)  # nobody is there to be asked
        assert ids_of(run) == [NAME]
        assert decoded(run("txn", "abort", NAME, "--force"))["status"] == "aborted"

    with pytest.raises(Refused) as refused:
        in_transaction(client, topic, look_and_abort)
    assert refused.value.code == "producer_fenced"
    assert ids_of(run) == []
    assert ids_of(run, "--all") == [NAME]
    assert ids_of(run, "--state", "complete_abort") == [NAME]
    assert decoded(run("txn", "describe", NAME))["state"] == "complete_abort"
    again = decoded(run("txn", "abort", NAME, "--force"))
    assert again["status"] == "nothing to abort"
    assert [each.value for each in client.fetch(topic, 0, offset=0).messages] == [b"job"]


def test_an_id_that_nobody_has_is_not_found(run: Run):
    run("txn", "describe", "nobody", code=4)
    run("txn", "abort", "nobody", "--force", code=4)


def test_figures_agree(run: Run, client: Client, running: RunningServer):
    with client.transactional("figures").transaction():
        stats = httpx.get(f"{running.url}/transactions/stats").json()
        assert stats["active_transactions"] == 1
        metrics = httpx.get(f"{running.url}/metrics").text
        assert "goqueue_transactions_open 1.0" in metrics
    assert httpx.get(f"{running.url}/transactions/stats").json()["active_transactions"] == 0
