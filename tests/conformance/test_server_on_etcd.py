"""`goqueue server --quorum etcd://…`: its metadata is in etcd, and outlives what etcd outlives."""

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.chaos.processes import COMMAND, Server
from tests.conformance.etcd_server import EtcdServers


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    servers = EtcdServers(tmp_path_factory.mktemp("etcd"))
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


def new_quorum(etcd: EtcdServers) -> str:
    etcd.start_missing()
    return f"{etcd.endpoints[0].replace('http:', 'etcd:')}/{uuid.uuid4().hex}"


def topics(server: Server) -> list[str]:
    answer = httpx.get(f"{server.http}/topics", timeout=20.0).raise_for_status().json()
    return sorted(answer["topics"])


def create(server: Server, name: str) -> httpx.Response:
    return httpx.post(f"{server.http}/topics", json={"name": name}, timeout=20.0)


def test_topics_are_in_etcd_and_a_second_server_takes_nothing_from_the_first(
    etcd: EtcdServers, tmp_path: Path
):
    quorum = new_quorum(etcd)
    server = Server(tmp_path / "data", cluster__quorum=quorum)
    server.start()
    try:
        create(server, "before").raise_for_status()
        server.kill()
        assert not (tmp_path / "data" / "logs" / "__metadata").exists()
        etcd.members[0].kill()
        etcd.members[0].start()
        etcd.wait_for_leader()
        server.start()
        problem = start_another(tmp_path / "other", quorum)
        assert "registered with another data directory" in problem
        assert "Traceback" not in problem
        create(server, "after").raise_for_status()
        assert topics(server) == ["after", "before"]
        quorum_now = httpx.get(f"{server.http}/cluster/quorum", timeout=20.0).json()
        assert quorum_now["is_controller"]
        assert [each["is_leader"] for each in quorum_now["members"]] == [True]
        backup = httpx.post(f"{server.http}/admin/backups", timeout=20.0)
        assert backup.status_code == 422
        assert "etcdctl" in backup.json()["error"]["message"]
    finally:
        server.kill()


def start_another(directory: Path, quorum: str) -> str:
    """What it says when it ends."""
    arguments = ["server", "--data-dir", str(directory), "--quorum", quorum]
    ports = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    ended = subprocess.run(
        [sys.executable, "-P", "-c", COMMAND, *arguments, *ports],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    return ended.stderr


@pytest.mark.slow
def test_messages_flow_while_etcd_is_stopped_and_changes_come_back(
    etcd: EtcdServers, tmp_path: Path, eventually
):
    server = Server(tmp_path / "data", cluster__quorum=new_quorum(etcd))
    server.start()
    try:
        create(server, "orders").raise_for_status()
        etcd.members[0].suspend()
        try:
            refused = create(server, "unknown")
            assert (refused.status_code, refused.json()["error"]["code"]) == (
                504,
                "outcome_unknown",
            )
            again = create(server, "refused")
            assert again.status_code == 503
            assert again.json()["error"]["code"] == "quorum_unavailable"
            sent = httpx.post(
                f"{server.http}/topics/orders/messages", json={"messages": [{"value": "hello"}]}
            )
            sent.raise_for_status()
        finally:
            etcd.members[0].send(signal.SIGCONT)
        eventually(lambda: create(server, "after").status_code in (200, 201), within_s=30.0)
        assert "refused" not in topics(server)
        assert {"after", "orders"} <= set(topics(server))
    finally:
        server.kill()
