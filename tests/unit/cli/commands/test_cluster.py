"""`goqueue cluster`, with a server's answers made by hand."""

import json
from typing import Any

import httpx
import pytest

from goqueue.cli.session import Session
from goqueue.client import Client
from tests.unit.cli.invocation import run

NODE = {
    "node_id": 1,
    "state": "active",
    "is_controller": True,
    "addresses": {"kafka": "127.0.0.1:9092"},
    "rack": "",
    "machine": "m",
    "leaders": 1,
    "replicas": 1,
    "epoch": 1,
    "incarnation": 1,
    "directory_id": "d",
}
PLACE = {
    "partition": 0,
    "leader": 1,
    "leader_epoch": 0,
    "partition_epoch": 0,
    "replicas": [1, 2],
    "isr": [1],
    "elr": [],
    "offline": [2],
    "adding": [],
    "removing": [],
}
TOPIC = {
    "name": "t",
    "topic_id": "i",
    "replication_factor": 2,
    "min_insync_replicas": 2,
    "partitions": [PLACE, {**PLACE, "partition": 1, "leader": None}],
}
QUORUM = {
    "log": "__metadata",
    "is_controller": True,
    "term": 3,
    "end_offset": 9,
    "committed_offset": 9,
    "members": [{"name": "this node", "address": "", "is_leader": True, "problem": ""}],
}


def health(status: str) -> dict[str, Any]:
    counts = dict.fromkeys(
        (
            *("nodes", "active_nodes", "topics", "partitions", "under_replicated"),
            *("under_min_isr", "offline", "not_preferred", "reassigning"),
        ),
        1,
    )
    return {"status": status, "node_id": 1, "is_controller": True, "controller_id": 1, **counts}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """By path; a test may change them."""
    found: dict[str, Any] = {
        "/cluster/nodes": {"nodes": [NODE]},
        "/cluster/topics": {"topics": [TOPIC]},
        "/cluster/quorum": QUORUM,
    }

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=found[request.url.path])

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(Session, "client", lambda _: Client("http://x", transport=transport))
    return found


@pytest.mark.parametrize(
    ("status", "code"), [("healthy", 0), ("under_replicated", 2), ("offline", 3)]
)
def test_the_exit_code_says_how_the_cluster_is_doing(answers: Any, status: str, code: int):
    answers["/cluster/state"] = {
        "cluster_id": "c",
        "controller_id": 1,
        "controller_epoch": 1,
        "features": {},
        "health": health(status),
        "nodes": [NODE],
    }
    assert json.loads(run("cluster", "status", code=code).stdout)["health"]["status"] == status
    shown = run("--output", "table", "cluster", "status", code=code).stdout
    assert status.replace("_", "-") in shown


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("nodes", ["127.0.0.1:9092", "active"]),
        ("topics", ["UNDER-REPLICATED", "t"]),
        ("leaders", ["none", "1 2"]),
        ("quorum", ["this node (leader)", "9 of 9"]),
    ],
)
def test_tables_for_people_and_json_for_programs(answers: Any, command: str, texts: list[str]):
    shown = run("--output", "table", "cluster", command, code=0).stdout
    assert all(text in shown for text in texts), shown
    assert json.loads(run("cluster", command, code=0).stdout)
