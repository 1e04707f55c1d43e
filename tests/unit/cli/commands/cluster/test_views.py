"""`goqueue cluster`, as it shows things."""

import json
from typing import Any

import pytest

from tests.unit.cli.commands.cluster.cluster_answers import NODE, TOPIC, health
from tests.unit.cli.invocation import run


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
        ("coordinators", ["transactions", "2 3 1", "none"]),
    ],
)
def test_tables_for_people_and_json_for_programs(answers: Any, command: str, texts: list[str]):
    shown = run("--output", "table", "cluster", command, code=0).stdout
    assert all(text in shown for text in texts), shown
    assert json.loads(run("cluster", command, code=0).stdout)


def test_sizes_are_shown_by_node(answers: Any):
    place = {**TOPIC["partitions"][0], "sizes": {"1": 1000, "3": 7}}  # type: ignore[index]
    answers["/cluster/topics"] = {"topics": [{**TOPIC, "partitions": [place]}]}
    shown = run("-o", "table", "cluster", "topics", "--sizes", code=0).stdout
    assert "NODE 3" in shown
    assert "1000" in shown
