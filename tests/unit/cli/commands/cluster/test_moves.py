"""`goqueue cluster reassign`."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.commands.cluster.cluster_answers import MOVING, moving
from tests.unit.cli.invocation import run


def test_replicas_move_by_topic_or_by_the_file_of_kafkas_tool(answers: Any, tmp_path: Path):
    answers["/admin/reassignment"] = moving(MOVING)
    shown = run("-o", "table", "cluster", "reassign", "--topic", "t", "--to", "2", code=0).stdout
    assert "2 1" in shown
    assert "2000" in shown
    assert [each["new_replicas"] for each in answers["sent"]["partitions"]] == [[2], [2]]
    run("cluster", "reassign", "--topic", "t", "--partition", 1, "--cancel", code=0)
    assert answers["sent"]["partitions"] == [{"topic": "t", "partition": 1, "new_replicas": None}]
    file = tmp_path / "moves.json"
    file.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,1]}]}')
    run("cluster", "reassign", "--file", file, "--throttle", "2MB", code=0)
    assert answers["sent"]["partitions"][0]["new_replicas"] == [3, 1]
    assert answers["sent"]["throttle_bytes_per_sec"] == 2_000_000
    answers["/admin/reassignment"] = moving()
    assert "nothing moves" in run("-o", "table", "cluster", "reassign", code=0).stderr
    run("cluster", "reassign", "--throttle", "none", code=0)
    assert answers["sent"] == {"partitions": [], "throttle_bytes_per_sec": 0}


def test_a_move_that_is_refused_ends_with_1(answers: Any):
    answers["/admin/reassignment"] = moving({**MOVING, "state": "failed", "error": "no node 9"})
    refused = run("cluster", "reassign", "--topic", "t", "--to", "9", "--wait", code=1)
    assert "1 partition could not be moved" in refused.stderr


@pytest.mark.usefixtures("answers")
def test_a_topic_that_is_not_there_is_not_moved():
    run("cluster", "reassign", "--topic", "missing", "--to", "1", code=4)


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize(
    "arguments",
    [
        *(("--to", "1"), ("--topic", "t"), ("--topic", "t", "--to", "a"), ("--file", "missing")),
        *(("--throttle", "fast"), ("--throttle", "0"), ("--status", "--cancel")),
    ],
)
def test_moves_that_make_no_sense_end_with_2(arguments: tuple[str, ...]):
    run("cluster", "reassign", *arguments, code=2)
