"""Transactions of confluent-kafka over three nodes, each a process of its own."""

import json
from pathlib import Path

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
