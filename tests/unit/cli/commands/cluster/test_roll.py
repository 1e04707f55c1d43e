"""`goqueue cluster roll`: one node after the other, the controller last."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.cli.session import Session
from goqueue.client import Client
from tests.unit.cli.commands.cluster.cluster_answers import NODE, health
from tests.unit.cli.invocation import run


class Cluster:
    """Nodes 1, the controller, and 2; a restart takes effect at the third look."""

    def __init__(self) -> None:
        self.epochs = {1: 1, 2: 2}
        self.calls: list[str] = []
        self.is_supervised = True
        self.looks = 0

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {**NODE, "node_id": each, "epoch": epoch, "is_controller": each == 1, "leaders": 0}
            for each, epoch in self.epochs.items()
        ]

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        words = path.split("/")
        if path == "/cluster/nodes":
            return httpx.Response(200, json={"nodes": self.nodes()})
        if path == "/cluster/state":
            return httpx.Response(200, json=self._state())
        self.calls.append(f"{words[4]} {words[3]}")
        if words[4] == "drain":
            node = next(each for each in self.nodes() if each["node_id"] == int(words[3]))
            return httpx.Response(200, json={**node, "state": "draining"})
        if not self.is_supervised:
            error = {"code": "policy_violation", "message": "nobody would start it", "details": {}}
            return httpx.Response(422, json={"error": error})
        self.epochs[int(words[3])] += 10
        return httpx.Response(202, json={"node_id": int(words[3]), "epoch": 1})

    def _state(self) -> dict[str, Any]:
        self.looks += 1
        found = {**health("healthy"), "under_replicated": 0, "offline": 0}
        if self.looks % 3 == 1:
            found["under_replicated"] = 1
        return {
            "cluster_id": "c",
            "controller_id": 1,
            "controller_epoch": 1,
            "features": {},
            "health": found,
            "nodes": self.nodes(),
        }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    transport = httpx.MockTransport(made.answer)
    monkeypatch.setattr(Session, "client", lambda _: Client("http://x", transport=transport))
    monkeypatch.setattr("goqueue.cli.commands.cluster.roll.LOOK_SECONDS", 0.001)
    return made


def test_each_node_is_drained_and_restarted_and_the_controller_is_the_last(cluster: Cluster):
    lines = [json.loads(each) for each in run("cluster", "roll", code=0).stdout.splitlines()]
    assert cluster.calls == ["drain 2", "restart 2", "drain 1", "restart 1"]
    steps = [(each["node_id"], each["step"]) for each in lines]
    assert steps == [
        *((2, "drained"), (2, "restarting"), (2, "done")),
        *((1, "drained"), (1, "restarting"), (1, "done")),
    ]


def test_a_node_without_a_supervisor_is_waited_for(cluster: Cluster):
    cluster.is_supervised = False
    failed = run("-o", "table", "cluster", "roll", "--node", 2, "--wait-s", 1, code=1)
    assert "node 2: restart it now" in failed.stdout
    assert "waited 1 s until it is back, in vain" in failed.stderr


def test_a_command_may_restart_a_node(cluster: Cluster, tmp_path: Path):
    touch = f"touch {tmp_path}/restarted-{{node}}"
    run("cluster", "roll", "--node", 2, "--command", touch, "--wait-s", 1, code=1)
    assert (tmp_path / "restarted-2").exists()
    failed = run("cluster", "roll", "--node", 2, "--command", "false", code=1)
    assert "exit code 1" in failed.stderr
    assert cluster.calls == ["drain 2", "drain 2"]


def test_the_order_is_shown_and_nodes_that_are_not_there_are_refused(cluster: Cluster):
    shown = run("-o", "table", "cluster", "roll", "--dry-run", code=0).stdout
    assert [each.split(":")[0] for each in shown.splitlines()] == ["node 2", "node 1"]
    run("cluster", "roll", "--node", 9, code=4)
    run("cluster", "roll", "--node", "x", code=2)
    assert not cluster.calls
