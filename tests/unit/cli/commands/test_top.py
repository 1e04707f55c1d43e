"""`goqueue top`: what changes, for people and for programs."""

import json

import pytest

from tests.unit.cli.invocation import run


@pytest.mark.usefixtures("server")
def test_each_look_is_a_line_for_programs():
    run("topic", "create", "busy", "--partitions", 1, code=0)
    run("produce", "busy", "-m", "hello", code=0)
    run("consume", "busy", "--group", "slow", "--max", 1, "--from", "earliest", code=None)
    lines = run("top", "-n", 2, "-i", "50ms", "--rows", 1_000, code=0).stdout.splitlines()
    first, second = map(json.loads, lines)
    assert second["at"] > first["at"]
    (node,) = second["nodes"]
    assert (node["state"], second["missing_nodes"]) == ("active", [])
    assert node["memory_bytes"] > 1_000_000
    assert "busy" in {each["topic"] for each in second["topics"]}


@pytest.mark.usefixtures("server")
def test_people_see_tables():
    run("topic", "create", "shown", "--partitions", 1, code=0)
    run("produce", "shown", "-m", "hello", code=0)
    arguments = ("top", "-n", 1, "-i", "50ms", "--rows", 1_000, "-o", "table")
    drawn = run(*arguments, code=0).stdout
    assert "goqueue top" in drawn
    assert "messages/s in" in drawn
    for heading in ("NODE", "TOPIC", "GROUP", "OLDEST"):
        assert heading in drawn
    assert "shown" in drawn


def test_an_interval_that_is_none_is_refused():
    assert "--interval" in run("top", "--interval", "soon", code=2).output
