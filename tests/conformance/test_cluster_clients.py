"""Real clients against three nodes: any node will do, and they go on when leaders move."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import aiokafka
import confluent_kafka
import httpx
import kafka
import msgspec
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kio.schema.errors import ErrorCode

from goqueue.cli.nodes.plan import free_ports
from goqueue.model.config import ClusterConfig, GroupsConfig
from goqueue.wire.apis import ApiKey
from tests.conformance.clients import Aiokafka, Client, Confluent, KafkaPython
from tests.conformance.conftest import free_port_config
from tests.conformance.raw import raw_client
from tests.conformance.server import Server

NODES = (1, 2, 3)
PARTITIONS = range(3)
WAIT_S = 60.0

Eventually = Callable[..., None]
Write = Callable[[int, bytes], None]


class Cluster:
    """Each node is taken for a machine of its own, so a topic has three replicas."""

    def __init__(self, directory: Any) -> None:
        with free_ports() as take:
            ports = {number: take("127.0.0.1") for number in NODES}
        self.nodes = {}
        for number in NODES:
            cluster = ClusterConfig(
                listen=f"127.0.0.1:{ports[number]}",
                seeds=[] if number == 1 else [f"127.0.0.1:{ports[1]}"],
                machine=f"machine-{number}",
                rack=f"rack-{number}",
            )
            config = free_port_config(directory / str(number))
            self.nodes[number] = Server(
                msgspec.structs.replace(
                    config,
                    node_id=number,
                    cluster=cluster,
                    groups=GroupsConfig(initial_rebalance_delay_ms=0),
                )
            )

    def address(self, number: int) -> str:
        return self.nodes[number].address

    def ask(self, number: int, api: ApiKey, **fields: Any) -> Any:
        with raw_client(self.nodes[number].host_and_port) as client:
            return client.ask(api, **fields)

    def create(self, topic: str) -> None:
        """Asked of a node that does not decide."""
        admin = AdminClient({"bootstrap.servers": self.address(3)})
        made = admin.create_topics([NewTopic(topic, len(PARTITIONS), 3)])
        made[topic].result(WAIT_S)

    def leaders(self, topic: str, asked: int = 2) -> list[int]:
        answer = self.ask(asked, ApiKey.METADATA, topics=[{"name": topic}])
        return [each.leader_id for each in answer.topics[0].partitions]

    def move_leaders(self, topic: str) -> None:
        """To the next node each, through a node that does not decide."""
        partitions = [
            {
                "partition_index": index,
                "replicas": [each % 3 + 1 for each in (now, now + 1, now + 2)],
            }
            for index, now in enumerate(self.leaders(topic))
        ]
        moved = self.ask(
            2,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            topics=[{"name": topic, "partitions": partitions}],
        )
        assert all(not each.error_code.value for each in moved.responses[0].partitions)
        elected = self.ask(
            3,
            ApiKey.ELECT_LEADERS,
            election_type=0,
            topic_partitions=[{"topic": topic, "partitions": list(PARTITIONS)}],
        )
        results = elected.replica_election_results[0].partition_result
        done = {ErrorCode.none, ErrorCode.election_not_needed}  # it may lead by itself by then
        assert {each.error_code for each in results} <= done, results


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        for node in cluster.nodes.values():
            node.start()
        yield cluster
        for node in cluster.nodes.values():
            assert node.is_running, node.log()
            assert "Traceback" not in node.log(), node.log()
    finally:
        for node in cluster.nodes.values():
            node.kill()


# --- clients that stay connected ------------------------------------------------------------------


@contextlib.contextmanager
def confluent(address: str, topic: str) -> Iterator[Write]:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "acks": "all"})

    def write(partition: int, value: bytes) -> None:
        outcome: list[Any] = []
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: outcome.append(error)
        )
        producer.flush(WAIT_S)
        assert outcome == [None]

    yield write


@contextlib.contextmanager
def kafka_python(address: str, topic: str) -> Iterator[Write]:
    producer = kafka.KafkaProducer(bootstrap_servers=address, acks="all")
    yield lambda partition, value: producer.send(topic, value, partition=partition).get(WAIT_S)
    producer.close()


@contextlib.contextmanager
def aio(address: str, topic: str) -> Iterator[Write]:
    with asyncio.Runner() as runner:

        async def started() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, acks="all")
            await producer.start()
            return producer

        producer = runner.run(started())

        async def send(partition: int, value: bytes) -> None:
            await asyncio.wait_for(
                producer.send_and_wait(topic, value, partition=partition), WAIT_S
            )

        yield lambda partition, value: runner.run(send(partition, value))
        runner.run(producer.stop())


CLIENTS: dict[str, tuple[Any, Client]] = {
    "confluent": (confluent, Confluent()),
    "kafka-python": (kafka_python, KafkaPython()),
    "aiokafka": (aio, Aiokafka()),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_goes_on_when_leaders_move(cluster: Cluster, name: str, eventually: Eventually):
    connect, reader = CLIENTS[name]
    topic = f"moving-{name}"
    cluster.create(topic)
    before = cluster.leaders(topic)
    assert sorted(before) == list(NODES)
    with connect(cluster.address(2), topic) as write:
        for partition in PARTITIONS:
            write(partition, b"before")
        cluster.move_leaders(topic)
        for partition in PARTITIONS:
            write(partition, b"after")
    after = [leader % 3 + 1 for leader in before]
    for node in NODES:
        eventually(partial(_has_leaders, cluster, topic, node, after))
    for partition in PARTITIONS:
        found = reader.read(cluster.address(3), topic, 2, partition=partition, offset=0)
        assert [each.message.value for each in found] == [b"before", b"after"]


def _has_leaders(cluster: Cluster, topic: str, asked: int, leaders: list[int]) -> bool:
    return cluster.leaders(topic, asked) == leaders


def test_a_group_and_a_transaction_span_the_nodes(cluster: Cluster):
    topic = "spanning"
    cluster.create(topic)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.address(3), "transactional.id": "spanning"}
    )
    producer.init_transactions(WAIT_S)
    for value, end in (
        (b"committed", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
        (b"committed", producer.commit_transaction),
    ):
        producer.begin_transaction()
        for partition in PARTITIONS:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(WAIT_S) == 0
        end(WAIT_S)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.address(2),
            "group.id": "spanning",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found = consumer.consume(2 * len(PARTITIONS), timeout=WAIT_S)
    assert Counter(each.value() for each in found) == {b"committed": 2 * len(PARTITIONS)}
    consumer.commit(asynchronous=False)
    places = [confluent_kafka.TopicPartition(topic, index) for index in PARTITIONS]
    assert all(each.offset > len(NODES) for each in consumer.committed(places, WAIT_S))
    consumer.close()


def test_a_topic_grows_while_clients_run(cluster: Cluster, eventually: Eventually):
    """Producers by key go on, a group takes the new partitions, and so does a queue."""
    topic, keys, rounds = "growing", [b"key-%d" % number for number in range(20)], 0
    cluster.create(topic)
    refresh = {"topic.metadata.refresh.interval.ms": 500}
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.address(2), **refresh})
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.address(3),
            "group.id": topic,
            "auto.offset.reset": "earliest",
            **refresh,
        }
    )
    consumer.subscribe([topic])
    found: list[confluent_kafka.Message] = []

    def write_and_read() -> None:
        nonlocal rounds
        for key in keys:
            producer.produce(topic, b"value", key=key, on_delivery=_refuse_failure)
        assert producer.flush(WAIT_S) == 0
        rounds += 1
        found.extend(consumer.consume(100, timeout=0.2))

    def uses_all() -> bool:
        write_and_read()
        return {each.partition() for each in found} == set(range(6))

    def has_all() -> bool:
        found.extend(consumer.consume(100, timeout=0.2))
        return len(found) >= rounds * len(keys)

    write_and_read()
    places = _receive(cluster, topic)
    admin = AdminClient({"bootstrap.servers": cluster.address(3)})
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(WAIT_S)
    eventually(uses_all)
    eventually(has_all)
    consumer.close()
    assert sorted(cluster.leaders(topic)) == [1, 1, 2, 2, 3, 3]
    assert Counter(each.key() for each in found) == dict.fromkeys(keys, rounds)
    for _ in range(rounds * len(keys)):
        if len(places) >= rounds * len(keys):
            break
        places |= _receive(cluster, topic)
    assert len(places) == rounds * len(keys)
    assert {partition for partition, _ in places} == set(range(6))


def _refuse_failure(error: object, _message: object) -> None:
    assert error is None, error


def _receive(cluster: Cluster, topic: str) -> set[tuple[int, int]]:
    """As a queue, at a node that does not decide: partition and offset of each message."""
    url = f"http://{cluster.nodes[2].http_address}/queues/{topic}/receive"
    body = {"group": "workers", "consumer": "c", "max_messages": 100, "wait": "1s"}
    answer = httpx.post(url, json=body, trust_env=False, timeout=WAIT_S)
    assert answer.status_code == 200, answer.text
    return {(each["partition"], each["offset"]) for each in answer.json()["messages"]}
