"""`goqueue cluster rebalance`, `add` and `replace`."""

import json
from typing import Any

import pytest

from tests.unit.cli.commands.cluster.cluster_answers import MOVING, moving
from tests.unit.cli.invocation import run

MOVE = {"topic": "t", "partition": 0, "replicas": [1, 2], "new_replicas": [3, 2], "bytes": 5}
LOAD = {
    "node_id": 3,
    "replicas": 0,
    "new_replicas": 1,
    "leaders": 0,
    "new_leaders": 1,
    "bytes": 0,
    "new_bytes": 5,
}
PLAN = {"moves": [MOVE], "nodes": [LOAD], "bytes": 5, "reassignment": None}


@pytest.fixture(autouse=True)
def plan(answers: Any) -> None:
    answers["/admin/rebalance"] = PLAN
    answers["/admin/reassignment"] = moving()


def test_a_dry_run_shows_loads_and_moves(answers: Any):
    shown = run("-o", "table", "cluster", "rebalance", "--dry-run", code=0).stdout
    assert "0 -> 1" in shown
    assert "3 2" in shown
    assert answers["sent"]["dry_run"]
    assert json.loads(run("cluster", "rebalance", "--dry-run", code=0).stdout) == PLAN


def test_nodes_that_leave_get_a_share_or_are_replaced(answers: Any):
    run("cluster", "rebalance", "--without", "2,3", "--throttle", "none", code=0)
    assert answers["sent"]["without"] == [2, 3]
    assert answers["sent"]["throttle_bytes_per_sec"] == 0
    run("cluster", "add", 4, code=0)
    assert answers["sent"]["onto"] == 4
    run("cluster", "replace", 3, "--with", 4, code=0)
    assert (answers["sent"]["replace"], answers["sent"]["with"]) == (3, 4)
    run("cluster", "rebalance", "--without", "x", code=2)


def test_whoever_waits_sees_the_copies(answers: Any):
    answers["/admin/rebalance"] = {**PLAN, "reassignment": moving(MOVING)}
    lines = run("cluster", "rebalance", "--wait", code=0).stdout.splitlines()
    assert [json.loads(each)["partitions"] for each in lines] == [[]]
