"""Every writing route of the OpenAPI document is carried out, whichever of three nodes is asked.

The steps are one story, told three times: each route is asked at each node, so also at nodes that
lead nothing of what it changes.  `{x}` in a text is the value of x, and `$x` is x itself: what an
answer said, under the name that the step gives it.
"""

import base64
import re
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.conformance.http_nodes import HttpNodes, http_nodes

NAMED = re.compile(r"[{$]([a-z_0-9]+)")
TRIES_MAX = 100  # of a node that has not heard of the topic yet
YEARLY = {"topic": "{topic}", "cron": "@yearly", "message": {"key": "k", "value": "again"}}
WHO = {"transactional_id": "{tx}", "producer_id": "$producer", "epoch": "$epoch"}
ACL = {"principal": "User:{user}", "operation": "read", "resource_type": "topic"}
MOVE = {"topic": "{topic}", "partition": 0, "new_replicas": [2]}

# Routes about the node that is asked, and no other: its process and its disk.
OF_ONE_NODE = {
    "PUT /admin/log-level",
    "POST /admin/backups",
    "DELETE /admin/backups/{backup_id}",
    "POST /cluster/nodes/{node_id}/restart",  # of the node that is named, by its supervisor
    "DELETE /cluster/nodes/{node_id}",  # refused while the node is there: see `test_cluster_nodes`
}
SAME_AS = {"POST /admin/topics/{topic}/partitions": "POST /topics/{topic}/partitions"}


class Step(NamedTuple):
    route: str
    body: dict[str, Any] = {}  # noqa: RUF012  # never changed
    kept: dict[str, tuple[str | int, ...]] = {}  # noqa: RUF012  # names of what the answer says
    query: dict[str, str] = {}  # noqa: RUF012


