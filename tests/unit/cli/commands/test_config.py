"""`goqueue config`: contexts are made, changed, chosen, shown and deleted."""

import msgspec

from goqueue.cli import contexts
from goqueue.cli.session import Session
from tests.unit.cli.invocation import run
from tests.unit.cli.test_contexts import add


def test_a_context_can_be_changed_in_part_chosen_and_deleted():
    add("a", "http://a:1", "--api-key", "k")
    add("b", "http://b:1")
    assert run("config", "set-context", "a", "--timeout", "7").exit_code == 0
    assert contexts.load().contexts["a"] == contexts.ServerContext("http://a:1", "k", 7.0)
    assert run("config", "use-context", "b").exit_code == 0
    assert Session().target().server == "http://b:1"
    assert run("config", "delete-context", "b").exit_code == 0
    assert contexts.load().current_context is None
    assert run("config", "delete-context", "b").exit_code == 4
    assert run("config", "use-context", "b").exit_code == 2
    assert run("config", "set-context", "c").exit_code == 2


def test_keys_are_hidden_unless_asked_for():
    add("a", "http://a:1", "--api-key", "secret")
    assert "secret" not in run("config", "view").output
    assert "secret" in run("config", "view", "--show-keys").output


def test_the_one_in_use_is_marked():
    add("a", "http://a:1")
    add("b", "http://b:1")
    listed = msgspec.json.decode(run("config", "get-contexts").stdout)
    assert listed == [
        {"name": "a", "server": "http://a:1", "current": True},
        {"name": "b", "server": "http://b:1", "current": False},
    ]
    assert "CURRENT" in run("config", "get-contexts", "--output", "table").stdout


def test_a_login_is_not_taken_along_to_another_server():
    add("a", "http://a:1", "--api-key", "secret")
    add("a", "http://b:1")
    assert contexts.load().contexts["a"] == contexts.ServerContext("http://b:1")
