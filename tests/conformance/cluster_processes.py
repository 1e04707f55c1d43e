"""Nodes of a cluster, each a `goqueue server` in a process of its own."""

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

COMMAND = "from goqueue.cli.main import main; main()"
READY = re.compile(r"kafka=(\S+) http=(\S+) cluster=(\S+)")
START_S = 240.0  # a watchdog, also on a machine with many other jobs


class NodeProcess:
    """Starts, dies and starts again on the same data, at the same addresses."""

    def __init__(self, number: int, directory: Path, seed: str = "", **settings: object) -> None:
        self.number = number
        self.kafka = self.cluster = "127.0.0.1:0"
        self.http = "http://127.0.0.1:0"
        self._directory = directory
        self._seed = seed
        self._settings = settings
        self._errors = directory / f"{number}.stderr"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        settings = {"cluster.listen": self.cluster, **self._settings}
        if self._seed:
            settings["cluster.seeds"] = self._seed
        arguments = ["server", "--data-dir", str(self._directory / str(self.number))]
        arguments += ["--node-id", str(self.number), "--log-level", "warning"]
        arguments += ["--kafka", self.kafka, "--http", self.http.removeprefix("http://")]
        for name, value in settings.items():
            arguments += ["--set", f"{name}={value}"]
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", COMMAND, *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        watchdog = threading.Timer(START_S, self.process.kill)
        watchdog.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        watchdog.cancel()
        found = READY.search(line)
        assert found, f"node {self.number} did not start: {line!r}\n{self.log()}"
        self.kafka, self.http, self.cluster = found.groups()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate(timeout=START_S)
            self.process = None

    def terminate(self) -> int:
        """As an operator ends it; gives its exit code."""
        assert self.process is not None
        self.process.terminate()
        self.process.communicate(timeout=START_S)
        code = self.process.returncode
        self.process = None
        return code

    def log(self) -> str:
        return self._errors.read_text(errors="replace")[-5000:]

    def get(self, path: str) -> Any:
        reply = httpx.get(f"{self.http}{path}", trust_env=False, timeout=START_S)
        reply.raise_for_status()
        return reply.json()

    def post(self, path: str, body: object) -> httpx.Response:
        return httpx.post(f"{self.http}{path}", json=body, trust_env=False, timeout=START_S)

    def states(self) -> dict[int, str]:
        """Of all nodes, as this one knows them."""
        return {each["node_id"]: each["state"] for each in self.get("/cluster/nodes")["nodes"]}


@contextlib.contextmanager
def running_cluster(
    directory: Path, count: int, *, has_racks: bool = False, **settings: object
) -> Iterator[list[NodeProcess]]:
    """Node 1 has the vote.  If they have racks, node N is in `rack-N`."""
    nodes: list[NodeProcess] = []
    try:
        for number in range(1, count + 1):
            seed = nodes[0].cluster if nodes else ""
            rack = {"cluster.rack": f"rack-{number}"} if has_racks else {}
            nodes.append(NodeProcess(number, directory, seed, **settings, **rack))
            nodes[-1].start()
        yield nodes
    finally:
        for node in nodes:
            node.kill()
