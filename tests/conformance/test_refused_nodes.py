"""Nodes that must not join, and what cannot be placed: refused, with what to do about it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.client import Client
from tests.conformance.cluster_processes import COMMAND, NodeProcess, running_cluster

WAIT_S = 60.0
REFUSED = 1

Eventually = Callable[..., None]


def refusal(directory: Path, number: int, **settings: object) -> str:
    """What a server says that does not start."""
    arguments = ["server", "--data-dir", str(directory), "--node-id", str(number)]
    arguments += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "error"]
    for name, value in {"cluster.listen": "127.0.0.1:0", **settings}.items():
        arguments += ["--set", f"{name}={value}"]
    ended = subprocess.run(
        [sys.executable, "-P", "-c", COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert ended.returncode == REFUSED, (ended.returncode, ended.stderr[-2000:])
    return ended.stdout + ended.stderr


def run_cli(node: NodeProcess, *arguments: str) -> None:
    command = [sys.executable, "-P", "-c", COMMAND, "--server", node.http, *arguments]
    subprocess.run(command, check=True, timeout=2 * WAIT_S, stdout=subprocess.DEVNULL)


def nodes_with_replicas(node: NodeProcess) -> set[int]:
    with Client(node.http) as client:
        places = client.topic_places()
    return {each for topic in places for part in topic.partitions for each in part.replicas}


@pytest.mark.slow
def test_wrong_nodes_are_refused_and_the_cluster_goes_on(tmp_path: Path, eventually: Eventually):
    with running_cluster(tmp_path, 2) as (first, second):
        eventually(lambda: first.states() == {1: "active", 2: "active"}, within_s=WAIT_S)
        seed = {"cluster.seeds": first.cluster}

        same_number = refusal(tmp_path / "empty", 2, **seed)
        assert "node 2" in same_number
        assert "is running" in same_number

        other = tmp_path / "other"
        other.mkdir()
        with running_cluster(other, 2) as (_, stranger):
            assert stranger.terminate() == 0
        wrong_cluster = refusal(other / "2", 2, **seed)
        assert "another cluster" in wrong_cluster

        second.kill()
        eventually(lambda: first.states()[2] == "fenced", within_s=WAIT_S)
        second.start()
        eventually(lambda: first.states() == {1: "active", 2: "active"}, within_s=WAIT_S)

        too_many = first.post("/topics", {"name": "wide", "replication_factor": 5})
        assert too_many.status_code == 400, too_many.text
        assert "5" in too_many.text
        assert "2" in too_many.text


@pytest.mark.slow
def test_a_dead_node_is_replaced(tmp_path: Path, eventually: Eventually):
    """Node 4 gets all replicas of node 3, which is removed then and does not come back."""
    with running_cluster(tmp_path, 4) as (first, _, third, fourth):
        everybody = dict.fromkeys((1, 2, 3, 4), "active")
        eventually(lambda: first.states() == everybody, within_s=WAIT_S)
        body = {"name": "orders", "partitions": 8, "replication_factor": 3}
        assert first.post("/topics", body).status_code == 201
        messages = {"messages": [{"value": str(each)} for each in range(50)]}
        assert first.post("/topics/orders/messages", messages).status_code < 300
        third.kill()
        eventually(lambda: first.states()[3] == "fenced", within_s=WAIT_S)
        run_cli(first, "cluster", "replace", "3", "--with", "4", "--wait")
        assert 3 not in nodes_with_replicas(fourth)
        run_cli(first, "cluster", "remove", "3", "--yes")
        assert "removed" in refusal(tmp_path / "3", 3, **{"cluster.seeds": first.cluster})


@pytest.mark.slow
def test_a_node_says_that_it_does_not_reach_etcd(tmp_path: Path):
    said = refusal(tmp_path, 1, **{"cluster.quorum": "etcd://127.0.0.1:1/nobody"})
    assert "etcd" in said
    assert "127.0.0.1:1" in said
