"""How long do producers wait when a node of three dies, stops, or is restarted?

A librdkafka producer sends a message every few milliseconds to one partition (acks=all,
idempotent).  Then its leader is taken away: killed with -9, or stopped, as a machine that loses its
power or its network looks to the others.  The wait is the longest time between two acks.  At the
end everything is read: every message that was acked, once, in order.

Brokers have their defaults.  The client asks others after `socket.timeout.ms` of silence; the
default of a minute would hide what brokers do.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ElectionType,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clusters import NODES, Cluster
from bench.process import Failed
from bench.session import Section, Session

PARTITIONS = 6
EVERY_SECONDS = 0.005
WAIT_SECONDS = 120.0
LOOK_SECONDS = 0.05
CALM_SECONDS = 1.0  # of acks before the fault, and after it
PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "message.timeout.ms": 300_000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 900,
    "log_level": 0,
}

KILL_LEADER = "leader killed (-9)"
STOP_LEADER = "leader stopped (SIGSTOP)"
KILL_CONTROLLER = "leader killed that is the controller"
ROLL = "all nodes restarted, one by one (SIGTERM)"


class Plan(msgspec.Struct, frozen=True):
    rounds: int  # of each fault


def run(session: Session, plan: Plan) -> Section:
    section = Section(
        "failover",
        f"Longest wait for an ack in seconds, three nodes, {plan.rounds} times each",
        ["fault", "broker", "median", "shortest", "longest"],
        notes=[
            "acks=all; every message that was acked was read back once, in order.",
            "socket.timeout.ms of the client: 900. Brokers have their defaults.",
        ],
    )
    for name in session.names:  # one after the other: nodes that wait work all the same
        with session.running(name) as (broker,):
            assert isinstance(broker, Cluster)
            section.figures += _measure(session, broker, plan)
    section.rows = _rows(session, section.figures)
    return section


def _measure(session: Session, cluster: Cluster, plan: Plan) -> list[dict[str, Any]]:
    topic = f"failover-{os.urandom(4).hex()}"
    admin = AdminClient({"bootstrap.servers": cluster.kafka, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, NODES)])[topic].result(WAIT_SECONDS)
    load = _Load(cluster.kafka, topic)
    figures = []
    faults: dict[str, Callable[[_Load, Cluster, AdminClient], None]] = {
        KILL_LEADER: _kill_leader,
        STOP_LEADER: _stop_leader,
        KILL_CONTROLLER: _kill_controller,
        ROLL: _roll,
    }
    try:
        for number in range(plan.rounds):
            for fault, make in faults.items():
                _wait_in_sync(admin, cluster, topic)
                _spread_leaders(admin, topic)
                make(load, cluster, admin)
                session.tell(f"{cluster.name}: {fault}, {number + 1}: {load.wait:.2f} s")
                figures.append(
                    {"broker": cluster.name, "version": cluster.version, "fault": fault}
                    | {"wait_seconds": load.wait, "verified": True}
                )
    finally:
        load.end()
    load.check()
    return figures


# --- faults ---------------------------------------------------------------------------------------


def _kill_leader(load: "_Load", cluster: Cluster, admin: AdminClient) -> None:
    controller = cluster.controller()
    node = load.send_to(lambda leader: leader != controller, admin)
    _kill(load, cluster, node)


def _kill_controller(load: "_Load", cluster: Cluster, admin: AdminClient) -> None:
    controller = cluster.controller()
    node = load.send_to(lambda leader: leader == controller, admin)
    _kill(load, cluster, node)


def _kill(load: "_Load", cluster: Cluster, node: int) -> None:
    cluster.node(node).kill()
    load.wait_for_acks()
    cluster.launch(node)
    cluster.wait_for(node)


def _stop_leader(load: "_Load", cluster: Cluster, admin: AdminClient) -> None:
    controller = cluster.controller()
    node = load.send_to(lambda leader: leader != controller, admin)
    cluster.node(node).send(signal.SIGSTOP)
    load.wait_for_acks()
    cluster.node(node).send(signal.SIGCONT)


def _roll(load: "_Load", cluster: Cluster, admin: AdminClient) -> None:
    load.send_to(lambda _: True, admin)
    for node in cluster.addresses:
        cluster.node(node).stop()
        cluster.launch(node)
        cluster.wait_for(node)
        _wait_in_sync(admin, cluster, load.topic)
    load.wait_for_acks()


def _wait_in_sync(admin: AdminClient, cluster: Cluster, topic: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not _in_sync(admin, topic):
        if time.monotonic() > deadline:
            raise Failed(f"{cluster.name}: not in sync again\n{cluster.log_tail()}")
        time.sleep(LOOK_SECONDS)


def _spread_leaders(admin: AdminClient, topic: str) -> None:
    """As they were placed: who came back leads its own again."""
    every = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    admin.elect_leaders(ElectionType.PREFERRED, every).result(WAIT_SECONDS)


def _in_sync(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(topic, timeout=WAIT_SECONDS).topics[topic].partitions
    full = [each for each in found.values() if len(each.isrs) == NODES and each.leader > 0]
    return len(full) == PARTITIONS


# --- load -----------------------------------------------------------------------------------------


class _Load:
    """Sends numbers to a partition, and remembers which were acked, where and when."""

    def __init__(self, kafka: str, topic: str) -> None:
        self.topic = topic
        self.wait = 0.0  # the longest between two acks since `send_to`
        self._kafka = kafka
        self._producer = Producer({"bootstrap.servers": kafka, **PRODUCER})
        self._partition: int | None = None
        self._sent = [0] * PARTITIONS
        self._acked: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self._failed: list[str] = []
        self._last_ack = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def send_to(self, wanted: Callable[[int], bool], admin: AdminClient) -> int:
        """Send to a partition with such a leader from now on; gives the leader."""
        found = admin.list_topics(self.topic, timeout=WAIT_SECONDS).topics[self.topic].partitions
        fitting = [number for number, each in found.items() if wanted(each.leader)]
        if not fitting:
            raise Failed(f"no partition of {self.topic} has such a leader: the load is not spread")
        self._partition = fitting[0]
        self.wait_for_acks()
        self.wait = 0.0
        return int(found[fitting[0]].leader)

    def wait_for_acks(self) -> None:
        """Until they come again, for a while without a pause."""
        deadline = time.monotonic() + WAIT_SECONDS
        began = time.monotonic()
        while (now := time.monotonic()) - began < CALM_SECONDS or now - self._last_ack > 0.1:
            if now - self._last_ack > LOOK_SECONDS * 4:
                began = now
            if now > deadline:
                raise Failed("no ack comes any more")
            time.sleep(LOOK_SECONDS)

    def _send(self) -> None:
        while not self._ended.is_set():
            if (partition := self._partition) is not None:
                value = b"%d" % self._sent[partition]
                self._sent[partition] += 1
                self._producer.produce(
                    self.topic, value, partition=partition, on_delivery=self._answered
                )
            self._producer.poll(EVERY_SECONDS)

    def _answered(self, error: object, message: Message) -> None:
        if error is not None:
            self._failed.append(str(error))
            return
        now, partition = time.monotonic(), message.partition() or 0
        if partition == self._partition:
            self.wait = max(self.wait, now - self._last_ack)
        self._last_ack = now
        self._acked[partition].append(int(message.value() or b""))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def check(self) -> None:
        if self._producer.flush(WAIT_SECONDS) or self._failed:
            raise Failed(f"not acked: {self._failed[:3] or 'some'}")
        for partition, sent in enumerate(self._sent):
            found = self._read(partition, sent)
            if found != list(range(sent)):
                raise Failed(f"{self.topic}-{partition}: sent {sent}, and read {len(found)}")

    def _read(self, partition: int, count: int) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self._kafka, "group.id": "check"})
        consumer.assign([TopicPartition(self.topic, partition, OFFSET_BEGINNING)])
        found: list[int] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            some = consumer.consume(10_000, 0.5)
            found += [int(each.value()) for each in some if each.error() is None]
        consumer.close()
        return found


def _rows(session: Session, figures: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for fault in (KILL_LEADER, STOP_LEADER, KILL_CONTROLLER, ROLL):
        middles = {}
        for name in session.names:
            found = [each for each in figures if (each["broker"], each["fault"]) == (name, fault)]
            waits = [each["wait_seconds"] for each in found]
            middles[name] = median(waits)
            version = f"{name} {found[0]['version']}"
            cells = [f"{each:.2f}" for each in (middles[name], min(waits), max(waits))]
            rows.append([fault, version, *cells])
        rows += [
            [fault, f"goqueue / {peer}", f"× {middles['goqueue'] / middles[peer]:.2f}", "", ""]
            for peer in session.peers
        ]
    return rows
