"""Nodes in network namespaces of their own, on one bridge: cables that can be cut and slowed.

    root: bridge gqN 10.77.N.254 ── veth ── namespace of node 1: 10.77.N.1
                                 ── veth ── …

With `has_cables` a switch in user space (`cables.py`) stands in for the bridge: it can delay, lose
and double what a node sends.  Needs root, `ip` and `nft`.  Everything is named after this process,
and removed at the end.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.chaos.cables import Trouble
from tests.chaos.cluster import NODES, Cluster

ROOT = Path(__file__).parents[2]


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


class Network:
    def __init__(self, *, has_cables: bool = False) -> None:
        self._has_cables = has_cables
        self._switch: subprocess.Popen[str] | None = None
        self._tag = os.getpid() % 10_000
        self._bridge = f"gq{self._tag}"
        self._net = f"10.77.{os.getpid() % 250}"

    def host(self, number: int) -> str:
        return f"{self._net}.{number}"

    def namespace(self, number: int) -> str:
        return f"gq{self._tag}n{number}"

    def make(self) -> None:
        if self._has_cables:
            self._start_switch()
        else:
            run("ip", "link", "add", self._bridge, "type", "bridge")
        run("ip", "addr", "add", f"{self._net}.254/24", "dev", self._bridge)
        run("ip", "link", "set", self._bridge, "up")
        for number in range(1, NODES + 1):
            self._make_namespace(number)

    def _make_namespace(self, number: int) -> None:
        if not self._has_cables:
            name, outer = self.namespace(number), f"gq{self._tag}v{number}"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", outer, "master", self._bridge, "up")
        self.run_in(number, "ip", "addr", "add", f"{self.host(number)}/24", "dev", "eth0")
        self.run_in(number, "ip", "link", "set", "eth0", "up")
        self.run_in(number, "ip", "link", "set", "lo", "up")

    def _start_switch(self) -> None:
        """It makes the devices, in namespaces that are there."""
        namespaces = [self.namespace(number) for number in range(1, NODES + 1)]
        for each in namespaces:
            run("ip", "netns", "add", each)
        command = [sys.executable, "-m", "tests.chaos.cables", self._bridge, *namespaces]
        self._switch = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._switch.stdout is not None
        assert self._switch.stdout.readline() == "ready\n"

    def remove(self) -> None:
        if self._switch is not None:
            self._switch.kill()
            self._switch.wait()
        for number in range(1, NODES + 1):
            with contextlib.suppress(AssertionError):
                run("ip", "netns", "del", self.namespace(number))
        with contextlib.suppress(AssertionError):
            run("ip", "link", "del", self._bridge)

    def run_in(self, number: int, *command: str) -> None:
        run("ip", "netns", "exec", self.namespace(number), *command)

    # --- faults -----------------------------------------------------------------------------------

    def cut(self, number: int, *others: int) -> None:
        """The node does not hear the others, which still hear it; without others, nobody."""
        self.run_in(number, "nft", "add", "table", "ip", "cut")
        chain = "{ type filter hook input priority 0 ; }"
        self.run_in(number, "nft", "add", "chain", "ip", "cut", "in", chain)
        if not others:
            self.run_in(number, "nft", "add", "rule", "ip", "cut", "in", "iif", "eth0", "drop")
        for other in others:
            rule = ("ip", "saddr", self.host(other), "drop")
            self.run_in(number, "nft", "add", "rule", "ip", "cut", "in", *rule)

    def disturb(self, trouble: Trouble) -> None:
        """Of all that the node sends; only with cables."""
        assert self._switch is not None
        assert self._switch.stdin is not None
        self._switch.stdin.write(msgspec.json.encode(trouble).decode() + "\n")
        self._switch.stdin.flush()

    def heal(self) -> None:
        for number in range(1, NODES + 1):
            if self._switch is not None:
                self.disturb(Trouble(number))
            with contextlib.suppress(AssertionError):
                self.run_in(number, "nft", "delete", "table", "ip", "cut")


@contextlib.contextmanager
def network(*, has_cables: bool = False) -> Iterator[Network]:
    missing = [each for each in ("ip", "nft") if shutil.which(each) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"needs root and {', '.join(missing) or 'network namespaces'}")
    made = Network(has_cables=has_cables)
    try:
        try:
            made.make()
        except AssertionError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield made
    finally:
        made.remove()


def cluster_on(made: Network, directory: Path, quorum: str = "") -> Cluster:
    secret = directory / "secret"
    secret.write_text("a secret of these nodes alone")
    hosts = [made.host(number) for number in range(1, NODES + 1)]
    settings = {"insecure": "true", "cluster__secret_file": secret, "topics__replication": NODES}
    cluster = Cluster(directory, quorum, hosts=hosts, **settings)
    for number, node in cluster.nodes.items():
        node.prefix = ["ip", "netns", "exec", made.namespace(number)]
    return cluster
