"""Transactions with our own clients: results, acks and offsets, all of it or nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client, Message
from goqueue.client.errors import Refused
from goqueue.client.http.async_transactions import AsyncTransactionalProducer
from tests.conformance.http_server import http_server

JOBS, RESULTS, GROUP = "jobs", "results", "workers"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("data")
    with http_server(directory) as (_, host, port):
        yield f"http://{host}:{port}"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """With empty topics of one partition, and nobody in the group."""
    with Client(url) as client:
        for topic in (JOBS, RESULTS):
            client.create_topic(topic, partitions=1)
        yield client
        for topic in (JOBS, RESULTS):
            client.delete_topic(topic)


def results(client: Client) -> list[str]:
    page = client.fetch(RESULTS, 0, offset=0)
    return [(each.value or b"").decode() for each in page.messages]


def jobs(client: Client, *values: str) -> list[Any]:
    client.publish(JOBS, [Message(value) for value in values])
    received = client.receive(JOBS, GROUP, consumer="ann", max_messages=len(values), wait_ms=5000)
    assert len(received) == len(values)
    return received


def in_flight(client: Client) -> int:
    return len(client.in_flight(GROUP, topic=JOBS))


def test_results_and_acks_are_one(client):
    received = jobs(client, "a", "b", "c")
    producer = client.transactional("worker-1")
    with producer.transaction() as transaction:
        written = transaction.publish(
            RESULTS, [Message(f"<{(each.value or b'').decode()}>") for each in received]
        )
        assert [(each.partition, each.offset) for each in written] == [(0, 0), (0, 1), (0, 2)]
        transaction.ack(*received)
        assert results(client) == []
        assert in_flight(client) == 3
    assert results(client) == ["<a>", "<b>", "<c>"]
    assert in_flight(client) == 0
    assert client.receive(JOBS, GROUP) == []
    assert {each.error is None for each in client.ack(*received)} == {True}, "as any repeated ack"


def test_an_error_in_the_block_undoes_everything_and_the_receipts_are_good_again(client):
    received = jobs(client, "a", "b")
    producer = client.transactional("worker-2")

    def fails() -> None:
        with producer.transaction() as transaction:
            transaction.publish(RESULTS, [Message("half")])
            transaction.ack(*received)
            assert 1 / 0

    with pytest.raises(ZeroDivisionError):
        fails()
    assert results(client) == []
    assert in_flight(client) == 2
    with producer.transaction() as transaction:
        transaction.publish(RESULTS, [Message("whole")])
        transaction.ack(received[0])
    client.nack(received[1], reason="a try by itself", delay_ms=0)
    assert results(client) == ["whole"]
    (again,) = client.receive(JOBS, GROUP, wait_ms=5000)
    assert (again.value, again.attempt) == (b"b", 2)
    client.ack(again)


def test_what_a_transaction_acks_is_not_ended_otherwise(client):
    (received,) = jobs(client, "a")
    with client.transactional("worker-3").transaction() as transaction:
        transaction.ack(received)
        transaction.ack(received.receipt)  # once more is the same
        for settle in (client.ack, client.nack, client.release):
            with pytest.raises(Refused) as refused:
                settle(received)
            assert (refused.value.status, refused.value.code) == (409, "receipt_in_transaction")
        with (
            pytest.raises(Refused) as refused,
            client.transactional("worker-4").transaction() as other,
        ):
            other.ack(received)
        assert refused.value.code == "receipt_in_transaction"


def test_a_receipt_that_is_over_is_refused_and_no_other_is_taken(client):
    first, second = jobs(client, "a", "b")
    client.release(second)
    producer = client.transactional("worker-5")
    with pytest.raises(Refused) as refused, producer.transaction() as transaction:
        transaction.ack(first, second)
    assert (refused.value.status, refused.value.code) == (409, "receipt_expired")
    assert refused.value.details == {
        "refused": [{"index": 1, "receipt_handle": second.receipt, "code": "receipt_expired"}],
        "refused_count": 1,
    }
    client.ack(first)
    for receipt, status in (("nonsense", 400), (f"{JOBS}:0:0:1:fffffffffffffff.{GROUP}", 404)):
        with pytest.raises(Refused) as refused, producer.transaction() as transaction:
            transaction.ack(receipt)
        assert refused.value.status == status


def test_a_fenced_producer_has_no_more_transactions(client):
    older, newer = client.transactional("worker-6"), client.transactional("worker-6")

    def is_overtaken() -> None:
        with older.transaction() as transaction:
            transaction.publish(RESULTS, [Message("zombie")])
            with newer.transaction() as owner:
                owner.publish(RESULTS, [Message("owner")])
            transaction.publish(RESULTS, [Message("zombie again")])

    with pytest.raises(Refused) as refused:
        is_overtaken()
    assert refused.value.code == "producer_fenced"
    with pytest.raises(Refused), older.transaction():
        pass
    with newer.transaction() as owner:
        owner.publish(RESULTS, [Message("still there")])
    assert results(client) == ["owner", "still there"]


def test_offsets_of_a_stream_move_with_it(client):
    client.publish(JOBS, [Message("a"), Message("b")])
    with client.transactional("worker-7").transaction() as transaction:
        transaction.publish(RESULTS, [Message("ab")])
        transaction.commit_offsets("streamers", {(JOBS, 0): 2})
    (found,) = client.group_offsets("streamers")
    assert (found.topic, found.partition, found.offset) == (JOBS, 0, 2)


def test_a_message_that_is_refused_takes_the_others_along(client):
    producer = client.transactional("worker-8")
    with pytest.raises(Refused, match=r"messages\[1\]"), producer.transaction() as transaction:
        transaction.publish(RESULTS, [Message("good"), Message("bad", partition=7)])
    assert results(client) == []


def test_on_an_event_loop(client, url):
    received = jobs(client, "a", "b")

    async def fails(producer: AsyncTransactionalProducer) -> None:
        async with producer.transaction() as transaction:
            await transaction.publish(RESULTS, [Message("half")])
            await transaction.ack(*received)
            assert 1 / 0

    async def work() -> None:
        async with AsyncClient(url) as waiting:
            producer = waiting.transactional("worker-9")
            with pytest.raises(ZeroDivisionError):
                await fails(producer)
            async with producer.transaction() as transaction:
                await transaction.publish(RESULTS, [Message("whole")])
                await transaction.ack(*received)
                await transaction.commit_offsets("streamers", {(JOBS, 0): 1})

    asyncio.run(work())
    assert results(client) == ["whole"]
    assert in_flight(client) == 0
