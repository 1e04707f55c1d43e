"""A backup of a server under load, restored: nothing that was acked before is missing."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from goqueue.client import Client, Message
from tests.conformance.cli.commands import FREE_PORTS, Run, RunningServer, decoded

Eventually = Callable[..., None]
SMALL_SEGMENTS = ("--set", "topics.partitions=1", "--set", "topics.settings=segment.bytes=20000")
PAIRS_BEFORE = 5


class Load:
    """Everything at once: a producer, a queue worker, a group, and transactions over two topics."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._stop = threading.Event()
        self.acked: list[str] = []  # values the producer was told are safe
        self.done: list[int] = []  # offsets the worker was told are acked
        self.committed: list[int] = []  # transactions that were committed
        self._threads = [
            threading.Thread(target=work)
            for work in (self._produce, self._work_off, self._commit_pairs)
        ]

    def __enter__(self) -> "Load":
        with Client(self._server.url) as client:
            for topic in ("orders", "left", "right"):
                client.create_topic(topic)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def has_begun(self) -> bool:
        return bool(self.done) and len(self.acked) > 500 and len(self.committed) >= PAIRS_BEFORE

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._server.kafka, "acks": "all"})

        def acked(error: object, message: object) -> None:
            assert error is None
            self.acked.append(message.value().decode())  # type: ignore[attr-defined]

        number = 0
        while not self._stop.is_set():
            for _ in range(100):
                producer.produce("orders", f"order-{number:06d}", on_delivery=acked)
                number += 1
            producer.flush(30)

    def _work_off(self) -> None:
        with Client(self._server.url) as client:
            while not self._stop.is_set():
                held = client.receive("orders", "workers", max_messages=20, wait_ms=100)
                if held:
                    client.ack(*held)
                    self.done += [each.offset for each in held]

    def _commit_pairs(self) -> None:
        producer = Producer({"bootstrap.servers": self._server.kafka, "transactional.id": "pairs"})
        producer.init_transactions(30)
        number = 0
        while not self._stop.is_set():
            producer.begin_transaction()
            producer.produce("left", str(number))
            producer.produce("right", str(number))
            producer.commit_transaction(30)
            self.committed.append(number)
            number += 1


def read_committed(server: RunningServer, topic: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.kafka,
            "group.id": "checker",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "neither a message nor the end"
        if message.error():
            consumer.close()
            if message.error().name() == "_PARTITION_EOF":
                return found
            raise KafkaException(message.error())
        found.append(message.value().decode())


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path, *FREE_PORTS, *SMALL_SEGMENTS)
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.log(), server.log()


def test_a_backup_under_load_has_all_that_was_acked_before(
    tmp_path: Path, running: RunningServer, run: Run, eventually: Eventually
):
    with Load(running) as load:
        eventually(lambda: load.has_begun, within_s=60)
        acked, done, committed = list(load.acked), list(load.done), list(load.committed)
        made = decoded(run("backup", str(tmp_path / "backup")))
    assert made["records"] > len(acked)
    assert made["damage"] == []
    assert not any((tmp_path / "data" / "backups").iterdir()), "the server's copy is removed"
    restored = decoded(run("restore", str(tmp_path / "backup"), str(tmp_path / "again" / "data")))
    assert restored["records"] == made["records"]
    again = RunningServer(tmp_path / "again", *FREE_PORTS, *SMALL_SEGMENTS)
    try:
        orders = read_committed(again, "orders")
        assert set(orders) >= set(acked)
        assert len(orders) == len(set(orders))
        eventually(lambda: read_committed(again, "left") == read_committed(again, "right"))
        pairs = [int(value) for value in read_committed(again, "left")]
        assert pairs == list(range(len(pairs))), "no transaction is half visible, or out of order"
        assert len(pairs) >= len(committed)
        with Client(again.url) as client:
            lag = client.group_lag("workers")
            assert 0 <= lag.total_lag <= len(orders)
            client.publish("orders", [Message("after the restore")])
            delivered = client.receive("orders", "workers", max_messages=1000)
            assert not {each.offset for each in delivered} & set(done), "acked before the backup"
    finally:
        assert again.end() == 0
        assert "Traceback" not in again.log()
