"""A topic is copied by a job of Spark over three nodes, which are killed and started meanwhile."""

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import httpx
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.cluster_processes import NodeProcess, running_cluster
from tests.conformance.transactional_clients import READERS
from tests.spark.crashes.job import Settings

PARTITIONS = 6
REPLICAS = 3
ROWS_A_BATCH = 600
WAIT_S = 120.0


class ClusterScene:
    """The job knows all nodes by their Kafka addresses, and asks them for the others."""

    def __init__(self, directory: Path, nodes: list[NodeProcess], rows: int) -> None:
        self.directory = directory
        self.nodes = nodes
        self.rows = rows
        self.bootstrap = ",".join(node.kafka for node in nodes)
        self.kills = 0

    def settings(self, kind: str) -> Settings:
        return Settings(
            kind=kind,
            bootstrap=self.bootstrap,
            http="",  # as the nodes say
            source="source",
            target="target",
            checkpoint=str(self.directory / "checkpoint"),
            rows_a_batch=ROWS_A_BATCH,
        )

    def feed(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topics = [NewTopic(name, PARTITIONS, REPLICAS) for name in ("source", "target")]
        for made in admin.create_topics(topics).values():
            made.result(WAIT_S)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True}
        )
        for value in self.expected:
            producer.produce("source", value, key=value[-2:])
        assert producer.flush(WAIT_S) == 0

    # --- kills ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def killing(self, *numbers: int, pause_s: float = 1.0) -> Iterator[None]:
        """These nodes in turn, each with -9 and started again, once at least, until the end."""
        over = threading.Event()
        killer = threading.Thread(target=self._kill_in_turn, args=(numbers, pause_s, over))
        killer.start()
        try:
            yield
        finally:
            over.set()
            killer.join()

    def _kill_in_turn(
        self, numbers: tuple[int, ...], pause_s: float, over: threading.Event
    ) -> None:
        for number in itertools.cycle(numbers):
            node = self.nodes[number - 1]
            node.kill()
            self.kills += 1
            node.start()
            if over.wait(pause_s):
                return
            self._wait_in_sync(over)

    def _wait_in_sync(self, over: threading.Event) -> None:
        """Two nodes that are down at once would stop all writers, which is no news."""
        end = time.monotonic() + WAIT_S
        while not over.wait(0.1) and time.monotonic() < end:
            with contextlib.suppress(httpx.HTTPError):
                health = self.nodes[0].get("/cluster/health")
                if not health["under_replicated"]:
                    return

    # --- the comparison ---------------------------------------------------------------------------

    @property
    def expected(self) -> Counter[bytes]:
        return Counter(b"message %d" % number for number in range(self.rows))

    def check(self) -> None:
        read = READERS["confluent"]
        found = Counter(read(self.bootstrap, "target", PARTITIONS, "read_committed"))
        assert found - self.expected == Counter(), "there are duplicates"
        assert self.expected - found == Counter(), "there are losses"
        self.check_transactions()

    def check_transactions(self) -> None:
        left = self.nodes[0].get("/transactions")["transactions"]
        assert left == [], "something is left open"


@contextlib.contextmanager
def cluster_scene(directory: Path, *, batches: int) -> Iterator[ClusterScene]:
    replication: dict[str, Any] = {"topics.replication": REPLICAS}
    with running_cluster(directory, 3, **replication) as nodes:
        scene = ClusterScene(directory, nodes, batches * ROWS_A_BATCH)
        scene.feed()
        yield scene
