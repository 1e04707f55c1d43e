"""Every GET of the OpenAPI document gives the same at any of three nodes.

The topic's partitions, its dead letters and what is in flight are led by different nodes.  What a
node tells of itself is left out.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.conformance.http_nodes import HttpNodes, http_nodes

ATTEMPTS_MAX = 10

TOPIC, GROUP, STREAM, PRODUCER, SCHEDULE = "orders", "workers", "readers", "writer", "nightly"

# What is each node's own: its process, its disk, its logs, its doors.
OF_A_NODE = (
    "/admin",
    "/cluster/events",  # those that this node has seen
    "/cluster/quorum",
    "/cluster/state",  # how far this node has followed the metadata
    "/config",
    "/debug",
    "/health",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi",
    "/readyz",
    "/schema",
    "/stats",
    "/version",
    "/compaction",
    "/info",  # `local` is what this node has of the partition
    "/subscribe",
    "/traces/stats",  # of events, which are recorded meanwhile
    "/stream",
    "/poll",
)
VALUES = {
    "topic": TOPIC,
    "group": GROUP,
    "partition": 1,
    "offset": 0,
    "transactional_id": PRODUCER,
    "application": "nobody",
    "node": 2,
    "redrive": "none",
    "member": "m",
    "member_id": "m",
    "trace_id": "4b" * 16,  # nobody has it
    "name": SCHEDULE,
}
QUERIES = {
    "/queues/{topic}/peek": {"group": GROUP},
    "/transactions/describe": {"transactional_id": PRODUCER},
}
# Times that pass while the nodes are asked one after another.
PASSING = frozenset(
    {"age_ms", "oldest_age_ms", "enqueue_rate", "dequeue_rate", "uptime_seconds", "last_heartbeat"}
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNodes]:
    with http_nodes(tmp_path_factory.mktemp("nodes")) as found:
        prepare(found)
        yield found


def prepare(nodes: HttpNodes) -> None:
    """Something of everything."""
    nodes.topic(TOPIC, 3)
    message = {"value": "again"}
    nodes.post(2, "/schedules", name=SCHEDULE, topic=TOPIC, cron="@yearly", message=message)
    for partition in range(3):
        nodes.publish(1, TOPIC, "a", "b", "c", partition=partition)
    held: list[Any] = []
    while len(held) < 9:
        held += nodes.receive(2, TOPIC, GROUP, wait="5s", visibility="10m")
    dead = [each["receipt_handle"] for each in held if each["value"] == "a"]
    nodes.post(3, "/messages/reject", receipt_handles=dead, reason="bad")
    while any(not node.broker.has_topic(f"{TOPIC}.dlq") for node in nodes.nodes):
        nodes.get(1, "/cluster/health")  # a round trip later
    while nodes.get(1, f"/topics/{TOPIC}/dlq")["count"] < 3:
        nodes.get(1, "/cluster/health")
    nodes.post(3, f"/groups/{STREAM}/offsets", offsets={TOPIC: {"0": 1}})
    nodes.post(1, "/producers/init", transactional_id=PRODUCER)


def paths(nodes: HttpNodes) -> list[str]:
    document = nodes.get(1, "/openapi.json")
    return [
        path
        for path, operations in sorted(document["paths"].items())
        if "get" in operations and not path.startswith("/v1") and not _is_of_a_node(path)
    ]


def _is_of_a_node(path: str) -> bool:
    return any(path.startswith(each) or path.endswith(each) for each in OF_A_NODE)


def ask(nodes: HttpNodes, number: int, path: str) -> tuple[int, Any]:
    url = nodes.url(number, path.format(**VALUES))
    reply = nodes.client.get(url, params=QUERIES.get(path, {}))
    kind = reply.headers.get("content-type", "")
    return reply.status_code, without_times(reply.json()) if "json" in kind else reply.text


def without_times(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: without_times(each) for key, each in found.items() if key not in PASSING}
    if isinstance(found, list):
        return [without_times(each) for each in found]
    return found


def test_every_get_gives_the_same_at_any_node(nodes: HttpNodes):
    differing: dict[str, list[tuple[int, Any]]] = {}
    asked = paths(nodes)
    assert len(asked) > 20
    for path in asked:
        for _ in range(ATTEMPTS_MAX):  # nodes follow the metadata one after another
            answers = [ask(nodes, number, path) for number in (1, 2, 3)]
            if answers[0] == answers[1] == answers[2] and answers[0][0] < 500:
                break
        else:
            differing[path] = [ask(nodes, number, path) for number in (1, 2, 3)]
    assert differing == {}


def test_a_stream_of_events_has_messages_of_all_leaders_at_any_node(nodes: HttpNodes):
    nodes.topic("events", 3)
    for partition in range(3):
        nodes.publish(1, "events", "a", partition=partition)
    for number in (1, 2, 3):
        seen: set[int] = set()
        query = {"group": f"streamed-at-{number}"}
        url = nodes.url(number, "/queues/events/stream")
        with nodes.client.stream("GET", url, params=query, timeout=30) as lines:
            for line in lines.iter_lines():
                if line.startswith("data: "):
                    seen.add(msgspec.json.decode(line[6:])["partition"])
                if len(seen) == 3:
                    break
