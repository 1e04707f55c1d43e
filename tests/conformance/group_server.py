"""A broker in a hurry: groups form at once, members come often, and dead ones soon expire."""

import functools
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.model.config import Config, GroupsConfig, HttpConfig, KafkaConfig
from tests.conformance.server import Server

SESSION_MS = 2_500
HEARTBEAT_MS = 200
PARTITIONS = 4

GROUPS = GroupsConfig(
    initial_rebalance_delay_ms=0,
    session_timeout_ms=SESSION_MS,
    session_timeout_ms_min=500,
    heartbeat_interval_ms=HEARTBEAT_MS,
)


class GroupServer(Server):
    def __init__(self, directory: Path) -> None:
        super().__init__(
            Config(
                data_dir=str(directory),
                kafka=KafkaConfig(listen="127.0.0.1:0"),
                http=HttpConfig(listen="127.0.0.1:0"),
                groups=GROUPS,
            )
        )
        self._topics = 0

    @functools.cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self.bootstrap)

    def topic(self, partitions: int = PARTITIONS, *, prefix: str = "topic") -> str:
        """A new topic."""
        self._topics += 1
        name = f"{prefix}-{self._topics}"
        (created,) = self.admin.create_topics([NewTopic(name, partitions)]).values()
        created.result(10)
        return name

    def fill(self, topic: str, count: int, partitions: int = PARTITIONS, *, start: int = 0) -> None:
        """Messages `start` to `start + count`, dealt to the partitions in turn."""
        producer = Producer({**self.bootstrap, "linger.ms": 1})
        for number in range(start, start + count):
            producer.produce(topic, str(number).encode(), partition=number % partitions)
        assert producer.flush(20) == 0
