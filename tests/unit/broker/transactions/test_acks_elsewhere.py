"""Acks in transactions of messages that other nodes than the coordinator lead: all or none."""

from collections.abc import Iterator

import pytest

from goqueue.model.errors import GoQueueError
from tests.unit.broker.cluster.apart import Apart, led_apart
from tests.unit.broker.transactions.http_producer import NAME, HttpProducer


@pytest.fixture
def apart() -> Iterator[Apart]:
    with led_apart() as found:
        yield found


def receipts(apart: Apart, group: str = "g") -> list[str]:
    """One of each partition, in their order."""
    for index in range(3):
        apart.publish("a", str(index), partition=index)
    found: list[tuple[str, str]] = []
    while len(found) < 3:
        found += apart.receive("a", group, visibility_ms=5_000)
    return [receipt for _, receipt in sorted(found)]


def add_acks(client: HttpProducer, handles: list[str]) -> dict[int, str]:
    found = client.run(client.transactions.add_acks(NAME, client.who, handles))
    return {place: type(error).__name__ for place, error in found.items()}


def count(client: HttpProducer) -> int | None:
    transaction = client.transactions.ahead.get(NAME)
    return client.run(client.transactions.count_acks([transaction]))[0]


def test_messages_of_all_leaders_are_acked_with_the_transaction(apart: Apart):
    client = HttpProducer(apart)
    handles = receipts(apart)
    client.begin()
    assert add_acks(client, handles) == {}
    assert add_acks(client, handles[:2]) == {}, "a repetition is none"
    assert count(client) == 3
    apart.world.run_for(10)
    assert apart.receive("b") == [], "they do not time out"
    client.end(commits=True)
    apart.world.run_for(10)
    assert all(apart.receive(host) == [] for host in ("a", "b", "c"))


def test_an_aborted_transaction_leaves_them_in_flight(apart: Apart):
    client = HttpProducer(apart)
    handles = receipts(apart)
    client.begin()
    assert add_acks(client, handles) == {}
    client.end(commits=False)
    assert apart.receive("b") == []
    apart.world.run_for(6)
    back: list[tuple[str, str]] = []
    for host in ("b", "c", "a"):
        back += apart.receive(host)
    assert {value for value, _ in back} == {"0", "1", "2"}


def test_one_receipt_that_is_not_good_refuses_all(apart: Apart):
    client = HttpProducer(apart)
    handles = receipts(apart)
    client.begin()
    assert add_acks(client, handles[:1]) == {}
    apart.world.run(apart["a"].queues.release([handles[2]]))
    assert add_acks(client, handles) == {2: "ReceiptExpired"}
    assert count(client) == 1
    client.end(commits=True)
    apart.world.run_for(6)
    back = [each for host in ("b", "c", "a") for each in apart.receive(host)]
    assert {value for value, _ in back} == {"1", "2"}


def test_what_one_leader_refuses_at_the_last_moment_is_cancelled_at_the_others(apart: Apart):
    """Its message is released between the check and the reservation."""
    client = HttpProducer(apart)
    handles = receipts(apart)
    client.begin()
    assert add_acks(client, handles[:1]) == {}
    confirm = client.transactions._confirm_ledgers

    async def released_meanwhile(*given: object) -> None:
        await confirm(*given)  # type: ignore[arg-type]
        await apart["c"].queues.release([handles[2]])

    client.transactions._confirm_ledgers = released_meanwhile  # type: ignore[method-assign,assignment]
    assert add_acks(client, handles) == {2: "ReceiptExpired"}
    assert count(client) == 1, "what was there before stays"
    client.end(commits=True)
    apart.world.run_for(6)
    back = [each for host in ("b", "c", "a") for each in apart.receive(host)]
    assert {value for value, _ in back} == {"1", "2"}


def test_a_reservation_that_comes_after_the_end_takes_nothing(apart: Apart):
    """The transaction is aborted between the confirmation and the reservation."""
    client = HttpProducer(apart)
    handles = receipts(apart)
    client.begin()
    confirm = client.transactions._confirm_ledgers

    async def ended_meanwhile(*given: object) -> None:
        await confirm(*given)  # type: ignore[arg-type]
        await client.transactions.end(NAME, client.who, commits=False, bumps_epoch=False)

    client.transactions._confirm_ledgers = ended_meanwhile  # type: ignore[method-assign,assignment]
    with pytest.raises(GoQueueError):
        add_acks(client, handles)
    client.transactions._confirm_ledgers = confirm  # type: ignore[method-assign]
    apart.world.run_for(6)
    back = [each for host in ("b", "c", "a") for each in apart.receive(host)]
    assert {value for value, _ in back} == {"0", "1", "2"}, "nothing is held for ever"
