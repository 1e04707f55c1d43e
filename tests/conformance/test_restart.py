"""Clients live through a restart of the server, and lose nothing that was acknowledged."""

import threading
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.clients import WAIT_S, Aiokafka, Confluent, KafkaPython, Message
from tests.conformance.server import Server

MESSAGES = [Message(b"k", b"%d" % n) for n in range(300)]


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize(
    "reader", [Confluent(), KafkaPython(), Aiokafka()], ids=lambda each: type(each).__name__
)
def test_what_was_acknowledged_is_there_after_a_restart(how: str, reader: Any, own_server: Server):
    Confluent().write(own_server.address, "survivors", MESSAGES)
    before = AdminClient(own_server.bootstrap).list_topics(timeout=WAIT_S)
    getattr(own_server, how)()
    own_server.start()
    after = AdminClient(own_server.bootstrap).list_topics(timeout=WAIT_S)
    assert after.cluster_id == before.cluster_id
    assert after.topics.keys() == before.topics.keys()
    read = reader.read(own_server.address, "survivors", len(MESSAGES))
    assert [each.message for each in read] == MESSAGES


def test_a_producer_and_a_consumer_go_on_by_themselves(
    own_server: Server, eventually: Callable[..., None]
):
    """One idempotent producer and one consumer, before, during and after."""
    admin = AdminClient(own_server.bootstrap)
    admin.create_topics([NewTopic("on-and-on", 1, 1)])["on-and-on"].result(WAIT_S)
    quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    producer = confluent_kafka.Producer(
        {**own_server.bootstrap, **quick, "enable.idempotence": True, "linger.ms": 0}
    )
    with Follower(own_server.bootstrap | quick, "on-and-on") as follower:
        write(producer, b"before")
        assert producer.flush(WAIT_S) == 0
        eventually(lambda: len(follower.values) == 100, within_s=WAIT_S)
        own_server.stop()
        write(producer, b"during")
        own_server.start()
        assert producer.flush(WAIT_S) == 0
        write(producer, b"after")
        assert producer.flush(WAIT_S) == 0
        eventually(lambda: len(follower.values) >= 300, within_s=WAIT_S)
    expected = [
        b"%s-%d" % (when, n) for when in (b"before", b"during", b"after") for n in range(100)
    ]
    assert follower.values == expected


def write(producer: Any, name: bytes) -> None:
    for n in range(100):
        producer.produce("on-and-on", b"%s-%d" % (name, n), partition=0)
    producer.poll(0)


class Follower:
    """Reads on in a thread of its own."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._consumer = confluent_kafka.Consumer(
            {**settings, "group.id": "unused", "enable.auto.commit": False}
        )
        self._consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self.values: list[bytes] = []

    def _follow(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append(message.value())

    def __enter__(self) -> "Follower":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()
