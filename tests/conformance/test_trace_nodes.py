"""Journeys in a cluster: told at any node, and after the node that saw them is gone."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.cli.samples import Samples
from tests.conformance.cluster_processes import NodeProcess, running_cluster
from tests.conformance.test_traces import PUBLISH, Api, check_life, live, steps_of

Eventually = Callable[..., None]
TOPIC = "orders"
THREE_REPLICAS: dict[str, Any] = {"topics.replication": 3}
REPLICATED = [*PUBLISH, "publish.replicated"]


def leader(node: NodeProcess, topic: str) -> int:
    found: int | None = node.get(f"/cluster/partition/{topic}/0/info")["place"]["leader"]
    return -1 if found is None else found


@pytest.mark.slow  # half a minute: nodes start, and one is missed
def test_a_life_is_told_at_every_node_and_after_its_leader_died(
    tmp_path: Path, eventually: Eventually
):
    with running_cluster(tmp_path, 3, **THREE_REPLICAS) as nodes:
        apis = [Api(node.http.removeprefix("http://")) for node in nodes]

        def is_replicated() -> bool:
            infos = [nodes[0].get(f"/cluster/partition/__traces/{n}/info") for n in range(3)]
            return all(len(each["place"]["isr"]) == 3 for each in infos)

        apis[1].post("/topics", name=TOPIC, partitions=1, replication_factor=3)
        began, ended = live(apis[1], TOPIC)
        journeys = [api.journey(TOPIC, 0) for api in apis]
        for journey in journeys:
            check_life(journey, TOPIC, began, ended, REPLICATED)
            assert journey["spans"] == journeys[0]["spans"]
        eventually(is_replicated, within_s=60)

        def is_written() -> bool:
            every = apis[0].get("/traces/stats")["nodes"]
            return len(every) == 3 and all(each["pending"] == 0 for each in every)

        eventually(is_written)
        time.sleep(1.5)  # rule-ok: followers copy `__traces` without anybody waiting for it
        first = leader(nodes[0], TOPIC)
        nodes[first - 1].kill()
        survivors = [node for node in nodes if node.number != first]
        eventually(lambda: leader(survivors[0], TOPIC) not in (first, -1), within_s=60)

        def told() -> Any:
            api = Api(survivors[-1].http.removeprefix("http://"))
            return api.journey(TOPIC, 0)

        eventually(lambda: steps_of(told()) == steps_of(journeys[0]), within_s=60)
        check_life(told(), TOPIC, began, ended, REPLICATED)
        api = Api(survivors[0].http.removeprefix("http://"))
        api.publish(TOPIC, "after")
        assert api.steps(TOPIC, 2) == REPLICATED
        check_numbers(survivors)


def check_numbers(survivors: list[NodeProcess]) -> None:
    """What dashboards show of a cluster that lost a node."""
    every = [Samples(httpx.get(f"{node.http}/metrics", trust_env=False).text) for node in survivors]
    for name in (
        "goqueue_cluster_under_replicated_partitions",
        "goqueue_isr_shrinks_total",
        "goqueue_leader_elections_total",
        "goqueue_node_fences_total",
        "goqueue_messages_replicated_total",
    ):
        assert max(each.highest(name) for each in every) > 0, name
    assert max(each.highest("goqueue_cluster_nodes", state="fenced") for each in every) == 1
    assert any(list(each.of("goqueue_replication_lag_seconds")) for each in every)
    assert sum(each.total("goqueue_cluster_controller") for each in every) == 1
