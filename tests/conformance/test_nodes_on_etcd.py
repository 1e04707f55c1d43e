"""Three servers on a real etcd: any of them is killed, the others decide and coordinate."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from tests.conformance.cluster_processes import NodeProcess
from tests.conformance.etcd_server import EtcdServers

WAIT_S = 60.0

Eventually = Callable[..., None]


@contextmanager
def three_nodes(directory: Path, etcd: EtcdServers) -> Iterator[list[NodeProcess]]:
    quorum = f"{etcd.endpoints[0].replace('http:', 'etcd:')}/nodes"
    settings = {"cluster.quorum": quorum, "cluster.machine": ""}
    with ExitStack() as stack:
        nodes = []
        for number in (1, 2, 3):
            settings["cluster.machine"] = f"machine{number}"
            node = NodeProcess(number, directory, **settings)
            stack.callback(node.kill)
            node.start()
            nodes.append(node)
        yield nodes


def controller_of(nodes: list[NodeProcess]) -> int | None:
    """The node that all of them name."""
    try:
        named = {node.get("/cluster/quorum")["controller_id"] for node in nodes}
    except httpx.HTTPError:
        return None
    return named.pop() if len(named) == 1 else None


def create(node: NodeProcess, name: str) -> int:
    return node.post("/topics", {"name": name, "partitions": 3}).status_code


def has_all_replicas(node: NodeProcess) -> bool:
    """The topics of the coordinators among them."""
    found = node.get("/cluster/health")
    return bool(found["partitions"]) and not found["under_replicated"] and not found["reassigning"]


class Client:
    """One producer with transactions, and one group."""

    def __init__(self, nodes: list[NodeProcess]) -> None:
        self._servers = ",".join(each.kafka for each in nodes)
        self._producer = Producer(
            {"bootstrap.servers": self._servers, "transactional.id": "tx", "linger.ms": 0}
        )
        self._producer.init_transactions(WAIT_S)

    def write(self, text: str) -> None:
        """In one transaction to all partitions of `orders`."""
        self._producer.begin_transaction()
        for index in range(3):
            self._producer.produce("orders", f"{text}-{index}", partition=index)
        self._producer.commit_transaction(WAIT_S)

    def read(self, count: int) -> set[str]:
        """What the group has not read, and commit it."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["orders"])
        found: set[str] = set()
        ends_at = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < ends_at:
            for message in consumer.consume(100, timeout=0.2):
                assert message.error() is None, message.error()
                found.add(message.value().decode())
        consumer.commit(asynchronous=False)
        consumer.close()
        return found


@pytest.mark.slow
def test_groups_and_transactions_go_on_without_the_node_that_formed_the_cluster(
    tmp_path: Path, eventually: Eventually
):
    etcd = EtcdServers(tmp_path / "etcd")
    try:
        etcd.start()
        with three_nodes(tmp_path, etcd) as nodes:
            everybody = {1: "active", 2: "active", 3: "active"}
            eventually(lambda: all(each.states() == everybody for each in nodes), within_s=WAIT_S)
            assert create(nodes[0], "orders") == 201
            eventually(lambda: has_all_replicas(nodes[0]), within_s=WAIT_S)
            client = Client(nodes)
            client.write("one")
            assert client.read(3) == {"one-0", "one-1", "one-2"}
            for victim in nodes:
                victim.kill()
                killed_at = time.monotonic()
                client.write(f"without {victim.number}")
                print(f"a transaction {time.monotonic() - killed_at:.2f} s after the kill")
                found = client.read(3)
                print(f"its messages read {time.monotonic() - killed_at:.2f} s after the kill")
                assert found == {f"without {victim.number}-{index}" for index in range(3)}
                victim.start()
                eventually(lambda: has_all_replicas(nodes[0]), within_s=WAIT_S)
    finally:
        etcd.stop()


@pytest.mark.slow
def test_the_cluster_goes_on_without_any_one_of_its_nodes(tmp_path: Path, eventually: Eventually):
    etcd = EtcdServers(tmp_path / "etcd")
    everybody = {1: "active", 2: "active", 3: "active"}
    try:
        etcd.start()
        with three_nodes(tmp_path, etcd) as nodes:
            eventually(lambda: all(each.states() == everybody for each in nodes), within_s=WAIT_S)
            assert create(nodes[2], "orders") == 201
            assert controller_of(nodes) == 1
            sent = nodes[0].post("/topics/orders/messages", {"messages": [{"value": "kept"}]})
            assert sent.status_code in (200, 201, 503), sent.text  # 503: another node leads it

            nodes[0].kill()
            killed_at = time.monotonic()
            others = nodes[1:]
            eventually(lambda: controller_of(others) in (2, 3), within_s=WAIT_S)
            print(f"another controller after {time.monotonic() - killed_at:.2f} s")
            eventually(lambda: others[0].states()[1] == "fenced", within_s=WAIT_S)
            print(f"the former one was fenced after {time.monotonic() - killed_at:.2f} s")
            assert create(others[1], "after-the-kill") == 201
            nodes[0].start()
            eventually(lambda: nodes[0].states() == everybody, within_s=WAIT_S)
            assert controller_of(nodes) in (2, 3), "who comes back takes nothing"

            leader = next(each for each in nodes if each.number == controller_of(nodes))
            assert leader.terminate() == 0
            rest = [each for each in nodes if each is not leader]
            eventually(lambda: controller_of(rest) not in (None, leader.number), within_s=WAIT_S)
            assert create(rest[0], "after-the-stop") == 201
            assert sorted(rest[1].get("/topics")["topics"]) == [
                "after-the-kill",
                "after-the-stop",
                "orders",
            ]
    finally:
        etcd.stop()
