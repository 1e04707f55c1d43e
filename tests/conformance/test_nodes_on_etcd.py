"""Three servers on a real etcd: the controller is killed, the next one decides."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

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
