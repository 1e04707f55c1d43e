"""`goqueue login`: what works is kept, what does not is told."""

import stat
from pathlib import Path

import pytest

from goqueue.cli import contexts
from goqueue.embedding import BrokerInThread
from tests.conformance.certificates import Authority
from tests.unit.cli.invocation import facts, run

SECRET = ("--password-file", "-")


@pytest.fixture
def nobody(guarded: BrokerInThread, monkeypatch: pytest.MonkeyPatch) -> BrokerInThread:
    """Nothing is known of whoever types."""
    for name in ("GOQUEUE_SERVER", "GOQUEUE_USER", "GOQUEUE_PASSWORD"):
        monkeypatch.delenv(name)
    return guarded


def test_a_login_that_works_is_kept_for_the_next_commands(nobody: BrokerInThread, tmp_path: Path):
    as_root = ("login", "--server", nobody.http, "--user", "root", *SECRET)
    wrong = run(*as_root, input="wrong\n", code=6)
    assert "the password is wrong" in wrong.stderr
    assert not contexts.load().contexts
    done = facts(*as_root, input="s3cret\n")
    assert "s3cret" not in str(done)
    assert stat.S_IMODE((tmp_path / "config.yaml").stat().st_mode) == 0o600
    assert "root" in [each["name"] for each in facts("user", "list")]
    assert "s3cret" not in run("config", "view", code=0).output

    facts("logout")
    assert "s3cret" not in (tmp_path / "config.yaml").read_text()
    run("user", "list", code=6)
    kept = contexts.load()
    assert kept.find(kept.current_context or "").server == nobody.http


def test_a_key_is_kept_in_a_context_of_its_own(nobody: BrokerInThread):
    root = {"GOQUEUE_USER": "root", "GOQUEUE_PASSWORD": "s3cret", "GOQUEUE_SERVER": nobody.http}
    key = facts("key", "create", "laptop", "--role", "readonly", env=root)["key"]
    there = ("--server", nobody.http, "--context", "prod")
    assert "--server" in run("login", "--context", "prod", "--api-key", code=2).stderr
    facts("login", *there, "--api-key", *SECRET, input=f"{key}\n")
    assert contexts.load().current_context == "prod"
    facts("topic", "list")
    run("login", *there, "--api-key", "--user", "root", *SECRET, input="x\n", code=2)
    run("login", *there, *SECRET, input="x\n", code=2)  # whose?


def test_a_server_that_demands_no_login_is_told(server: BrokerInThread):
    done = run("login", "--server", server.http, "--user", "a", *SECRET, input="b\n", code=0)
    assert "demands no login" in done.stderr
    assert "certificate" not in done.stderr


def test_an_authority_that_is_not_there_is_told(nobody: BrokerInThread, tmp_path: Path):
    as_root = ("login", "--server", nobody.http, "--user", "root", *SECRET)
    failed = run(*as_root, "--ca-file", tmp_path / "none.pem", input="s3cret\n", code=2)
    assert "none.pem: No such file" in failed.stderr


def test_the_authority_of_a_server_is_named_once(nobody: BrokerInThread, tmp_path: Path):
    ca_file = Authority(tmp_path).file
    as_root = ("login", "--server", nobody.http, "--user", "root", *SECRET)
    facts(*as_root, "--ca-file", ca_file, input="s3cret\n")
    facts(*as_root, input="s3cret\n")
    (entry,) = contexts.load().contexts.values()
    assert (entry.ca_file, entry.user) == (ca_file, "root")
