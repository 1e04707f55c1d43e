"""A replay's plan outlives the process that made it."""

from pathlib import Path

import pytest

from goqueue.spark.replay.plans import VERSION, Plan, PlanFile, ReplayRefused
from goqueue.spark.replay.windows import Span

ASKED = {"to": "x"}
PLAN = Plan(VERSION, ASKED, {0: Span(0, 10)}, 5)


def test_the_first_plan_stays_though_the_source_has_grown(tmp_path: Path):
    PlanFile(tmp_path, "a").find_or_make(ASKED, lambda: PLAN)
    later = Plan(VERSION, ASKED, {0: Span(0, 99)}, 5)
    assert PlanFile(tmp_path, "a").find_or_make(ASKED, lambda: later) == PLAN


def test_progress_is_kept(tmp_path: Path):
    file = PlanFile(tmp_path / "not" / "there", "a")
    plan = file.find_or_make(ASKED, lambda: PLAN)
    file.note(plan, done=7, finished=True)
    found = file.find_or_make(ASKED, lambda: PLAN)
    assert (found.done, found.finished) == (7, True)


def test_another_replay_of_the_same_name_is_refused(tmp_path: Path):
    file = PlanFile(tmp_path, "a")
    file.find_or_make(ASKED, lambda: PLAN)
    with pytest.raises(ReplayRefused, match="another to, where"):
        file.find_or_make({"to": "y", "where": "true"}, lambda: PLAN)


def test_a_damaged_file_is_named(tmp_path: Path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ReplayRefused, match=r"a\.json"):
        PlanFile(tmp_path, "a").find_or_make(ASKED, lambda: PLAN)
