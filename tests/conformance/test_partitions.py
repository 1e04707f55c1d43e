"""Fifty partitions through one connection: each message in its place, each partition in order."""

import asyncio
import time
from collections import defaultdict
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from goqueue.model.partitioner import murmur2_partition
from tests.conformance.clients import WAIT_S
from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server

PARTITIONS = 50
MESSAGES = [(b"key-%d" % (n % 200), b"%d" % n) for n in range(2000)]

Found = dict[int, list[tuple[bytes, bytes]]]


@pytest.fixture(scope="module")
def expected() -> Found:
    """Where each message belongs: Kafka's hash of its key decides."""
    found: Found = defaultdict(list)
    for key, value in MESSAGES:
        found[murmur2_partition(key, PARTITIONS)].append((key, value))
    return dict(found)


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(partitions=PARTITIONS)


def test_confluent(server: Server, topic: str, expected: Found):
    producer = confluent_kafka.Producer({**server.bootstrap, "partitioner": "murmur2"})
    for key, value in MESSAGES:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(WAIT_S) == 0
    consumer = confluent_kafka.Consumer({**server.bootstrap, "group.id": "unused"})
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
    found: Found = defaultdict(list)
    deadline = time.monotonic() + WAIT_S
    while _count(found) < len(MESSAGES) and time.monotonic() < deadline:
        for each in consumer.consume(500, timeout=1.0):
            assert each.error() is None
            found[each.partition()].append((each.key(), each.value()))
    consumer.close()
    assert found == expected


def test_kafka_python(server: Server, topic: str, expected: Found):
    producer = kafka.KafkaProducer(bootstrap_servers=server.address, linger_ms=10)
    for key, value in MESSAGES:
        producer.send(topic, key=key, value=value)
    producer.flush(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=server.address, auto_offset_reset="earliest", group_id=None
    )
    consumer.assign([kafka.TopicPartition(topic, n) for n in range(PARTITIONS)])
    found: Found = defaultdict(list)
    deadline = time.monotonic() + WAIT_S
    while _count(found) < len(MESSAGES) and time.monotonic() < deadline:
        _add(found, consumer.poll(timeout_ms=1000))
    consumer.close()
    assert found == expected


async def test_aiokafka(server: Server, topic: str, expected: Found):
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=server.address, linger_ms=10
    ) as producer:
        await asyncio.gather(
            *[await producer.send(topic, key=key, value=value) for key, value in MESSAGES]
        )
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=server.address, auto_offset_reset="earliest"
    )
    consumer.assign([aiokafka.TopicPartition(topic, n) for n in range(PARTITIONS)])
    found: Found = defaultdict(list)
    async with asyncio.timeout(WAIT_S), consumer:
        while _count(found) < len(MESSAGES):
            _add(found, await consumer.getmany(timeout_ms=1000))
    assert found == expected


def _count(found: Found) -> int:
    return sum(map(len, found.values()))


def _add(found: Found, polled: dict[Any, list[Any]]) -> None:
    for place, records in polled.items():
        found[place.partition] += [(each.key, each.value) for each in records]
