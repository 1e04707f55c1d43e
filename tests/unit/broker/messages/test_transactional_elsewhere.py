"""Messages of transactions for partitions that other nodes than the coordinator lead."""

from collections.abc import Iterator

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.transactional_elsewhere import AppendInTransaction
from goqueue.model.errors import NodeUnreachable, Uncertain
from goqueue.model.ids import NodeId
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import InvalidTransactionState
from tests.unit.broker.cluster.apart import Apart, led_apart
from tests.unit.broker.transactions.http_producer import NAME, HttpProducer


@pytest.fixture
def apart() -> Iterator[Apart]:
    with led_apart() as found:
        yield found


def test_messages_for_all_leaders_are_seen_when_the_transaction_is_committed(apart: Apart):
    client = HttpProducer(apart)
    client.begin()
    assert client.publish_many(*"abcdef") == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert client.publish("g", 2) == (2, False)
    assert client.read() == set()
    client.end(commits=True)
    assert client.read() == set("abcdefg")
    client.begin()
    client.publish_many(*"hij")
    client.end(commits=False)
    assert client.read() == set("abcdefg")


def test_a_repeated_sequence_is_answered_with_the_first_offset(apart: Apart):
    client = HttpProducer(apart)
    client.begin()
    assert client.publish("a", 1, sequence=0) == (0, False)
    assert client.publish("b", 1, sequence=1) == (1, False)
    assert client.publish("b", 1, sequence=1) == (1, True)
    client.end(commits=True)
    assert client.read() == {"a", "b"}


def test_a_batch_that_comes_after_the_end_is_refused(apart: Apart):
    """Also when the producer's next transaction, of the same epoch, is open there."""
    client = HttpProducer(apart)
    client.begin()
    client.publish("a", 1)
    late = _append(client, client.who, "late")
    client.end(commits=True)
    with pytest.raises(InvalidTransactionState, match="is over"):
        _send(apart, late)
    client.begin()
    client.publish("b", 1)
    with pytest.raises(InvalidTransactionState, match="is over"):
        _send(apart, late)
    client.end(commits=True)
    assert client.read() == {"a", "b"}


def _append(client: HttpProducer, who: ProducerIdentity, value: str) -> AppendInTransaction:
    """What the coordinator would send now."""
    topic = client.broker.topic("orders")
    batch = client.messages["a"]._batch(who, [OutgoingMessage(value.encode())], -1)
    as_of = client.transactions.ahead.get(NAME).changed_at
    return AppendInTransaction(topic.topic_id, 1, who.producer_id, who.epoch, as_of, [bytes(batch)])


def _send(apart: Apart, verb: AppendInTransaction) -> None:
    others = apart["a"].others
    assert others is not None
    apart.world.run(others.ask(NodeId(2), verb))


def test_a_leader_that_is_gone_refuses_and_the_transaction_is_aborted_whole(apart: Apart):
    client = HttpProducer(apart)
    client.begin()
    client.publish_many(*"abc")
    apart.nodes.stop("c")
    with pytest.raises((NodeUnreachable, Uncertain), match="abort the transaction"):
        client.publish_many(*"def")
    apart.nodes.start("c")
    apart.world.run_until(lambda: "c" in apart.nodes.brokers, limit_s=60)
    client.end(commits=False)
    assert client.read() == set()
