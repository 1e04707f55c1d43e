"""Three nodes as real processes, clients that remember what they were told, and faults."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.cli.nodes.plan import free_ports
from goqueue.client import Client
from goqueue.client.errors import ClientError
from goqueue.log import Log, open_log
from goqueue.model.ids import Offset
from goqueue.model.settings import topic_settings
from goqueue.runtime import RealDisk
from tests.chaos.processes import ANSWER_S, Server, Witness, number_of

NODES = 3
LISTENERS = ("kafka", "http", "cluster")
ALL_BYTES = 1 << 30
FOLLOW_S = 60.0  # until everybody is in sync again

T = TypeVar("T")


class Cluster:
    """Without a quorum node 1 has the metadata; on etcd (`quorum`) no node is special."""

    def __init__(
        self,
        directory: Path,
        quorum: str = "",
        hosts: Sequence[str] = ("127.0.0.1",) * NODES,
        **settings: object,
    ) -> None:
        self.directory = directory
        self.quorum = quorum
        with free_ports() as take:
            addresses = [
                {each: f"{host}:{take('127.0.0.1')}" for each in LISTENERS} for host in hosts
            ]
        self.nodes = {
            number: self._node(number, each, addresses[0]["cluster"], settings)
            for number, each in enumerate(addresses, start=1)
        }

    def _node(
        self, number: int, addresses: dict[str, str], seed: str, settings: dict[str, object]
    ) -> Server:
        chosen: dict[str, object] = {
            f"{name}__listen": address for name, address in addresses.items()
        }
        if self.quorum:
            chosen["cluster__quorum"] = self.quorum
        elif number != 1:
            chosen["cluster__seeds"] = seed
        chosen |= settings
        return Server(self.directory / str(number), None, node_id=number, **chosen)

    @property
    def bootstrap(self) -> str:
        return ",".join(each.address for each in self.nodes.values())

    @contextlib.contextmanager
    def running(self) -> Iterator["Cluster"]:
        try:
            for each in self.nodes.values():
                each.start()
            yield self
        finally:
            for each in self.nodes.values():
                if each.is_running:
                    each.kill()

    def start_all(self, numbers: Iterable[int]) -> None:
        """At the same time, as after a power cut."""
        with ThreadPoolExecutor(NODES) as pool:
            list(pool.map(lambda number: self.nodes[number].start(), numbers))

    def stop(self, within_s: float) -> list[int]:
        """In good order, node 1 last; gives the exit codes."""
        return [self.nodes[number].terminate(within_s) for number in sorted(self.nodes)[::-1]]

    # --- what its nodes say -----------------------------------------------------------------------

    def ask(self, look: Callable[[Client], T]) -> T | None:
        """The first node's answer; None when none answers."""
        for each in self.nodes.values():
            with (
                contextlib.suppress(ClientError),
                Client(each.http, timeout=2, retries=0) as client,
            ):
                return look(client)
        return None

    def controller(self) -> int | None:
        found = self.ask(lambda client: client.cluster_quorum())
        return None if found is None else found.controller_id

    def leader(self, topic: str, partition: int) -> int | None:
        places = self.ask(lambda client: client.topic_places()) or []
        found = [each for topics in places if topics.name == topic for each in topics.partitions]
        return next((each.leader for each in found if each.partition == partition), None)

    def is_in_sync(self, *topics: str, least: int = NODES) -> bool:
        """At least so many replicas of each partition of the topics, or of every topic."""
        found = self.ask(lambda client: client.topic_places())
        if found is None:
            return False
        chosen = [each for each in found if not topics or each.name in topics]
        return len(chosen) >= len(topics) and all(
            len(each.isr) >= min(least, len(each.replicas)) and each.leader is not None
            for topic in chosen
            for each in topic.partitions
        )

    def is_whole(self) -> bool:
        """All nodes answer; no partition waits for a replica to commit.

        On a busy machine a replica may be left out for its slowness for long: that is not a fault.
        """
        nodes = self.ask(lambda client: client.cluster_nodes())
        is_active = nodes is not None and all(each.state == "active" for each in nodes)
        return is_active and self.is_in_sync(least=2)

    def log(self) -> str:
        return "\n".join(f"--- node {n}\n{each.log()}" for n, each in self.nodes.items())


