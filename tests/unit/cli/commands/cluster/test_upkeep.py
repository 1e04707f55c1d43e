"""`goqueue cluster events` and `upgrade`."""

import json
from typing import Any

from tests.unit.cli.invocation import run

EVENT = {
    "number": 1,
    "at": "2026-01-31T12:00:00.000Z",
    "kind": "leader_elected",
    "text": "t-0: node 2 leads, in epoch 3",
    "node_id": 2,
    "topic": "t",
    "partition": 0,
}
FEATURE = {
    "name": "transaction.version",
    "level": 1,
    "is_finalized": False,
    "min_level": 1,
    "max_level": 2,
    "meaning": "KIP-890",
}


def test_events_are_listed(answers: Any):
    answers["/cluster/events"] = {"events": [EVENT]}
    assert "node 2 leads" in run("-o", "table", "cluster", "events", code=0).stdout
    assert json.loads(run("cluster", "events", code=0).stdout) == [EVENT]


def test_levels_are_shown_and_raised_only_when_finalized(answers: Any):
    answers["/cluster/features"] = {"features": [FEATURE], "nodes": []}
    assert "1 to 2" in run("-o", "table", "cluster", "upgrade", code=0).stdout
    assert "sent" not in answers
    run("cluster", "upgrade", "--finalize", code=0)
    assert answers["sent"] == {"dry_run": False}
    run("cluster", "upgrade", "--feature", "transaction.version=2", code=0)
    assert answers["sent"] == {"levels": {"transaction.version": 2}, "dry_run": True}
    run("cluster", "upgrade", "--feature", "transaction.version=high", code=1)
