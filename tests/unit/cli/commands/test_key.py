"""`goqueue key`: a key is made, used, listed and deleted."""

import pytest

from tests.unit.cli.invocation import facts, run


@pytest.mark.usefixtures("guarded")
def test_a_key_is_shown_once_used_and_deleted():
    made = facts("key", "create", "ci", "--role", "producer", "--expires-in", "1h")
    with_key = {"GOQUEUE_API_KEY": made["key"]}
    facts("topic", "create", "by-key", env=with_key)
    run("key", "list", env=with_key, code=6)
    (listed,) = [each for each in facts("key", "list") if each["id"] == made["id"]]
    assert (listed["user"], listed["roles"], listed["name"]) == ("ci", ["producer"], "ci")
    assert listed["expires_at"] > listed["created_at"]
    table = run("key", "list", "-o", "table", code=0).stdout
    assert made["id"] in table
    assert made["key"] not in table
    facts("key", "delete", made["id"], "--force")
    run("key", "delete", made["id"], "--force", code=4)
    run("topic", "list", env=with_key, code=6)


@pytest.mark.usefixtures("guarded")
def test_at_a_terminal_the_key_stands_in_a_line_of_its_own():
    made = run("key", "create", "people", "--user", "alice", "-o", "table", code=0)
    assert "key:     gq_" in made.stdout
    assert "not shown again" in made.stderr
