"""Waiting for replicas that move."""

import json
from typing import Any

import pytest

from tests.unit.cli.commands.cluster.cluster_answers import MOVING, moving
from tests.unit.cli.invocation import run


def test_programs_that_wait_for_moves_get_a_line_at_each_look(
    answers: Any, monkeypatch: pytest.MonkeyPatch
):
    looks = iter([moving()])

    def end(_seconds: float) -> None:
        answers["/admin/reassignment"] = next(looks)

    monkeypatch.setattr("goqueue.cli.commands.cluster.copies.time.sleep", end)
    answers["/admin/reassignment"] = moving(MOVING)
    shown = run("cluster", "reassign", "--wait", code=0).stdout
    lines = [json.loads(each) for each in shown.splitlines()]
    assert [each["bytes_left"] for each in lines] == [2000, 0]
