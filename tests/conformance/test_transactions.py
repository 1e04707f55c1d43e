"""Transactions with real clients: what is committed is seen, whole, once; the rest never."""

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.conformance.server import Server
from tests.conformance.transactional_clients import (
    PRODUCERS,
    READERS,
    WAIT_S,
    Fenced,
    Producer,
    committed_offset,
)

Start = Callable[..., Producer]


@pytest.fixture(params=list(PRODUCERS))
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def start(library: str, server: Server) -> Iterator[Start]:
    """Starts a producer of one of the clients."""
    started: list[Any] = []

    def start(name: str | None = None, **settings: Any) -> Producer:
        made = PRODUCERS[library](server.address, name or uuid.uuid4().hex, **settings)
        started.append(made)
        made.start()
        return made  # type: ignore[no-any-return]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def read(library: str, server: Server) -> Callable[..., list[bytes]]:
    def read(topic: str, partitions: int = 1, level: str = "read_committed") -> list[bytes]:
        found: list[bytes] = READERS[library](server.address, topic, partitions, level)
        return found

    return read


def test_a_transaction_is_seen_when_it_is_committed(start, read, topic):
    producer = start()
    producer.begin()
    for number in range(5):
        producer.send(topic, b"%d" % number)
    assert read(topic) == []
    producer.commit()
    assert read(topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_an_aborted_transaction_is_never_seen(start, read, topic):
    producer = start()
    for number in range(6):
        producer.begin()
        producer.send(topic, b"%d" % number)
        producer.send(topic, b"%d" % number)
        if number % 2:
            producer.commit()
        else:
            producer.abort()
    assert read(topic) == [b"1", b"1", b"3", b"3", b"5", b"5"]


def test_readers_of_everything_see_aborted_records_too(start, read, topic):
    producer = start()
    producer.begin()
    producer.send(topic, b"aborted")
    producer.abort()
    producer.begin()
    producer.send(topic, b"committed")
    producer.commit()
    assert b"committed" in read(topic, level="read_uncommitted")


def test_a_transaction_over_fifty_partitions(start, make_topic, server):
    topic = make_topic(50)
    producer = start()
    for commits in (False, True):
        producer.begin()
        for index in range(50):
            producer.send(topic, b"%d %d" % (commits, index), index)
        if commits:
            producer.commit()
        else:
            producer.abort()
    found = READERS["confluent"](server.address, topic, 50, "read_committed")
    assert sorted(found) == sorted(b"1 %d" % index for index in range(50))


def test_a_second_producer_fences_the_first(start, topic, server):
    name = uuid.uuid4().hex
    first = start(name)
    first.begin()
    first.send(topic, b"zombie")
    second = start(name)
    second.begin()
    second.send(topic, b"owner")
    with pytest.raises(Fenced):
        first.commit()
    second.commit()
    assert READERS["confluent"](server.address, topic, 1, "read_committed") == [b"owner"]


def test_a_transaction_that_takes_too_long_is_aborted(start, topic, server, eventually):
    producer = start(timeout_ms=3000)
    producer.begin()
    producer.send(topic, b"late")
    read = READERS["confluent"]
    eventually(lambda: read(server.address, topic, 1, "read_uncommitted") == [b"late"])
    plain = confluent_kafka.Producer(server.bootstrap)
    plain.produce(topic, b"behind")
    plain.flush(WAIT_S)

    def found() -> list[bytes]:
        values: list[bytes] = read(server.address, topic, 1, "read_committed")
        return values

    eventually(lambda: found() == [b"behind"], within_s=10)
    with pytest.raises(Exception):  # noqa: B017 # each client says it in its own way
        producer.commit()
    assert found() == [b"behind"]


def test_offsets_are_committed_with_the_transaction(start, topic, server):
    group = uuid.uuid4().hex
    producer = start()
    for offset, commits in ((3, True), (5, False)):
        producer.begin()
        producer.send(topic, b"x")
        producer.send_offset(group, topic, offset)
        if commits:
            producer.commit()
        else:
            producer.abort()
        assert committed_offset(server.address, group, [(topic, 0)]) == [3]


def positions_of(server: Server, group: str, topic: str) -> list[int]:
    return committed_offset(server.address, group, [(topic, 0), (topic, 1)])


def consumed(server: Server, group: str, topic: str) -> list[confluent_kafka.Message]:
    """Some messages from where the group is."""
    settings = {"group.id": group, "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(server.bootstrap | settings)
    starts = enumerate(positions_of(server, group, topic))
    consumer.assign([TopicPartition(topic, index, max(0, at)) for index, at in starts])
    found = consumer.consume(15, 1.0)
    consumer.close()
    return [message for message in found if message.error() is None]


def test_consume_transform_produce(start, make_topic, server, read):
    """The loop of every client's manual: what was read and what was written move on together."""
    source, target, group = make_topic(2), make_topic(2), uuid.uuid4().hex
    plain = confluent_kafka.Producer(server.bootstrap)
    for number in range(100):
        plain.produce(source, b"%d" % number, partition=number % 2)
    plain.flush(WAIT_S)
    producer = start()
    done: set[bytes] = set()
    attempts = itertools.count()
    while sum(max(0, at) for at in positions_of(server, group, source)) < 100:
        messages = consumed(server, group, source)
        if not messages:
            continue
        producer.begin()
        positions: dict[int, int] = {}
        for message in messages:
            producer.send(target, b"<%s>" % message.value(), message.partition())
            positions[message.partition()] = message.offset() + 1
        for index, offset in positions.items():
            producer.send_offset(group, source, offset, index)
        if next(attempts) % 3 == 2:
            producer.abort()  # all of it is done again
        else:
            producer.commit()
            done |= {message.value() for message in messages}
    assert len(done) == 100
    assert sorted(read(target, 2)) == sorted(b"<%d>" % number for number in range(100))


def test_a_reader_hears_of_a_commit_at_once(start, topic, server):
    """Not when its long poll is over."""
    consumer = confluent_kafka.Consumer(
        server.bootstrap
        | {"group.id": "none", "isolation.level": "read_committed", "fetch.wait.max.ms": 10_000}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.5) is None
    producer = start()
    producer.begin()
    producer.send(topic, b"x")
    assert consumer.poll(1.0) is None
    producer.commit()
    began = time.monotonic()
    message = consumer.poll(5.0)
    assert message is not None
    assert message.value() == b"x"
    assert time.monotonic() - began < 2.0
    consumer.close()


def test_unstable_offsets_are_not_told(start, topic, server):
    """A reader that takes over waits for the transaction, or it would read twice."""
    group = uuid.uuid4().hex
    producer = start()
    producer.begin()
    producer.send(topic, b"x")
    producer.send_offset(group, topic, 1)
    began = time.monotonic()
    consumer = confluent_kafka.Consumer(server.bootstrap | {"group.id": group})
    with pytest.raises(confluent_kafka.KafkaException):
        consumer.committed([TopicPartition(topic, 0)], 1.0)
    assert time.monotonic() - began < 5
    producer.commit()
    assert committed_offset(server.address, group, [(topic, 0)]) == [1]
    consumer.close()
