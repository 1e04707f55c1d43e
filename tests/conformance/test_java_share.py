"""Apache Kafka's own share consumer, in Java, against the broker.

Slow, and skipped where there is no Java or no Maven, like the tests in `test_java`.
"""

import shutil
import subprocess
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer

from goqueue.queue import dead_letter_topic
from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server
from tests.conformance.shares import set_group
from tests.conformance.test_java import LIBRARIES, TOOLS, java, libraries

__all__ = ["libraries"]  # a fixture for all tests here

CONSUMER = "consumer.ConsoleShareConsumer"
TIMEOUT_S = 60

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
    pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven"),
]


def publish(server: Server, topic: str, count: int, size: int = 0) -> None:
    producer = Producer(server.bootstrap)
    for number in range(count):
        producer.produce(topic, f"{number} {'x' * size}".encode())
    assert producer.flush(10) == 0


def arguments(server: Server, topic: str, count: int) -> list[str]:
    where = ["--bootstrap-server", server.address, "--topic", topic, "--group", topic]
    return [*where, "--max-messages", str(count), "--timeout-ms", str(TIMEOUT_S * 1000)]


def consume(server: Server, topic: str, count: int, *more: str) -> list[int]:
    return numbers(java(CONSUMER, *arguments(server, topic, count), *more))


def started(server: Server, topic: str, count: int, *more: str) -> "subprocess.Popen[str]":
    command = ["java", "-cp", f"{LIBRARIES}/*", f"{TOOLS}.{CONSUMER}"]
    command += [*arguments(server, topic, count), *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


def numbers(output: str) -> list[int]:
    return [int(line.split()[0]) for line in output.splitlines() if line[:1].isdigit()]


@pytest.fixture
def topic(server: Server, make_topic: MakeTopic) -> str:
    """Of one partition; the group of the same name begins at its start."""
    name = make_topic(1)
    set_group(server, name, {"share.auto.offset.reset": "earliest"})
    return name


def test_a_group_begins_at_the_end_unless_told_otherwise(
    server: Server, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    publish(server, topic, 10)
    consumer = started(server, topic, 5)
    wait_for_members(server, topic)
    publish(server, topic, 5)
    output, errors = consumer.communicate(timeout=TIMEOUT_S)
    assert sorted(numbers(output)) == list(range(5)), errors


def wait_for_members(server: Server, group: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    where = ("--bootstrap-server", server.address)
    listed = ""
    while time.monotonic() < deadline:
        listed = java("consumer.group.ShareGroupCommand", *where, "--list", "--state")
        if any(line.split() == [group, "Stable"] for line in listed.splitlines()):
            return
    pytest.fail(f"nobody joined {group}: {listed}")


def test_consumers_split_a_partition(server: Server, topic: str) -> None:
    consumers = [started(server, topic, 1_000) for _ in range(2)]
    wait_for_members(server, topic)
    for _ in range(20):
        publish(server, topic, 100)
    got: Counter[int] = Counter()
    for consumer in consumers:
        output, errors = consumer.communicate(timeout=TIMEOUT_S * 2)
        assert len(numbers(output)) >= 1_000, errors
        got.update(numbers(output))
    assert got == Counter(dict.fromkeys(range(100), 20))


def test_released_records_come_back_and_accepted_ones_do_not(server: Server, topic: str) -> None:
    publish(server, topic, 20)
    assert sorted(consume(server, topic, 20, "--release")) == list(range(20))
    assert sorted(consume(server, topic, 20)) == list(range(20))
    publish(server, topic, 1)
    assert consume(server, topic, 1) == [0]


def test_rejected_records_are_dead_letters(server: Server, topic: str) -> None:
    publish(server, topic, 3)
    assert sorted(consume(server, topic, 3, "--reject")) == [0, 1, 2]
    publish(server, topic, 1)
    assert consume(server, topic, 1) == [0]
    reader = Consumer(
        {**server.bootstrap, "group.id": f"{topic}-dead", "auto.offset.reset": "earliest"}
    )
    reader.subscribe([dead_letter_topic(topic)])
    dead = [message for message in reader.consume(3, TIMEOUT_S) if not message.error()]
    reader.close()
    assert len(dead) == 3


def test_records_of_a_killed_consumer_come_back(server: Server, topic: str) -> None:
    set_group(server, topic, {"share.record.lock.duration.ms": "2000"})
    publish(server, topic, 300, size=1_000)
    consumer = started(server, topic, 300)
    assert consumer.stdout is not None
    assert consumer.stdout.readline().startswith("0 ")  # the pipe is full before the last one
    consumer.kill()
    consumer.communicate()
    assert sorted(consume(server, topic, 300)) == list(range(300))


def test_operators_see_and_move_a_group(server: Server, topic: str) -> None:
    """`kafka-share-groups.sh`: list, describe, reset, delete offsets, delete."""

    def command(*words: str) -> str:
        where = ("--bootstrap-server", server.address)
        return java("consumer.group.ShareGroupCommand", *where, *words, "--group", topic)

    def start_offset() -> str:
        lines = command("--describe", "--offsets").splitlines()
        (line,) = [each.split() for each in lines if each.startswith(topic)]
        assert line[:3] == [topic, topic, "0"]
        return line[3]

    publish(server, topic, 7)
    assert sorted(consume(server, topic, 7)) == list(range(7))
    assert f"{topic} " in java(
        "consumer.group.ShareGroupCommand",
        "--bootstrap-server",
        server.address,
        "--list",
        "--state",
    )
    assert "Empty" in command("--describe", "--state")
    assert start_offset() == "7"
    command("--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
    assert start_offset() == "0"
    assert sorted(consume(server, topic, 7)) == list(range(7))
    command("--delete-offsets", "--topic", topic)
    assert sorted(consume(server, topic, 7)) == list(range(7))
    command("--delete")
    listed = java(
        "consumer.group.ShareGroupCommand", "--bootstrap-server", server.address, "--list"
    )
    assert topic not in listed.split()
