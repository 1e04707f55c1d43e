"""Named servers: the file, the commands, and which one a command talks to."""

import stat
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from goqueue.cli import contexts
from goqueue.cli.failures import UsageFailure
from goqueue.cli.main import app
from goqueue.cli.session import Session

VARIABLES = (
    "GOQUEUE_SERVER",
    "GOQUEUE_CONTEXT",
    "GOQUEUE_API_KEY",
    "GOQUEUE_TIMEOUT",
    "GOQUEUE_OUTPUT",
)


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "folder" / "config.yaml"
    monkeypatch.setenv("GOQUEUE_CONFIG", str(path))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["config", *arguments])


def add(name: str, server: str, *more: str) -> None:
    assert run("set-context", name, "--server", server, *more).exit_code == 0


def test_the_first_context_is_used_at_once_and_only_its_owner_reads_the_file(file: Path):
    add("staging", "http://staging:1", "--api-key", "secret", "--timeout", "5")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    target = Session().target()
    assert (target.server, target.api_key, target.timeout) == ("http://staging:1", "secret", 5.0)


def test_a_context_can_be_changed_in_part_chosen_and_deleted():
    add("a", "http://a:1", "--api-key", "k")
    add("b", "http://b:1")
    assert run("set-context", "a", "--timeout", "7").exit_code == 0
    assert contexts.load().contexts["a"] == contexts.ServerContext("http://a:1", "k", 7.0)
    assert run("use-context", "b").exit_code == 0
    assert Session().target().server == "http://b:1"
    assert run("delete-context", "b").exit_code == 0
    assert contexts.load().current_context is None
    assert run("delete-context", "b").exit_code == 4
    assert run("use-context", "b").exit_code == 2
    assert run("set-context", "c").exit_code == 2


def test_keys_are_hidden_unless_asked_for():
    add("a", "http://a:1", "--api-key", "secret")
    assert "secret" not in run("view").output
    assert "secret" in run("view", "--show-keys").output


def test_the_one_in_use_is_marked():
    add("a", "http://a:1")
    add("b", "http://b:1")
    listed = msgspec.json.decode(run("get-contexts").stdout)
    assert listed == [
        {"name": "a", "server": "http://a:1", "current": True},
        {"name": "b", "server": "http://b:1", "current": False},
    ]
    assert "CURRENT" in run("get-contexts", "--output", "table").stdout


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
def test_a_broken_file_is_named(file: Path, text: str):
    file.parent.mkdir()
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