STORY = (
    Step("POST /topics", {"name": "{topic}", "partitions": 3}),
    Step("POST /topics/{topic}/partitions", {"count": 4}),
    Step("PATCH /topics/{topic}/settings", {"set": {"cleanup.policy": "compact,delete"}}),
    Step(
        "POST /topics/{topic}/messages",
        {"messages": [{"key": str(i), "value": "x"} for i in range(20)]},
    ),
    Step(
        "POST /topics/{topic}/messages",
        {
            "messages": [
                {"key": "k", "value": "later", "delay": "1h"},
                {"key": "k", "value": "later", "delay": "1h"},
            ]
        },
        {
            "partition": ("results", 0, "partition"),
            "offset": ("results", 0, "offset"),
            "partition2": ("results", 1, "partition"),
            "offset2": ("results", 1, "offset"),
        },
    ),
    Step("POST /topics/{topic}/delayed/{partition}/{offset}", {"delay": "2h"}),
    Step("DELETE /topics/{topic}/delayed/{partition2}/{offset2}"),
    # --- queues
    Step("PUT /groups/{queue}/queue", {"max_failures": 5}),
    Step("PATCH /groups/{queue}/queue", {"max_failures": 6}),
    *(
        Step(
            "POST /queues/{topic}/receive",
            {"group": "{queue}", "consumer": "c", "wait": "5s", "max_messages": 2},
            {
                f"receipt{number}": ("messages", 0, "receipt_handle"),
                f"at{number}": ("messages", 0, "partition"),
                f"place{number}": ("messages", 0, "offset"),
            },
        )
        for number in range(7)
    ),
    Step("POST /messages/visibility", {"receipt_handles": ["$receipt0"], "timeout": "5m"}),
    Step("POST /messages/ack", {"receipt_handles": ["$receipt0"]}),
    Step("POST /messages/nack", {"receipt_handles": ["$receipt1"]}),
    Step("POST /messages/reject", {"receipt_handles": ["$receipt2"], "reason": "bad"}),
    Step("POST /messages/release", {"receipt_handles": ["$receipt3"]}),
    Step(
        "POST /queues/{topic}/ack-range",
        {"group": "{queue}", "partition": "$at4", "first": "$place4", "last": "$place4"},
    ),
    Step(
        "POST /groups/{queue}/in-flight/extend",
        {"receipt_handles": ["$receipt5"], "timeout": "5m"},
    ),
    Step("POST /groups/{queue}/in-flight/release", {"receipt_handles": ["$receipt5"]}),
    Step("POST /topics/{topic}/dlq/redrive", {"background": True}, {"redrive": ("id",)}),
    Step("DELETE /topics/{topic}/dlq/redrives/{redrive}"),
    Step("DELETE /topics/{topic}/dlq"),
    # --- groups
    Step(
        "POST /groups/{group}/join",
        {"topics": ["{topic}"]},
        {"member": ("member_id",), "generation": ("generation",)},
    ),
    Step("POST /groups/{group}/heartbeat", {"member_id": "{member}", "generation": "$generation"}),
    Step("POST /groups/{group}/revoke", {"member_id": "{member}", "generation": "$generation"}),
    Step("POST /groups/{group}/leave", {"member_id": "{member}"}),
    Step("POST /groups/{group}/offsets", {"offsets": {"{topic}": {"1": 1}}}),
    Step("POST /groups/{group}/offsets/reset", {"to": "earliest", "topic": "{topic}"}),
    Step("DELETE /groups/{group}"),
    # --- transactions
    Step(
        "POST /producers/init",
        {"transactional_id": "{tx}"},
        {"producer": ("producer_id",), "epoch": ("epoch",)},
    ),
    Step("POST /producers/{producer}/heartbeat", {"transactional_id": "{tx}", "epoch": "$epoch"}),
    Step("POST /transactions/begin", WHO),
    Step("POST /transactions/add-partition", {**WHO, "topic": "{topic}", "partition": 0}),
    Step(
        "POST /transactions/publish",
        {**WHO, "topic": "{topic}", "key": "k", "value": "x", "partition": 0},
    ),
    Step(
        "POST /transactions/messages",
        {**WHO, "topic": "{topic}", "messages": [{"key": "k", "value": "y"}]},
    ),
    Step(
        "POST /transactions/offsets",
        {
            **WHO,
            "group": "{group}",
            "offsets": [{"topic": "{topic}", "partition": 2, "offset": 1}],
        },
    ),
    Step("POST /transactions/acks", {**WHO, "receipt_handles": ["$receipt6"]}),
    Step("POST /transactions/commit", WHO),
    Step(
        "POST /producers/init",
        {"transactional_id": "{tx}"},
        {"producer": ("producer_id",), "epoch": ("epoch",)},
    ),
    Step("POST /transactions/begin", WHO),
    Step("POST /transactions/abort", WHO),
    Step("POST /transactions/force-abort", {"transactional_id": "{tx}"}),
    Step("POST /transactions/ids/{tx}/abort"),
    Step("POST /transactions/groups/{app}/runs", {"name": "first"}, {"run": ("run",)}),
    Step(
        "POST /transactions/groups/{app}/attempts",
        {"version": 1, "run": "$run", "task": 0, "attempt": 0},
    ),
    Step("POST /transactions/groups/{app}/abort", {"version": 1, "run": "$run"}),
    Step("POST /transactions/groups/{app}/decide", {"version": 2, "run": "$run"}),
    Step("DELETE /transactions/groups/{app}"),
    # --- schedules, schemas
    Step("POST /schedules/preview", {"cron": "@yearly"}),
    Step("POST /schedules", {"name": "{plan}", **YEARLY}),
    Step("PUT /schedules/{plan}", YEARLY),
    Step("POST /schedules/{plan}/pause"),
    Step("POST /schedules/{plan}/resume"),
    Step("POST /schedules/{plan}/run"),
    Step("DELETE /schedules/{plan}"),
    Step("PUT /schemas/config", {"compatibility": "BACKWARD"}),
    Step("PUT /schemas/config/{subject}", {"compatibility": "NONE"}),
    Step("POST /schemas/subjects/{subject}/versions", {"schema": '"string"'}),
    Step("POST /schemas/subjects/{subject}/versions", {"schema": '"long"'}),
    Step("POST /schemas/subjects/{subject}", {"schema": '"long"'}),
    Step("POST /schemas/compatibility/subjects/{subject}/versions/1", {"schema": '"int"'}),
    Step("DELETE /schemas/subjects/{subject}/versions/1"),
    Step("DELETE /schemas/subjects/{subject}"),
    # --- administration
    Step("PUT /admin/users/{user}", {"password": "a long enough password"}),
    Step("POST /admin/keys", {"name": "{key}", "user": "{user}"}, {"key_id": ("id",)}),
    Step("DELETE /admin/keys/{key_id}"),
    Step("POST /admin/acls", {"acls": [{**ACL, "resource_name": "{topic}"}]}),
    Step("DELETE /admin/acls", {"acls": [{**ACL, "resource_name": "{topic}"}]}),
    Step("DELETE /admin/users/{user}"),
    Step("PATCH /admin/quotas", {"user": "{user}", "quotas": {"producer_byte_rate": 1000000}}),
    Step("DELETE /admin/quotas", query={"user": "{user}"}),
    Step("POST /admin/tenants", {"id": "{tenant}"}),
    Step("PATCH /admin/tenants/{tenant}", {"name": "another"}),
    Step("PUT /admin/tenants/{tenant}/quotas", {"topics": 5}),
    Step("PUT /admin/tenants/{tenant}/users/{member}"),
    Step("DELETE /admin/tenants/{tenant}/users/{member}"),
    Step("POST /admin/tenants/{tenant}/suspend", {"reason": "unpaid"}),
    Step("POST /admin/tenants/{tenant}/activate"),
    Step("POST /admin/tenants/{tenant}/disable"),
    Step("DELETE /admin/tenants/{tenant}"),
    Step("POST /cluster/features", {"dry_run": True}),
    Step("POST /cluster/leader-election", {"topic": "{topic}"}),
    Step("POST /cluster/nodes/3/drain"),
    Step("POST /cluster/nodes/3/undrain"),
    Step("POST /admin/rebalance", {"dry_run": True}),
    Step(
        "POST /admin/reassignment",
        {"partitions": [{"topic": "{topic}", "partition": 0, "new_replicas": [2]}]},
    ),
    Step("DELETE /admin/reassignment"),
    Step(
        "POST /topics/{topic}/partitions/0/compaction/seal",
        {},
        {"topic_id": ("topic_id",), "first": ("first_offset",), "end": ("end_offset",)},
    ),
    Step(
        "POST /topics/{topic}/partitions/0/compaction",
        {
            "topic_id": "$topic_id",
            "first_offset": "$first",
            "end_offset": "$end",
            "superseded": "$nothing",
            "dry_run": True,
        },
    ),
    Step("DELETE /topics/{topic}/partitions/1/messages", query={"before": "1"}),
    Step("DELETE /topics/{topic}"),
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNodes]:
    with http_nodes(tmp_path_factory.mktemp("nodes")) as found:
        yield found


