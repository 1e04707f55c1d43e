"""The broker is killed and started again while members of every client read and commit."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conformance.group_members import KINDS, Journal
from tests.conformance.group_server import PARTITIONS, GroupServer

PAUSE_S = 0.002


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GroupServer]:
    server = GroupServer(tmp_path)
    server.start()
    yield server
    server.kill()


class Traffic:
    """Numbers sent to a topic, one after the other, until it is stopped."""

    def __init__(self, address: str, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._stopping = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._producer.produce(
                self._topic, str(self.sent).encode(), partition=self.sent % PARTITIONS
            )
            self.sent += 1
            self._producer.poll(0)
            self._stopping.wait(PAUSE_S)

    def stop(self) -> int:
        """Wait until all is acknowledged; how many messages that were."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(30) == 0
        return self.sent


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_nobody_reads_below_a_commit_and_nothing_is_skipped(server, kind, eventually):
    topic = server.topic()
    journal = Journal()
    traffic = Traffic(server.address, topic)
    members = [
        KINDS[kind](server.address, "survivors", [topic], journal, name=name)
        for name in ("first", "second")
    ]
    try:
        eventually(lambda: len(journal.values()) > 200)
        server.kill()
        server.start()
        before = len(journal.values())
        eventually(lambda: len(journal.values()) > before + 200, within_s=30)
        sent = traffic.stop()
        eventually(lambda: journal.values() == set(range(sent)), within_s=30)
    finally:
        traffic.stop()
        for member in members:
            member.close()
    journal.check_nobody_reads_below_a_commit()
    journal.check_nothing_is_skipped()


def test_a_group_and_its_offsets_outlive_the_broker(server, eventually):
    topic = server.topic()
    server.fill(topic, 40)
    journal = Journal()
    with KINDS["confluent-consumer"](server.address, "patient", [topic], journal, name="one"):
        eventually(lambda: len(journal.events("committed")) > 0)
        eventually(lambda: journal.values() == set(range(40)))
    server.kill()
    server.start()
    server.fill(topic, 8, start=40)
    with KINDS["kafka-python"](server.address, "patient", [topic], journal, name="two"):
        eventually(lambda: len(journal.events("read", "two")) == 8)
    assert {read.offset for read in journal.events("read", "two")} == {10, 11}
