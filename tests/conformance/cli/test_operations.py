"""A server as an operator meets it: signals, its log, its service manager, readiness."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from confluent_kafka.admin import AdminClient

from tests.conformance.cli.commands import FREE_PORTS, Run, RunningServer, decoded

Eventually = Callable[..., None]


def lines(server: RunningServer, event: str) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(line) for line in server.log().splitlines() if line[:1] == "{"]
    return [line for line in found if line["event"] == event]


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[tuple[RunningServer, Path]]:
    """A server with a configuration file, and the file."""
    file = tmp_path / "goqueue.toml"
    file.write_text('log_level = "info"\n')
    server = RunningServer(tmp_path, *FREE_PORTS, "--config", str(file))
    yield server, file
    assert server.end() == 0
    assert "Traceback" not in server.log()


def test_sighup_reloads_the_log_level_and_limits(
    configured: tuple[RunningServer, Path], eventually: Eventually
):
    server, file = configured
    file.write_text('log_level = "debug"\nnode_id = 7\nkafka = {connections_max = 3}\n')
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: lines(server, "configuration reloaded"))
    (line,) = lines(server, "configuration reloaded")
    assert line["changed"] == {"log_level": "debug", "kafka.connections_max": 3}
    assert line["needs_restart"] == ["node_id"]
    assert httpx.get(f"{server.url}/admin/log-level").json() == {"level": "debug"}
    assert httpx.get(f"{server.url}/readyz").status_code == 200


def test_a_mistake_in_the_file_changes_nothing_and_is_told(
    configured: tuple[RunningServer, Path], eventually: Eventually
):
    server, file = configured
    file.write_text('log_level = "loud"\n')
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: lines(server, "configuration not reloaded"))
    assert "log_level" in str(lines(server, "configuration not reloaded")[0]["problems"])
    assert httpx.get(f"{server.url}/admin/log-level").json() == {"level": "info"}


def test_the_log_level_changes_at_run_time_and_debug_shows_requests(
    running: RunningServer, run: Run, eventually: Eventually
):
    assert decoded(run("config", "log-level")) == {"level": "info"}
    run("config", "log-level", "debug")
    run("topic", "create", "seen-in-the-log")
    eventually(lambda: lines(running, "http request"))
    assert any(
        line["path"] == "/topics" and line["method"] == "POST" and line["status"] == 201
        for line in lines(running, "http request")
    )
    AdminClient({"bootstrap.servers": running.kafka}).list_topics(timeout=20)
    eventually(lambda: any(line["api"] == "metadata" for line in lines(running, "kafka request")))
    run("config", "log-level", "info")
    before = len(lines(running, "http request"))
    run("topic", "list")
    assert len(lines(running, "http request")) == before
    assert "loud" in run("config", "log-level", "loud", code=2).stderr


def test_the_log_says_what_starts_and_how_it_ended(tmp_path: Path):
    server = RunningServer(tmp_path, *FREE_PORTS, "--set", "topics.partitions=5")
    assert server.end() == 0
    (starting,) = lines(server, "starting")
    assert starting["settings"]["topics.partitions"] == 5
    assert starting["data_dir"] == str(tmp_path / "data")
    assert "version" in starting
    (opened,) = lines(server, "data directory opened")
    assert opened["topics"] == 0
    assert opened["verified_bytes"] >= 0
    (stopping,) = lines(server, "stopping")
    assert stopping["reason"] == "SIGTERM"
    (stopped,) = lines(server, "stopped")
    assert stopped["is_clean"] is True
    assert server.log().splitlines()[-1].find("stopped") > 0


def test_an_access_log_is_a_setting(tmp_path: Path, eventually: Eventually):
    server = RunningServer(tmp_path, *FREE_PORTS, "--set", "access_log=true")
    try:
        httpx.get(f"{server.url}/topics")
        eventually(lambda: lines(server, "http request"))
        assert lines(server, "http request")[0]["level"] == "info"
    finally:
        assert server.end() == 0


def test_a_draining_server_says_503_before_it_closes(tmp_path: Path, eventually: Eventually):
    server = RunningServer(tmp_path, *FREE_PORTS, "--set", "drain_ms=60000")
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/readyz").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: client.get("/readyz").status_code == 503)
        assert client.get("/readyz").json()["message"] == "draining"
        answer = client.post("/topics", json={"name": "still-served"})
        assert answer.status_code == 201
        assert server.end() == 0  # a second signal does not wait


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_the_service_manager_is_told(tmp_path: Path, abstract: bool):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(20)
        name = f"@goqueue-test-{tmp_path.name}" if abstract else str(tmp_path / "notify")
        manager.bind("\0" + name[1:] if abstract else name)
        server = RunningServer(
            tmp_path,
            *FREE_PORTS,
            variables={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"},
        )
        told = [manager.recv(4096).decode()]
        assert told[0].startswith("READY=1\n")
        assert f"MAINPID={server.process.pid}" in told[0]
        while "WATCHDOG=1" not in told:
            told.append(manager.recv(4096).decode())
        server.process.send_signal(signal.SIGHUP)
        while not told[-1].startswith("RELOADING=1\nMONOTONIC_USEC="):
            told.append(manager.recv(4096).decode())
        while not told[-1].startswith("READY=1"):
            told.append(manager.recv(4096).decode())
        server.process.send_signal(signal.SIGTERM)
        while not told[-1].startswith("STOPPING=1"):
            told.append(manager.recv(4096).decode())
        assert server.process.wait(20) == 0