def fill(found: Any, said: dict[str, Any]) -> Any:
    """With what was said before."""
    match found:
        case dict():
            return {fill(key, said): fill(each, said) for key, each in found.items()}
        case list():
            return [fill(each, said) for each in found]
        case str() if found.startswith("$"):
            return said[found[1:]]
        case str():
            return found.format_map(said)
        case _:
            return found


def take(step: Step, at: int, nodes: HttpNodes, said: dict[str, Any]) -> str:
    """What is wrong; empty when it was done."""
    method, path = step.route.split(" ")
    if missing := {each for each in NAMED.findall(str(step)) if each not in said}:
        return f"{step.route}: nobody said {missing}"
    url = nodes.url(at, path.format_map(said))
    body, query = fill(step.body, said), fill(step.query, said)
    reply = nodes.client.request(method, url, json=body or None, params=query)
    for _ in range(TRIES_MAX):
        if reply.status_code != 404:
            break
        reply = nodes.client.request(method, url, json=body or None, params=query)
    if not 200 <= reply.status_code < 300:
        return f"{step.route} at node {at}: {reply.status_code} {reply.text[:300]}"
    for name, place in step.kept.items():
        found = reply.json()
        try:
            for each in place:
                found = found[each]
        except LookupError:
            return f"{step.route} at node {at}: no {place} in {reply.text[:300]}"
        said[name] = found
    if "end" in step.kept:  # a bit for each offset
        bits = bytes((said["end"] - said["first"] + 7) // 8)
        said["nothing"] = base64.b64encode(zlib.compress(bits)).decode()
    return ""


SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in (1, 2)]


@pytest.mark.parametrize("turn", [0, *SLOW])
def test_every_writing_route_is_carried_out_at_any_node(nodes: HttpNodes, turn: int):
    names = [
        "topic",
        "queue",
        "group",
        "tx",
        "app",
        "plan",
        "subject",
        "user",
        "key",
        "tenant",
        "member",
    ]
    said: dict[str, Any] = {each: f"{each}-{turn}" for each in names}
    problems = []
    for number, step in enumerate(STORY):
        if problem := take(step, (number + turn) % nodes.count + 1, nodes, said):
            problems.append(problem)
    assert not problems, "\n".join(problems)


def test_the_story_has_every_writing_route(nodes: HttpNodes):
    document = nodes.get(1, "/openapi.json")
    routes = {
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
        if method in ("post", "put", "patch", "delete") and not path.startswith("/v1")
    }
    told = {same_shape(step.route) for step in STORY}
    missing = {
        each for each in routes - OF_ONE_NODE if same_shape(SAME_AS.get(each, each)) not in told
    }
    assert missing == set(), "give the story a step for each, or name it in OF_ONE_NODE"


def same_shape(route: str) -> tuple[str, ...]:
    """A route without the names and values of its path."""
    parts = route.split("/")
    return tuple("*" if "{" in part or part.isdigit() else part for part in parts)
