"""Delayed messages from real Kafka clients, seen by all kinds of readers, through kill -9."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from typing import Any

import aiokafka
import httpx
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from goqueue.client import Client, Message
from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server

DEADLINE_SECONDS = 30


def read(server: Server, topic: str, count: int, isolation: str = "read_committed") -> list[Any]:
    """The partition's first messages, waiting for them; more if more are there."""
    settings = {**server.bootstrap, "group.id": "g", "isolation.level": isolation}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    ends = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < ends:
        message = consumer.poll(1)
        if message is None:
            continue
        if not message.error():
            found.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF and len(found) >= count:
            break
    consumer.close()
    return found


def produce(producer: Producer, topic: str, *delays: int | None) -> list[Any]:
    """Values are the delays; gives errors and messages."""
    results: list[Any] = []
    for delay in delays:
        producer.produce(
            topic,
            str(delay),
            key="k",
            headers=None if delay is None else {"gq-delay-ms": str(delay), "own": "x"},
            on_delivery=lambda error, message: results.append((error, message)),
        )
    assert producer.flush(20) == 0
    return results


@pytest.mark.parametrize(
    ("compression", "idempotent"),
    [("none", False), *((each, True) for each in ("none", "gzip", "snappy", "lz4", "zstd"))],
)
def test_batches_mix_messages_for_now_and_for_later(
    server: Server, make_topic: MakeTopic, compression: str, idempotent: bool
):
    topic = make_topic()
    settings = {"linger.ms": 50, "compression.type": compression, "enable.idempotence": idempotent}
    producer = Producer({**server.bootstrap, **settings})
    results = produce(producer, topic, None, 1500, None, 300, 0)
    assert not [error for error, _ in results if error]
    assert [error for error, _ in produce(producer, topic, 500, 600)] == [None, None]
    assert [error for error, _ in produce(producer, topic, None)] == [None]
    found = read(server, topic, 8)
    values = [each.value().decode() for each in found]
    assert Counter(values) == Counter(("None", "None", "0", "None", "300", "500", "600", "1500"))
    last = found[values.index("1500")]
    headers = dict(last.headers())
    assert (headers["gq-delayed-from"], headers["own"]) == (b"0:1", b"x")
    assert "gq-delay-ms" not in headers
    assert last.key() == b"k"
    assert values.index("500") < values.index("600")


def test_a_header_that_makes_no_sense_is_refused(server: Server, make_topic: MakeTopic):
    topic = make_topic()
    results: list[Any] = []
    producer = Producer(server.bootstrap)
    headers = {"gq-deliver-at": "tomorrow"}
    producer.produce(topic, "x", headers=headers, on_delivery=lambda *each: results.append(each))
    producer.flush(20)
    ((error, _),) = results
    assert error.code() == KafkaError.INVALID_RECORD
    assert read(server, topic, 0) == []


def test_transactions_decide_about_delayed_messages(server: Server, make_topic: MakeTopic):
    topic = make_topic()
    producer = Producer({**server.bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    for commits in (False, True, False, True):
        producer.begin_transaction()
        produce(producer, topic, *((200, None) if commits else (100, 150)))
        if commits:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
    found = read(server, topic, 4)
    assert Counter(each.value() for each in found) == {b"None": 2, b"200": 2}
    produce(Producer(server.bootstrap), topic, 300)  # what was aborted would be before it
    assert len(read(server, topic, 5)) == 5


def test_an_http_transaction_may_hold_delayed_messages(server: Server, make_topic: MakeTopic):
    topic = make_topic()
    with Client(f"http://{server.http_address}") as client:
        for commits in (False, True):
            producer = client.transactional(topic)
            with contextlib.suppress(RuntimeError), producer.transaction() as transaction:
                transaction.publish(topic, [Message("late", delay_ms=200), Message("now")])
                if not commits:
                    raise RuntimeError("abort")
    found = read(server, topic, 2)
    assert sorted(each.value() for each in found) == [b"late", b"now"]


def test_kafka_python_and_aiokafka_read_over_the_gaps(server: Server, make_topic: MakeTopic):
    topic = make_topic()
    address = server.bootstrap["bootstrap.servers"]
    producer = kafka.KafkaProducer(bootstrap_servers=address)
    for delay in (b"200", b"100", None):
        headers = [("gq-delay-ms", delay)] if delay else []
        producer.send(topic, delay or b"now", headers=headers)
        producer.flush(20)
    producer.close()
    idempotent = Producer({**server.bootstrap, "enable.idempotence": True})
    produce(idempotent, topic, 300, 400)  # an empty batch in the data
    expected = [b"now", b"100", b"200", b"300", b"400"]
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=2000
    )
    assert sorted(each.value for each in consumer) == sorted(expected)
    consumer.close()

    async def read_all() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=address, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return [(await consumer.getone()).value for _ in expected]
        finally:
            await consumer.stop()

    assert sorted(asyncio.run(read_all())) == sorted(expected)


def test_a_queue_group_gets_what_a_kafka_client_delayed(server: Server, make_topic: MakeTopic):
    topic = make_topic()
    produce(Producer(server.bootstrap), topic, None, 300)
    url, found = f"http://{server.http_address}/queues/{topic}/receive", list[str]()
    ends = time.monotonic() + DEADLINE_SECONDS
    while len(found) < 2 and time.monotonic() < ends:
        answer = httpx.post(url, json={"group": "g", "wait": "2s", "max_messages": 10})
        found += [each["value"] for each in answer.json()["messages"]]
    assert sorted(found) == ["300", "None"]


@pytest.mark.slow
def test_kill_9_keeps_every_delay_and_repeats_none(own_server: Server):
    producer = Producer({**own_server.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    count = 3000
    for number in range(count):
        headers = {"gq-delay-ms": str(200 + number % 1500)}
        producer.produce("jobs", json.dumps(number), partition=0, headers=headers)
    assert producer.flush(30) == 0
    for delivered in (1, 900, 2000):
        read(own_server, "jobs", delivered)
        own_server.kill()
        own_server.start()
    found = Counter(int(each.value()) for each in read(own_server, "jobs", count))
    assert found == Counter(range(count))
