"""Clients write and read while the leaders of all partitions move on and on: once, and in order.

pytest -m slow tests/conformance/test_moving_leaders.py
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiokafka
import confluent_kafka
import pytest

from tests.conformance.test_cluster_clients import PARTITIONS, WAIT_S, Cluster, cluster

__all__ = ["cluster"]  # the fixture

MESSAGES = 3_000
MOVES = 6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@contextmanager
def moving(cluster: Cluster, topic: str, until: Callable[[], bool]) -> Iterator[list[list[int]]]:
    """Move the leaders, until that is so and there were some moves; gives where they were."""
    seen: list[list[int]] = []
    over = threading.Event()

    def move() -> None:
        while not over.wait(0.3) and (len(seen) < MOVES or not until()):
            seen.append(cluster.leaders(topic))
            cluster.move_leaders(topic)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield seen
        mover.join(WAIT_S * 2)
    finally:
        over.set()
        mover.join()


def check(found: dict[int, list[int]]) -> None:
    for partition, numbers in found.items():
        wanted = [number for number in range(MESSAGES) if number % len(PARTITIONS) == partition]
        assert numbers == wanted, f"partition {partition}"


def test_librdkafka_loses_and_doubles_nothing(cluster: Cluster):
    topic = "moves-librdkafka"
    cluster.create(topic)
    servers = ",".join(cluster.address(number) for number in cluster.nodes)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 1}
    )
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "client.rack": "rack-2"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in PARTITIONS])
    found: dict[int, list[int]] = {each: [] for each in PARTITIONS}
    failures: list[object] = []

    def note(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    def count() -> int:
        return sum(map(len, found.values()))

    with moving(cluster, topic, lambda: count() >= MESSAGES) as seen:
        for number in range(MESSAGES):
            producer.produce(
                topic, str(number), partition=number % len(PARTITIONS), on_delivery=note
            )
            message = consumer.poll(0.001)
            _take(message, found)
        assert producer.flush(WAIT_S) == 0
        end = time.monotonic() + WAIT_S
        while count() < MESSAGES and time.monotonic() < end:
            _take(consumer.poll(0.1), found)
    consumer.close()
    assert not failures
    assert len(seen) >= MOVES
    check(found)


def _take(message: confluent_kafka.Message | None, found: dict[int, list[int]]) -> None:
    if message is not None and message.error() is None:
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        found[partition].append(int(value))


def test_aiokafka_loses_and_doubles_nothing(cluster: Cluster):
    topic = "moves-aiokafka"
    cluster.create(topic)
    servers = [cluster.address(number) for number in cluster.nodes]
    found: dict[int, list[int]] = {each: [] for each in PARTITIONS}

    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        async with producer:
            sent = [
                await producer.send(topic, str(number).encode(), partition=number % len(PARTITIONS))
                for number in range(MESSAGES)
            ]
            await asyncio.gather(*sent)

    async def read() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="earliest"
        )
        consumer.assign([aiokafka.TopicPartition(topic, each) for each in PARTITIONS])
        async with consumer:
            async for message in consumer:
                found[message.partition].append(int(message.value or b""))
                if sum(map(len, found.values())) >= MESSAGES:
                    return

    async def both() -> None:
        async with asyncio.timeout(WAIT_S * 5), asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            tasks.create_task(read())

    with moving(cluster, topic, lambda: True) as seen:
        asyncio.run(both())
    assert len(seen) >= MOVES
    check(found)
