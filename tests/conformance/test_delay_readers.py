"""Delayed messages as every kind of reader sees them, and what happens to them meanwhile."""

import json
import time
from collections.abc import Iterator

import confluent_kafka
import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from goqueue.client import Client, Message
from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server
from tests.conformance.shares import set_group

WITHIN_SECONDS = 30.0
HOUR_MS = 3_600_000


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(f"http://{server.http_address}") as client:
        yield client


def read(server: Server, topic: str, count: int, *partitions: int) -> list[str]:
    """The first messages of these partitions, waiting for them."""
    consumer = Consumer({**server.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions or (0,)])
    found: list[str] = []
    ends = time.monotonic() + WITHIN_SECONDS
    while len(found) < count and time.monotonic() < ends:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
    consumer.close()
    return found


@pytest.mark.skipif(not hasattr(confluent_kafka, "ShareConsumer"), reason="needs a share consumer")
def test_a_share_consumer_gets_a_delayed_message(
    server: Server, client: Client, make_topic: MakeTopic
):
    topic = make_topic()
    set_group(server, topic, {"share.auto.offset.reset": "earliest"})
    client.publish(topic, [Message("late", delay_ms=500), Message("now")])
    consumer = confluent_kafka.ShareConsumer({**server.bootstrap, "group.id": topic})
    consumer.subscribe([topic])
    found: list[str] = []
    ends = time.monotonic() + WITHIN_SECONDS
    while len(found) < 2 and time.monotonic() < ends:
        found += [(each.value() or b"").decode() for each in consumer.poll(0.5)]
    consumer.commit_sync(10)
    consumer.close()
    assert found == ["now", "late"]


def test_a_consumer_that_has_read_further_gets_it_too(
    server: Server, client: Client, make_topic: MakeTopic
):
    topic = make_topic()
    consumer = Consumer({**server.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    client.publish(topic, [Message("late", delay_ms=2_000)])
    client.publish(topic, [Message(f"{n}") for n in range(5)])
    found: list[str] = []
    ends = time.monotonic() + WITHIN_SECONDS
    while len(found) < 6 and time.monotonic() < ends:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
    consumer.close()
    assert found == ["0", "1", "2", "3", "4", "late"]


def test_the_same_offset_in_two_partitions_is_two_messages(
    server: Server, client: Client, make_topic: MakeTopic
):
    topic = make_topic(2)
    placed = [
        client.publish(topic, [Message(f"in {each}", partition=each, delay_ms=1_500)])[0]
        for each in (0, 1)
    ]
    assert [(each.partition, each.offset) for each in placed] == [(0, 0), (1, 0)]
    client.cancel_delay(topic, 0, 0)
    client.publish(topic, [Message("last", partition=0, delay_ms=1_600)])
    assert sorted(read(server, topic, 2, 0, 1)) == ["in 1", "last"]


def test_a_delay_shorter_than_a_tick_is_kept(server: Server, client: Client, make_topic: MakeTopic):
    topic = make_topic()
    placed = client.publish(topic, [Message(f"{n}", delay_ms=n) for n in (9, 3, 1)])
    assert len(placed) == 3
    assert read(server, topic, 3) == ["1", "3", "9"]


def test_a_deleted_topic_takes_its_delays_along(
    server: Server, client: Client, make_topic: MakeTopic
):
    topic = make_topic()
    client.publish(topic, [Message("old", delay_ms=300)])
    client.delete_topic(topic)
    client.create_topic(topic, partitions=1)
    client.publish(topic, [Message("new", delay_ms=1_000)])
    assert client.delayed_messages(topic).messages[0].offset == 0
    assert read(server, topic, 1) == ["new"]
    figures = client.delay_stats().topics[topic]
    assert (figures.scheduled, figures.delivered, figures.pending) == (1, 1, 0)


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_delayed_message_is_validated_when_it_is_accepted(
    server: Server, client: Client, make_topic: MakeTopic, compression: str
):
    topic = make_topic(goqueue_schema_validation="full")
    registry = SchemaRegistryClient({"url": f"http://{server.http_address}/registry"})
    schema = json.dumps({"type": "object", "required": ["name"]})
    number = registry.register_schema(f"{topic}-value", Schema(schema, "JSON"))
    frame = b"\x00" + number.to_bytes(4)
    producer = Producer({**server.bootstrap, "compression.type": compression})
    results: list[KafkaError | None] = []
    for value in (b'{"name": "Ada"}', b'{"age": 1}'):
        producer.produce(
            topic,
            frame + value,
            headers={"gq-delay-ms": "700"},
            on_delivery=lambda error, _: results.append(error),
        )
        producer.flush(20)
    assert [error and error.code() for error in results] == [None, KafkaError.INVALID_RECORD]
    url = f"http://{server.http_address}/topics/{topic}/messages"
    answer = httpx.post(url, json={"messages": [{"value": "{}", "delay": "1h"}]})
    assert answer.status_code == 400, answer.text
    assert "name" in answer.text
    assert [each.offset for each in client.delayed_messages(topic).messages] in ([0], [])
    (found,) = read(server, topic, 1)
    assert found.endswith('{"name": "Ada"}')
    assert client.delay_stats().topics[topic].scheduled == 1


def test_what_was_cancelled_is_never_seen(server: Server, client: Client, make_topic: MakeTopic):
    topic = make_topic()
    client.publish(topic, [Message("no", delay_ms=HOUR_MS), Message("yes", delay_ms=900)])
    client.reschedule_delay(topic, 0, 0, delay_ms=HOUR_MS // 2)
    assert client.cancel_delay(topic, 0, 0).state == "cancelled"
    assert read(server, topic, 1) == ["yes"]
    assert client.delayed_message(topic, 0, 0).state == "cancelled"
