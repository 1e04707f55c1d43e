"""Three nodes as real processes: a killed leader loses no delayed message and repeats none."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from goqueue.client import Client
from tests.chaos.cluster import Cluster, ClusterWitness

TOPIC = "late"
PARTITIONS = 3
COUNT = 1_500
SPREAD_MS = 12_000
WITHIN_S = 120.0


def schedule(cluster: Cluster, due: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "delivery.timeout.ms": 90_000,
            "log_level": 0,
        }
    )
    refused: list[object] = []
    for number in range(COUNT):
        headers = {"gq-deliver-at": str(due + number * SPREAD_MS // COUNT)}
        producer.produce(
            TOPIC,
            str(number),
            partition=number % PARTITIONS,
            headers=headers,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(WITHIN_S) == 0
    assert not refused


def read_all(cluster: Cluster) -> Counter[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    found = Counter[int]()
    ends, quiet = time.monotonic() + WITHIN_S, 0
    while time.monotonic() < ends and quiet < 5:
        message = consumer.poll(1)
        if message is None:
            quiet = quiet + 1 if len(found) == COUNT else 0
        elif message.error() is None:
            found[int(message.value() or b"")] += 1
    consumer.close()
    return found


def delivered(cluster: Cluster) -> int:
    found = cluster.ask(lambda client: client.delay_stats())
    return 0 if found is None else found.total.delivered


def wait_until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < ends


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_leaders_keep_every_delay_and_deliver_each_once(tmp_path: Path):
    with Cluster(tmp_path, topics__replication=3).running() as cluster:
        ClusterWitness(TOPIC, PARTITIONS, seed=1).create_replicated(cluster)
        due = time.time_ns() // 1_000_000 + 8_000
        schedule(cluster, due)
        for partition in range(2):
            least = partition * COUNT // 3
            wait_until(lambda: delivered(cluster) > least)  # noqa: B023
            leader = cluster.leader(TOPIC, partition)
            assert leader is not None
            cluster.nodes[leader].kill()
            wait_until(lambda: cluster.leader(TOPIC, partition) not in (None, leader))  # noqa: B023
            cluster.nodes[leader].start()
        assert read_all(cluster) == Counter(range(COUNT))
        with Client(cluster.nodes[1].http) as client:
            figures = client.delay_stats().total
        assert (figures.pending, figures.delivered) == (0, COUNT)
