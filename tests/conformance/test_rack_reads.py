"""Consumers with `client.rack` read from the follower in their rack, and go back to the leader."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.cluster_processes import COMMAND, NodeProcess, running_cluster

TOPIC = "orders"
WAIT_S = 60.0
READ = re.compile(rf'^goqueue_messages_consumed_total\{{topic="{TOPIC}"\}} (\S+)$', re.MULTILINE)

Eventually = Callable[..., None]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    """Node 2 leads the topic's partition; nodes 1 and 3 follow."""
    directory = tmp_path_factory.mktemp("racks")
    with running_cluster(directory, 3, has_racks=True) as nodes:
        admin = AdminClient({"bootstrap.servers": nodes[0].kafka})
        made = admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[2, 3, 1]])])
        made[TOPIC].result(WAIT_S)
        yield nodes


def produce(nodes: list[NodeProcess], *values: str, **settings: str) -> None:
    servers = ",".join(node.kafka for node in nodes)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all", **settings})
    if "transactional.id" not in settings:
        for value in values:
            producer.produce(TOPIC, value, partition=0)
        assert producer.flush(WAIT_S) == 0
        return
    producer.init_transactions(WAIT_S)
    for value in values:
        producer.begin_transaction()
        producer.produce(TOPIC, value, partition=0)
        producer.flush(WAIT_S)
        end = producer.abort_transaction if "abort" in value else producer.commit_transaction
        end(WAIT_S)


@contextmanager
def consumer_in(
    nodes: list[NodeProcess], rack: str, **settings: str
) -> Iterator[confluent_kafka.Consumer]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ",".join(node.kafka for node in nodes),
            "group.id": "readers",
            "client.rack": rack,
            **settings,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: confluent_kafka.Consumer, until: str) -> list[str]:
    """All values, the last one included."""
    found: list[str] = []
    for _ in range(int(WAIT_S * 10)):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
            if found[-1] == until:
                return found
    raise AssertionError(f"{until} was not read: {found}")


def served(node: NodeProcess) -> int:
    """Messages of the topic that this node gave to consumers."""
    text = httpx.get(f"{node.http}/metrics", trust_env=False, timeout=WAIT_S).text
    found = READ.search(text)
    return 0 if found is None else int(float(found[1]))


def test_a_follower_in_the_rack_serves_and_the_leader_when_it_is_gone(
    nodes: list[NodeProcess], eventually: Eventually
):
    leader, follower = nodes[1], nodes[2]
    produce(nodes, *"abc")
    with consumer_in(nodes, "rack-3") as consumer:
        assert read(consumer, "c") == ["a", "b", "c"]
        assert (served(leader), served(follower)) == (0, 3)
        threading.Timer(0.5, produce, (nodes, "d")).start()  # the consumer waits by then
        assert read(consumer, "d") == ["d"]
        assert (served(leader), served(follower)) == (0, 4)
        follower.kill()
        produce(nodes[:2], "e")
        assert read(consumer, "e") == ["e"]
        assert served(leader) == 1
    follower.start()
    eventually(lambda: _isr(leader) == [1, 2, 3], within_s=WAIT_S)


def test_without_a_rack_the_leader_serves(nodes: list[NodeProcess]):
    before = served(nodes[1])
    with consumer_in(nodes, "") as consumer:
        assert read(consumer, "e") == [*"abcde"]
    assert served(nodes[1]) == before + 5


def test_committed_reads_from_a_follower_leave_out_what_was_aborted(nodes: list[NodeProcess]):
    values = ["kept", "aborted", "kept too", "aborted too", "last"]
    produce(nodes, *values, **{"transactional.id": "writer"})
    leader_before = served(nodes[1])
    with consumer_in(nodes, "rack-3", **{"isolation.level": "read_committed"}) as consumer:
        assert read(consumer, "last") == [*"abcde", "kept", "kept too", "last"]
    assert served(nodes[1]) == leader_before


def test_the_command_line_shows_racks(nodes: list[NodeProcess]):
    command = [sys.executable, "-P", "-c", COMMAND, "--server", nodes[0].http]
    shown = subprocess.run(
        [*command, "cluster", "nodes"], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    for number in (1, 2, 3):
        assert f"rack-{number}" in shown.stdout


def _isr(node: NodeProcess) -> list[int]:
    info = node.get(f"/cluster/partition/{TOPIC}/0/info")
    return sorted(info["place"]["isr"])
