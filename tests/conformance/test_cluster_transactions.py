"""Transactions of confluent-kafka over three nodes, each a process of its own."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.conformance.cluster_processes import NodeProcess, running_cluster

TOPIC = "orders"
PARTITIONS = 6
SECONDS_MAX = 60.0


def servers(nodes: list[NodeProcess]) -> str:
    return ",".join(each.kafka for each in nodes)


def write(nodes: list[NodeProcess], text: str, *, commits: bool, kills: NodeProcess | None) -> None:
    """One transaction with a message in each partition; a node may die before it ends."""
    producer = Producer(
        {"bootstrap.servers": servers(nodes), "transactional.id": "tx", "linger.ms": 0}
    )
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce(TOPIC, f"{text}-{index}", partition=index)
    producer.flush(SECONDS_MAX)
    if kills is not None:
        kills.kill()
    if commits:
        producer.commit_transaction(SECONDS_MAX)
    else:
        producer.abort_transaction(SECONDS_MAX)


def read(nodes: list[NodeProcess], count: int) -> set[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers(nodes),
            "group.id": "nobody",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    found: set[str] = set()
    while len(found) < count:
        for message in consumer.consume(100, timeout=0.2):
            assert message.error() is None, message.error()
            found.add(message.value().decode())
    consumer.close()
    return found


def expected(*texts: str) -> set[str]:
    return {f"{text}-{index}" for text in texts for index in range(PARTITIONS)}


@pytest.mark.slow
def test_transactions_end_whole_although_a_leader_dies(tmp_path: Path):
    with running_cluster(tmp_path, 3) as nodes:
        created = nodes[0].post(
            "/topics", {"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3}
        )
        assert created.status_code < 300, json.dumps(created.json())
        write(nodes, "aborted", commits=False, kills=None)
        write(nodes, "first", commits=True, kills=None)
        assert read(nodes, PARTITIONS) == expected("first")
        write(nodes, "second", commits=True, kills=nodes[2])
        assert read(nodes, 2 * PARTITIONS) == expected("first", "second")
        nodes[2].start()
        write(nodes, "third", commits=True, kills=None)
        assert read(nodes, 3 * PARTITIONS) == expected("first", "second", "third")


def process(nodes: list[NodeProcess], consumer: Consumer, producer: Producer, count: int) -> None:
    """Copy so many messages to another topic, and commit that they are read, in transactions."""
    copied, ends_at = 0, time.monotonic() + SECONDS_MAX
    while copied < count:
        assert time.monotonic() < ends_at, f"{copied} of {count}"
        messages = consumer.consume(10, timeout=0.5)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce("copies", message.value())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()),
            consumer.consumer_group_metadata(),
            SECONDS_MAX,
        )
        producer.commit_transaction(SECONDS_MAX)
        copied += len(messages)


def copies(nodes: list[NodeProcess], count: int) -> list[str]:
    found: list[str] = []
    consumer = Consumer(
        {
            "bootstrap.servers": servers(nodes),
            "group.id": "copies",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition("copies", index, OFFSET_BEGINNING) for index in range(3)])
    ends_at = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < ends_at:
        found += [each.value().decode() for each in consumer.consume(100, timeout=0.5)]
    consumer.close()
    return sorted(found)


@pytest.mark.slow
def test_offsets_are_committed_with_transactions_although_their_coordinators_die(tmp_path: Path):
    """Each message is copied once, with coordinators of groups and transactions on three nodes."""
    settings: dict[str, Any] = {"topics.replication": 3}
    with running_cluster(tmp_path, 3, **settings) as nodes:
        for name in (TOPIC, "copies"):
            created = nodes[0].post("/topics", {"name": name, "partitions": 3})
            assert created.status_code < 300, created.text
        writer = Producer({"bootstrap.servers": servers(nodes), "enable.idempotence": True})
        consumer = Consumer(
            {
                "bootstrap.servers": servers(nodes),
                "group.id": "copiers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([TOPIC])
        producer = Producer({"bootstrap.servers": servers(nodes), "transactional.id": "copier"})
        producer.init_transactions(SECONDS_MAX)
        sent: list[str] = []
        for victim in (None, nodes[1], nodes[2]):
            some = [f"{len(sent) + number:03}" for number in range(30)]
            sent += some
            for text in some:
                writer.produce(TOPIC, text)
            writer.flush(SECONDS_MAX)
            if victim is not None:
                victim.kill()
            process(nodes, consumer, producer, len(some))
            if victim is not None:
                victim.start()
        consumer.close()
        assert copies(nodes, len(sent)) == sent
