"""Nodes that are drained or removed, and elections."""

import json
from typing import Any

from tests.unit.cli.commands.cluster.cluster_answers import NODE
from tests.unit.cli.invocation import run


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
