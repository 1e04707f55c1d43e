"""Nodes in processes of their own, over real sockets: they follow, are killed, come back."""

from collections.abc import Callable
from pathlib import Path

from tests.conformance.cluster_processes import NodeProcess, running_cluster

WAIT_S = 60.0

Eventually = Callable[..., None]


def topics(node: NodeProcess) -> list[str]:
    return sorted(node.get("/topics")["topics"])


def test_two_nodes_agree_while_they_are_killed(tmp_path: Path, eventually: Eventually):
    both = {1: "active", 2: "active"}
    with running_cluster(tmp_path, 2) as (first, second):
        eventually(lambda: second.states() == both, within_s=WAIT_S)
        assert second.post("/topics", {"name": "by-the-follower"}).status_code == 201
        assert topics(second) == topics(first) == ["by-the-follower"]
        again = second.post("/topics", {"name": "by-the-follower"})
        assert again.status_code == 409
        assert "topic_exists" in again.text
        assert first.post("/topics", {"name": "by-the-first"}).status_code == 201
        names = ["by-the-first", "by-the-follower"]
        eventually(lambda: topics(second) == names, within_s=WAIT_S)

        first.kill()
        assert topics(second) == names
        first.start()
        assert second.post("/topics", {"name": "later"}).status_code == 201
        assert topics(first) == sorted([*names, "later"])
        eventually(lambda: first.states() == both, within_s=WAIT_S)

        second.kill()
        eventually(lambda: first.states()[2] == "fenced", within_s=WAIT_S)
        assert first.terminate() == 0
