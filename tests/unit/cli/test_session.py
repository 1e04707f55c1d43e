"""Which server a command talks to."""

from pathlib import Path

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.session import Session
from tests.unit.cli.test_contexts import add


def test_flag_before_variable_before_context_before_default(monkeypatch: pytest.MonkeyPatch):
    session = Session()
    assert session.target().server == "http://localhost:8080"
    add("a", "http://a:1", "--api-key", "k")
    assert session.target().server == "http://a:1"
    monkeypatch.setenv("GOQUEUE_SERVER", "b:2")
    monkeypatch.setenv("GOQUEUE_TIMEOUT", "3")
    assert (session.target().server, session.target().timeout) == ("http://b:2", 3.0)
    session.server, session.timeout = ":3", 4.0
    assert (session.target().server, session.target().timeout) == ("http://localhost:3", 4.0)


def test_a_key_does_not_go_to_a_server_it_is_not_for(monkeypatch: pytest.MonkeyPatch):
    add("a", "http://a:1", "--api-key", "k")
    session = Session()
    session.server = "http://other:1"
    assert session.target().api_key is None
    session.server = None
    monkeypatch.setenv("GOQUEUE_SERVER", "http://other:1")
    assert session.target().api_key is None
    session.context = "a"
    assert session.target().api_key == "k"


@pytest.mark.parametrize("text", ["contexts: 3", "a: [", "contexts: {a: {timeout: soon}}"])
def test_a_broken_file_is_named(tmp_path: Path, text: str):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(UsageFailure, match=r"config\.yaml"):
        Session().target()


def test_bad_variables_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GOQUEUE_TIMEOUT", "soon")
    with pytest.raises(UsageFailure, match="GOQUEUE_TIMEOUT"):
        Session().target()
    monkeypatch.setenv("GOQUEUE_OUTPUT", "xml")
    with pytest.raises(UsageFailure, match="xml"):
        Session().output_format()


def test_a_login_in_variables_replaces_that_of_the_context(monkeypatch: pytest.MonkeyPatch):
    add("a", "http://a:1", "--api-key", "k")
    monkeypatch.setenv("GOQUEUE_CA_FILE", "ca.pem")
    monkeypatch.setenv("GOQUEUE_USER", "alice")
    with pytest.raises(UsageFailure, match="GOQUEUE_PASSWORD"):
        Session().target()
    monkeypatch.setenv("GOQUEUE_PASSWORD", "hidden")
    target = Session().target()
    assert (target.api_key, target.user, target.password) == (None, "alice", "hidden")
    assert target.ca_file == "ca.pem"
    assert "hidden" not in repr(target)
    monkeypatch.setenv("GOQUEUE_API_KEY", "gq_1")
    assert (Session().target().api_key, Session().target().user) == ("gq_1", None)
