"""`goqueue logout`: secrets go, the server's address stays."""

from goqueue.cli import contexts
from goqueue.cli.contexts import ContextFile, ServerContext
from tests.unit.cli.invocation import facts, run


def test_every_secret_of_the_context_is_forgotten_and_no_other():
    entry = ServerContext("https://a:1", "key", 5.0, "alice", "pw", "ca.pem", "c.pem", "c.key")
    contexts.save(ContextFile("a", {"a": entry, "b": entry}))
    assert facts("logout") == {"context": "a", "server": "https://a:1"}
    left = contexts.load().contexts
    assert left["a"] == ServerContext("https://a:1", timeout=5.0, ca_file="ca.pem")
    assert left["b"] == entry
    facts("logout", "--context", "b")
    assert contexts.load().contexts["b"] == left["a"]


def test_without_a_context_there_is_nothing_to_leave():
    assert "--context" in run("logout", code=2).stderr
    run("logout", "--context", "none", code=2)
