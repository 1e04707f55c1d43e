"""How sure a producer wants to be: acks, idempotence, sizes, topics that are not there yet."""

from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaError

from tests.conformance.clients import WAIT_S, Aiokafka, Client, Confluent, KafkaPython, Message
from tests.conformance.conftest import MakeTopic, client_of
from tests.conformance.server import Server

MESSAGES = [Message(b"k", b"%d" % n) for n in range(500)]
CLIENTS: list[Client] = [Confluent(), KafkaPython(), Aiokafka()]
IDEMPOTENT: dict[str, Any] = {"enable.idempotence": True}


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: type(each).__name__)
def test_acks(client: Any, acks: Any, server: Server, topic: str):
    client.write(server.address, topic, MESSAGES, **_acks(client, acks))
    read = Confluent().read(server.address, topic, len(MESSAGES))
    assert [each.message for each in read] == MESSAGES


def _acks(client: Any, acks: Any) -> dict[str, Any]:
    if isinstance(client, Confluent):
        return {"acks": acks}
    return {"acks": acks, "enable_idempotence": False}


def test_idempotent_producers(server: Server, topic: str, request: pytest.FixtureRequest):
    Confluent().write(server.address, topic, MESSAGES, **IDEMPOTENT)
    KafkaPython().write(server.address, topic, MESSAGES, enable_idempotence=True, acks="all")
    Aiokafka().write(server.address, topic, MESSAGES, enable_idempotence=True)
    kcat = client_of(request, "kcat")
    kcat.write(server.address, topic, MESSAGES, partition=0, codec="none")
    read = Confluent().read(server.address, topic, 4 * len(MESSAGES))
    assert [each.message for each in read] == 4 * MESSAGES
    assert [each.offset for each in read] == list(range(4 * len(MESSAGES)))


def test_a_message_over_the_topics_limit_is_refused(server: Server, make_topic: MakeTopic):
    topic = make_topic(max_message_bytes=2000)
    errors: list[Any] = []
    producer = confluent_kafka.Producer(server.bootstrap)
    producer.produce(topic, bytes(3000), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    python = kafka.KafkaProducer(bootstrap_servers=server.address)
    with pytest.raises(kafka.errors.MessageSizeTooLargeError):
        python.send(topic, bytes(3000)).get(WAIT_S)
    python.close()
    Confluent().write(server.address, topic, [Message(None, b"small")])


def test_only_the_messages_at_fault_are_called_invalid(server: Server, make_topic: MakeTopic):
    """The others of their batch fail beside them, and are told so."""
    topic = make_topic(cleanup_policy="compact")
    codes: list[int] = []
    producer = confluent_kafka.Producer(server.bootstrap | {"linger.ms": 60_000})
    for number in range(100):
        key = None if number % 10 == 3 else b"k"
        producer.produce(
            topic, b"v", key, partition=0, on_delivery=lambda error, _: codes.append(error.code())
        )
    assert producer.flush(WAIT_S) == 0
    assert codes.count(KafkaError.INVALID_RECORD) == 10
    assert codes.count(KafkaError._INVALID_DIFFERENT_RECORD) == 90


async def test_a_message_over_the_topics_limit_is_refused_with_aiokafka(
    server: Server, make_topic: MakeTopic
):
    topic = make_topic(max_message_bytes=2000)
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=server.address) as producer:
        with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
            await producer.send_and_wait(topic, bytes(3000))


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: type(each).__name__)
def test_a_missing_topic_is_created_by_writing_to_it(
    client: Any, server: Server, names: Iterator[str]
):
    name = next(names)
    client.write(server.address, name, MESSAGES, partition=2)
    read = client.read(server.address, name, len(MESSAGES), partition=2)
    assert [each.message for each in read] == MESSAGES


def test_the_server_stamps_the_time_when_told_to(server: Server, make_topic: MakeTopic):
    topic = make_topic(message_timestamp_type="LogAppendTime")
    Confluent().write(server.address, topic, [Message(None, b"x", timestamp=1_000_000_000_000)])
    for client in CLIENTS:
        (read,) = client.read(server.address, topic, 1, partition=0, offset=0)
        assert read.timestamp > 1_700_000_000_000


def test_a_time_stamp_from_the_far_future_is_refused(server: Server, topic: str):
    errors: list[Any] = []
    producer = confluent_kafka.Producer(server.bootstrap)
    producer.produce(
        topic, b"x", timestamp=2**42, on_delivery=lambda error, _: errors.append(error)
    )
    assert producer.flush(WAIT_S) == 0
    assert [error.code() for error in errors] == [KafkaError.INVALID_TIMESTAMP]
