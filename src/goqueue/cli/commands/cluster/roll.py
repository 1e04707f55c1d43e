"""`goqueue cluster roll`: nodes are restarted one after the other, each in sync before the next.

    all in sync ── drain ── restart: the supervisor does, or a command, or the operator ──┐
        ^                                                                                 │
        └──────────── the node is back (its epoch is higher), active, all in sync ────────┘

The controller comes last: while it restarts, nothing else changes.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from goqueue.cli.failures import ExitCode, Failure, UsageFailure
from goqueue.cli.output import for_people, line
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.api.cluster import ClusterNode, ClusterState
    from goqueue.client import Client

LOOK_SECONDS: Final = 0.5


class Step(msgspec.Struct, frozen=True):
    node_id: int
    step: str
    text: str


def roll(
    client: "Client",
    node: Annotated[str | None, option("Only these nodes.", metavar="NODE,…")] = None,
    command: Annotated[
        str | None,
        option(
            "Shell command that restarts a node; {node} is its number, as in"
            " 'ssh host{node} systemctl restart goqueue'.",
            metavar="COMMAND",
        ),
    ] = None,
    wait_s: Annotated[
        float, option("Seconds to wait for a node to be in sync again; then give up.", min=1)
    ] = 600.0,
    dry_run: Annotated[bool, option("Only show the order.")] = False,
) -> None:
    """Restart the nodes one after the other, for another version or other settings.

    Each node is drained, restarted and in sync again before the next one. Nodes of `goqueue server
    --nodes` are restarted by that process, others by --command, or by you when you are asked to.
    """
    rolling = _Roll(client, command, wait_s)
    order = rolling.order(_numbers(node))
    if dry_run:
        for each in order:
            _tell(each.node_id, "planned", "would be restarted")
        return
    for each in order:
        rolling.restart(each)


def _numbers(text: str | None) -> set[int] | None:
    try:
        return None if text is None else {int(each) for each in text.split(",")}
    except ValueError:
        raise UsageFailure(f"--node {text}: write the numbers of nodes, as in 1,2") from None


class _Roll:
    def __init__(self, client: "Client", command: str | None, wait_s: float) -> None:
        self._client = client
        self._command = command
        self._wait_s = wait_s

    def order(self, wanted: set[int] | None) -> "list[ClusterNode]":
        """By number, the controller last."""
        nodes = [node for node in self._client.cluster_nodes() if node.state != "removed"]
        known = {node.node_id for node in nodes}
        if wanted is not None and not wanted <= known:
            missing = ", ".join(map(str, sorted(wanted - known)))
            raise Failure(f"there is no node {missing}", ExitCode.NOT_FOUND)
        chosen = [node for node in nodes if wanted is None or node.node_id in wanted]
        return sorted(chosen, key=lambda node: (node.is_controller, node.node_id))

    def restart(self, node: "ClusterNode") -> None:
        node_id = node.node_id
        self._wait(node_id, "all replicas are in sync", _is_whole)
        drained = self._client.drain_node(node_id)
        left = f"; nobody else can lead {drained.leaders} partitions" if drained.leaders else ""
        _tell(node_id, "drained", f"leads nothing{left}" if not left else f"drained{left}")
        self._begin(node_id)
        self._wait(node_id, "it is back", lambda state: _is_back(state, drained))
        self._wait(node_id, "all replicas are in sync", _is_whole)
        _tell(node_id, "done", "is back and in sync")

    def _begin(self, node_id: int) -> None:
        from goqueue.client import ClientError

        if self._command is not None:
            command = self._command.replace("{node}", str(node_id))
            _tell(node_id, "restarting", command)
            code = subprocess.run(command, shell=True, check=False).returncode
            if code:
                raise Failure(f"node {node_id}: {command!r} ended with exit code {code}")
            return
        try:
            self._client.restart_node(node_id)
        except ClientError:
            _tell(node_id, "waiting", "restart it now")
        else:
            _tell(node_id, "restarting", "is restarted by its supervisor")

    def _wait(self, node_id: int, what: str, holds: "Callable[[ClusterState], bool]") -> None:
        """A server that restarts itself does not answer for a while."""
        from goqueue.client import ClientError

        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                if holds(self._client.cluster_state()):
                    return
            except ClientError:
                pass
            if time.monotonic() > deadline:
                raise Failure(f"node {node_id}: waited {self._wait_s:g} s until {what}, in vain")
            time.sleep(LOOK_SECONDS)


def _is_whole(state: "ClusterState") -> bool:
    health = state.health
    return not health.under_replicated and not health.offline


def _is_back(state: "ClusterState", before: "ClusterNode") -> bool:
    return any(
        node.node_id == before.node_id and node.epoch > before.epoch and node.state == "active"
        for node in state.nodes
    )


def _tell(node_id: int, step: str, text: str) -> None:
    text_line = f"node {node_id}: {text}\n"
    sys.stdout.write(text_line if for_people() else line(Step(node_id, step, text)))
    sys.stdout.flush()
