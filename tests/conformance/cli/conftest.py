"""A server a file, the command in this process, and a client of the same server."""

import os
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from goqueue.cli.main import app
from goqueue.client import Client
from tests.conformance.cli.commands import FREE_PORTS, Run, RunningServer


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path_factory.mktemp("server"), *FREE_PORTS)
    yield server
    assert server.end() == 0
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture
def run(running: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process: a process each would take the time of all the rest."""
    for name in [each for each in os.environ if each.startswith("GOQUEUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOQUEUE_CONFIG", os.devnull)
    monkeypatch.setenv("GOQUEUE_SERVER", running.url)

    def run(*arguments: str, text: str = "", code: int = 0) -> Result:
        done = CliRunner().invoke(app, arguments, input=text)
        assert done.exit_code == code, done.output
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture
def client(running: RunningServer) -> Iterator[Client]:
    with Client(running.url) as client:
        yield client
