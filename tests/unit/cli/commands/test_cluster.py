"""`goqueue cluster`, with a server's answers made by hand."""

import json
from pathlib import Path
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
        if request.content:
            found["sent"] = json.loads(request.content)
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


def test_a_node_is_drained_and_undrained(answers: Any):
    answers["/cluster/nodes/1/drain"] = {**NODE, "state": "draining"}
    answers["/cluster/nodes/1/undrain"] = {**NODE, "leaders": 0}
    shown = run("--output", "table", "cluster", "drain", 1, code=0).stdout
    assert shown == "node 1 is draining, but still leads 1 that nobody else can\n"
    assert run("--output", "table", "cluster", "undrain", 1, code=0).stdout == "node 1 is active\n"


def test_a_node_is_removed_only_when_asked_twice(answers: Any):
    answers["/cluster/nodes/3"] = {"node_id": 3}
    run("cluster", "remove", 3, code=2)
    assert json.loads(run("cluster", "remove", 3, "--force", code=0).stdout)["removed"]


def test_an_unclean_election_is_asked_for_with_two_words(answers: Any):
    elected = {"topic": "t", "partition": 0, "leader": 2, "error": ""}
    answers["/cluster/leader-election"] = {"results": [elected]}
    assert "--i-accept-loss" in run("cluster", "elect", "--unclean", code=2).stderr
    run("cluster", "elect", "--unclean", "--i-accept-loss", code=0)
    answers["/cluster/leader-election"] = {"results": [{**elected, "error": "nobody answers"}]}
    assert "1 partition could not be given a leader" in run("cluster", "elect", code=1).stderr


def test_replicas_move_by_topic_or_by_the_file_of_kafkas_tool(answers: Any, tmp_path: Path):
    moving = {"topic": "t", "partition": 0, "replicas": [2, 1], "adding": [2], "removing": [1]}
    answers["/admin/reassignment"] = {"partitions": [moving]}
    shown = run("-o", "table", "cluster", "reassign", "--topic", "t", "--to", "2", code=0).stdout
    assert "2 1" in shown
    assert [each["new_replicas"] for each in answers["sent"]["partitions"]] == [[2], [2]]
    run("cluster", "reassign", "--topic", "t", "--partition", 1, "--cancel", code=0)
    assert answers["sent"] == {"partitions": [{"topic": "t", "partition": 1, "new_replicas": None}]}
    file = tmp_path / "moves.json"
    file.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,1]}]}')
    run("cluster", "reassign", "--file", file, code=0)
    assert answers["sent"]["partitions"][0]["new_replicas"] == [3, 1]
    answers["/admin/reassignment"] = {"partitions": []}
    assert "nothing moves" in run("-o", "table", "cluster", "reassign", code=0).stderr


@pytest.mark.usefixtures("answers")
def test_a_topic_that_is_not_there_is_not_moved():
    run("cluster", "reassign", "--topic", "missing", "--to", "1", code=4)


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize(
    "arguments",
    [("--to", "1"), ("--topic", "t"), ("--topic", "t", "--to", "a"), ("--file", "missing")],
)
def test_moves_that_make_no_sense_end_with_2(arguments: tuple[str, ...]):
    run("cluster", "reassign", *arguments, code=2)