class ClusterWitness(Witness):
    """Its producer repeats what was not answered: then nothing is refused, or there twice."""

    def __init__(self, topic: str, partitions: int, seed: int) -> None:
        super().__init__(topic, partitions, seed)
        self.gap_s = 0.0  # the longest time without an ack in a partition that is written to
        self._last_ack: dict[int, float] = {}
        self._forgot_at = 0.0

    def create_replicated(self, cluster: Cluster, **config: str) -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        named = {name.replace("_", "."): value for name, value in config.items()}
        made = admin.create_topics([NewTopic(self.topic, self.partitions, NODES, config=named)])
        made[self.topic].result(ANSWER_S)

    def repeating_producer(self, cluster: Cluster) -> Producer:
        return Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 1_500,  # until it asks others about a leader that hangs
                "linger.ms": 1,
                "batch.num.messages": 50,
                "log_level": 0,
            }
        )

    def forget_gap(self) -> None:
        """Counted from now on, in every partition."""
        self._forgot_at = now = time.monotonic()
        self.gap_s = 0.0
        self._last_ack = dict.fromkeys(range(self.partitions), now)

    @property
    def has_acked_everywhere(self) -> bool:
        """In the last second, since the gap was forgotten."""
        now = time.monotonic()
        return all(max(now - 1, self._forgot_at) < each for each in self._last_ack.values())

    def _answered(self, number: int, error: object, message: Message) -> None:
        super()._answered(number, error, message)
        now, partition = time.monotonic(), message.partition() or 0
        self.gap_s = max(self.gap_s, now - self._last_ack.get(partition, now))
        self._last_ack[partition] = now


class Reader:
    """Reads all partitions from their beginning, while nodes come and go."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.seen: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]  # offset, number
        self._cluster = cluster
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(ANSWER_S)

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "check.crcs": True,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        everything = range(len(self.seen))
        consumer.assign([TopicPartition(self._topic, i, OFFSET_BEGINNING) for i in everything])
        try:
            while not self._ended.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    place = (message.offset() or 0, number_of(message.value() or b""))
                    self.seen[message.partition() or 0].append(place)
        finally:
            consumer.close()

    def has_seen(self, witness: Witness) -> bool:
        return all(
            not acked or (seen and seen[-1][0] >= max(acked))
            for acked, seen in zip(witness.acked, self.seen, strict=True)
        )

    def check(self, witness: Witness) -> None:
        """Every acked message once, where it was said to be, in order."""
        for acked, elsewhere, seen in zip(
            witness.acked, witness.acked_somewhere, self.seen, strict=True
        ):
            offsets = [offset for offset, _ in seen]
            assert offsets == sorted(set(offsets)), "a reader went back, or saw an offset twice"
            found = dict(seen)
            missing = [offset for offset in acked if found.get(offset) != acked[offset]]
            assert not missing, f"acked, and not read: {missing[:5]}"
            lost = elsewhere.difference(found.values())
            assert not lost, f"messages acked, and not read: {sorted(lost)}"


def check_replicas_agree(cluster: Cluster, topic: str, partitions: int) -> None:
    """After a stop: below the lowest high watermark, the logs are the same to the byte."""
    disk = RealDisk()
    try:
        for index in range(partitions):
            logs = [
                open_log(disk, f"{each.data_dir}/logs/{topic}/{index}", topic_settings({}))[0]
                for each in cluster.nodes.values()
            ]
            limit = Offset(min(each.high_watermark for each in logs))
            first, *others = [_content(each, limit) for each in logs]
            assert all(each == first for each in others), f"replicas of {topic}-{index} differ"
    finally:
        disk.close()


def _content(log: Log, limit: Offset) -> bytes:
    parts: list[bytes] = []
    offset = log.start_offset
    while offset < limit:
        chunk = log.read(offset, ALL_BYTES, limit)
        parts.append(bytes(chunk.data))
        offset = chunk.next_offset
    return b"".join(parts)
