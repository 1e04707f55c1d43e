"""Two nodes in processes of their own, over real sockets: they follow, are killed, come back."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.conformance.conftest import free_port_config

NODE = Path(__file__).with_name("cluster_node.py")
SECRET = "a secret of sixteen bytes"
WAIT_S = 60.0

Eventually = Callable[..., None]


class NodeProcess:
    def __init__(self, number: int, directory: Path, seed: str = "") -> None:
        self._config = msgspec.structs.replace(
            free_port_config(directory / str(number)), node_id=number
        )
        self._seed = seed
        self._errors = directory / f"{number}.stderr"
        self.address = "127.0.0.1:0"  # of its cluster listener
        self.start()

    def start(self) -> None:
        config = msgspec.json.encode(self._config).decode()
        seeds = [self._seed] if self._seed else []
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(NODE), config, self.address, SECRET, *seeds],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.address, self.http = self._line().split()

    def ask(self, question: dict[str, str]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(question).decode() + "\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._line())

    def nodes(self) -> dict[str, str]:
        """States by number, as this node knows them."""
        found: dict[str, str] = self.ask({})["nodes"]
        return found

    def topics(self) -> list[str]:
        found: list[str] = self.ask({})["topics"]
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        watchdog = threading.Timer(WAIT_S, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        assert line, self._errors.read_text(encoding="utf-8")
        return line

    def stop(self) -> None:
        self._process.communicate(timeout=WAIT_S)
        assert self._process.returncode == 0, self._errors.read_text(encoding="utf-8")

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=WAIT_S)


@contextlib.contextmanager
def two_nodes(directory: Path) -> Iterator[list[NodeProcess]]:
    nodes: list[NodeProcess] = []
    try:
        nodes.append(NodeProcess(1, directory))
        nodes.append(NodeProcess(2, directory, nodes[0].address))
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def test_two_nodes_agree_while_they_are_killed(tmp_path: Path, eventually: Eventually):
    both = {"1": "active", "2": "active"}
    with two_nodes(tmp_path) as (first, second):
        eventually(lambda: second.nodes() == both, within_s=WAIT_S)
        assert len(second.ask({"create": "by-the-follower"})) == 36
        assert second.topics() == first.topics() == ["by-the-follower"]
        assert second.ask({"create": "by-the-follower"}) == "topic_exists"
        reply = httpx.post(f"http://{first.http}/topics", json={"name": "by-http"}, trust_env=False)
        assert reply.status_code == 201
        topics = ["by-http", "by-the-follower"]
        eventually(lambda: second.topics() == topics, within_s=WAIT_S)

        first.kill()
        assert second.topics() == topics
        first.start()
        assert len(second.ask({"create": "later"})) == 36
        assert first.topics() == sorted([*topics, "later"])
        eventually(lambda: first.nodes() == both, within_s=WAIT_S)

        second.kill()
        eventually(lambda: first.nodes()["2"] == "fenced", within_s=WAIT_S)
        first.stop()
