"""`goqueue server --nodes 3` as a command: ready, survives the death of a node, and stops."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from goqueue.client import Client
from tests.conformance.cli.commands import COMMAND, FREE_PORTS, environment

NODES = 2
START_S = 60.0
STOP_S = 60.0
READY = re.compile(r"GoQueue is ready: 2 nodes, kafka=(\S+) http=(\S+)")


class Nodes:
    def __init__(self, directory: Path, *flags: str) -> None:
        self.data_dir = directory / "data"
        self._log = directory / "stderr"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *COMMAND,
                    *("server", "--nodes", str(NODES), "--replication", str(NODES)),
                    *("--data-dir", str(self.data_dir), "--cluster-listen", "127.0.0.1:0"),
                    *(*FREE_PORTS, "--log-level", "warning", *flags),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )
        self.lines: list[str] = []

    def wait_ready(self) -> list[str]:
        """The HTTP addresses of all nodes."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(START_S, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                self.lines.append(line.strip())
                if found := READY.match(line):
                    return found[2].split(",")
        finally:
            watchdog.cancel()
        raise AssertionError(self.log())

    def process_id(self, node_id: int) -> int:
        """0 while it is being written."""
        return int((self.data_dir / str(node_id) / "lock").read_text() or 0)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(STOP_S)

    def log(self) -> str:
        return self._log.read_text()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    started = Nodes(tmp_path)
    yield started
    if started.process.poll() is None:
        started.end(signal.SIGINT)
    assert started.process.stdout is not None
    started.process.stdout.close()


@pytest.mark.timeout(240)
def test_nodes_of_one_command_are_a_cluster_that_a_death_does_not_end(
    nodes: Nodes, eventually: Callable[..., None]
):
    first, second = nodes.wait_ready()
    assert [line.split(":")[0] for line in nodes.lines[:2]] == [
        "node 1 is ready",
        "node 2 is ready",
    ]
    with Client(first) as client, Client(second) as other:
        client.create_topic("orders", partitions=2)
        (topic,) = other.topic_places()
        assert topic.replication_factor == NODES
        killed = nodes.process_id(2)
        os.kill(killed, signal.SIGKILL)
        eventually(
            lambda: (
                nodes.process_id(2) not in (0, killed)
                and client.cluster_state().health.nodes == NODES
            ),
            within_s=START_S,
        )
        eventually(lambda: _is_healthy(client), within_s=START_S)
    assert nodes.end() == 0, nodes.log()
    assert "Traceback" not in nodes.log()


def _is_healthy(client: Client) -> bool:
    return client.cluster_state().health.status == "healthy"


def test_nodes_stop_when_the_command_that_started_them_is_killed(
    nodes: Nodes, eventually: Callable[..., None]
):
    nodes.wait_ready()
    processes = [nodes.process_id(node_id) for node_id in (1, 2)]
    nodes.process.kill()
    eventually(lambda: not any(map(_is_running, processes)), within_s=STOP_S)


def _is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_single_broker_says_how_to_start_the_data_of_nodes(tmp_path: Path):
    (tmp_path / "data/1/logs").mkdir(parents=True)
    done = subprocess.run(
        [*COMMAND, "server", "--data-dir", str(tmp_path / "data"), *FREE_PORTS],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 2
    assert "--nodes 1" in done.stderr
