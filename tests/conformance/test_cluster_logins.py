"""Users, keys, ACLs and the audit log of three nodes: what one is told, all know."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conformance.cluster_processes import NodeProcess, running_cluster

ROOT = ("root", "s3cret")


@pytest.mark.slow
def test_what_one_node_is_told_about_logins_all_know(
    tmp_path: Path, eventually: Callable[..., None]
):
    (tmp_path / "password").write_text(ROOT[1])
    settings: dict[str, Any] = {
        "auth.enabled": "true",
        "auth.init_admin": ROOT[0],
        "auth.init_admin_password_file": str(tmp_path / "password"),
        "auth.failed_login_delay_ms": 0,
        "topics.replication": 3,
    }
    with running_cluster(tmp_path, 3, **settings) as nodes:
        clients = [httpx.Client(base_url=node.http, timeout=60) for node in nodes]

        def status(node: int, user: tuple[str, str], path: str = "/topics/orders") -> int:
            return clients[node].get(path, auth=user).status_code

        eventually(lambda: status(1, ROOT, "/topics") == status(2, ROOT, "/topics") == 200)
        body = {"name": "orders", "partitions": 3}
        eventually(lambda: clients[1].post("/topics", json=body, auth=ROOT).is_success)
        bob = ("bob", "one")
        put = clients[2].put("/admin/users/bob", json={"password": "one"}, auth=ROOT)
        assert put.is_success, put.text
        eventually(lambda: [status(n, bob) for n in range(3)] == [403, 403, 403])
        assert clients[0].get("/topics", auth=bob).json()["topics"] == []

        acl = {"principal": "User:bob", "operation": "describe"}
        acl |= {"resource_type": "topic", "resource_name": "orders"}
        assert clients[1].post("/admin/acls", json={"acls": [acl]}, auth=ROOT).is_success
        eventually(lambda: [status(n, bob) for n in range(3)] == [200, 200, 200])
        removed = clients[2].request("DELETE", "/admin/acls", json={"acls": [acl]}, auth=ROOT)
        assert removed.is_success
        eventually(lambda: [status(n, bob) for n in range(3)] == [403, 403, 403])

        made = clients[0].post("/admin/keys", json={"name": "ci", "user": "root"}, auth=ROOT).json()
        header = {"Authorization": f"Bearer {made['key']}"}

        def statuses() -> list[int]:
            return [each.get("/topics", headers=header).status_code for each in clients]

        eventually(lambda: statuses() == [200, 200, 200])
        assert clients[1].delete(f"/admin/keys/{made['id']}", auth=ROOT).is_success
        eventually(lambda: statuses() == [401, 401, 401])
        _look_at_the_audit_log(clients, nodes, eventually)
        for client in clients:
            client.close()


def _look_at_the_audit_log(
    clients: list[httpx.Client], nodes: list[NodeProcess], eventually: Callable[..., None]
) -> None:
    for number, client in enumerate(clients):
        client.get("/topics", auth=(f"mallory{number}", "guess"))

    def guessers(client: httpx.Client) -> set[tuple[int, str]]:
        query = {"kind": "authentication", "allowed": "false", "limit": "1000"}
        events = client.get("/admin/audit", params=query, auth=ROOT).json().get("events", [])
        return {(e["node"], e["principal"]) for e in events if "mallory" in e["principal"]}

    wanted = {(number + 1, f"User:mallory{number}") for number in range(3)}
    eventually(lambda: all(guessers(client) == wanted for client in clients))

    def replicas() -> int:
        found = clients[0].get("/topics/__audit/partitions", auth=ROOT).json()
        return len(found["partitions"][0]["replicas"])

    eventually(lambda: replicas() == len(nodes))
