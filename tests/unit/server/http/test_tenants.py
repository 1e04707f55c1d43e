"""Tenants over HTTP: their own names within, and every route as another tenant."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config
from goqueue.quotas import Namespace, Tenant
from goqueue.server.http.tenancy.fields import body_into, body_out
from goqueue.server.http.tenancy.requests import path_into, query_into, registry_path
from tests.unit.server.http.conftest import Server, Serving
from tests.unit.server.http.test_security import AUTH, routes
from tests.unit.server.test_tokens import Provider, sign

ACME = Namespace("acme")
NAMES = ["t", "acme.t", "acme.veiled", "..", ".acme.t", "umbra.t", "\uff41cme.t"]
ROOT, ANN, EVE = ("root", "root"), ("ann", "ann"), ("eve", "eve")
WAITS = {"GET /queues/{topic}/stream"}  # goes on for as long as its client stays
SCHEMA = {"schema": '{"type": "object"}', "schemaType": "JSON"}


@contextlib.asynccontextmanager
async def tenants(serving: Serving) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """Two, with a user each that may do everything in it."""
    async with (
        serving(AUTH) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        broker = server.broker
        await broker.users.put("root", "root", ("admin",))
        for tenant_id, user in (("acme", "ann"), ("umbra", "eve")):
            await broker.tenants.create(Tenant(tenant_id=tenant_id))
            await broker.tenants.set_user(user, tenant_id)
            await broker.users.put(user, user, ("admin",))
        yield server, client


async def fill(client: httpx.AsyncClient) -> dict[str, Any]:
    """Of each kind of thing one that is asked about, and one whose name nobody else may see."""
    found: dict[str, Any] = {}
    for name in ("t", "cloaked", "veiled"):
        for call in (
            client.post("/topics", json={"name": name, "partitions": 1}, auth=ANN),
            client.post(f"/topics/{name}/messages", json=messages("veiled-value"), auth=ANN),
            client.post(f"/schemas/subjects/{name}-value/versions", json=SCHEMA, auth=ANN),
            client.post("/schedules", json={"name": name, **schedule("t")}, auth=ANN),
            client.post("/producers/init", json={"transactional_id": name}, auth=ANN),
        ):
            answer = await call
            assert answer.status_code < 300, (answer.request.url, answer.text)
        got = await client.post(
            f"/queues/{name}/receive", json={"group": name, "visibility": "10m"}, auth=ANN
        )
        found["receipt"] = got.json()["messages"][0]["receipt_handle"]
    return found


def messages(value: str) -> dict[str, Any]:
    return {"messages": [{"value": value, "headers": {"acme.x": "acme.y"}}]}


def schedule(topic: str) -> dict[str, Any]:
    return {"topic": topic, "message": {"value": "veiled"}, "cron": "0 0 1 1 *"}


def body(route: str, name: str, receipt: str) -> Any:
    """What a request of the route needs, about that name."""
    method, path = route.split()
    bodies: dict[str, Any] = {
        "/topics": {"name": name},
        "/topics/{topic}/messages": {"messages": [{"value": "intruder"}]},
        "/topics/{topic}/partitions": {"partitions": 9},
        "/topics/{topic}/settings": {"set": {"retention.ms": "1"}},
        "/topics/{topic}/dlq/redrive": {"to": name},
        "/queues/{topic}/receive": {"group": name},
        "/queues/{topic}/ack-range": {"group": name, "partition": 0, "start": 0, "end": 5},
        "/groups/{group}/join": {"topics": [name]},
        "/groups/{group}/offsets": {"offsets": {name: {"0": 7}}},
        "/groups/{group}/offsets/reset": {"topic": name, "to": "latest"},
        "/schedules": {"name": name, **schedule(name)},
        "/schedules/{name}": schedule(name),
        "/producers/init": {"transactional_id": name},
        "/transactions/force-abort": {"transactional_id": name},
        "/schemas/subjects/{subject}/versions": SCHEMA,
        "/schemas/subjects/{subject}": SCHEMA,
        "/schemas/config/{subject}": {"compatibility": "NONE"},
        "/transactions/groups/{application}/runs": {"name": "intruder"},
    }
    if path.startswith("/messages/"):
        return {"receipt_handles": [receipt, f"{name}:0:0:1:x.{name}", f"acme.{receipt}"]}
    if method in ("GET", "DELETE"):
        return None
    return bodies.get(path, {})


def fill_path(path: str, name: str) -> str:
    values = {"{partition}": "0", "{offset}": "0", "{node_id}": "9", "{producer_id}": "1"}
    values |= {"{schema_id}": "1", "{version}": "1", "{subject}": f"{name}-value"}
    own = ("{topic}", "{group}", "{name}", "{transactional_id}", "{application}", "{tenant}")
    values |= dict.fromkeys((*own, "{user}"), name)
    parts = (values.get(each, each.strip("{}")) for each in path.split("/"))
    return "/".join(quote(each, safe="") for each in parts)


def state(broker: Broker) -> list[Any]:
    """All of the tenant's that a request could change."""
    records = [each for each in broker.metadata.snapshot() if "'acme" in repr(each)]
    partition = broker.partitions.find_open("acme.t", 0)
    assert partition is not None
    return [records, partition.log.start_offset, partition.log.end_offset]


async def test_every_route_as_another_tenant(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    table = []
    async with tenants(serving) as (server, client):
        receipt = (await fill(client))["receipt"]
        before, schedules = state(server.broker), await client.get("/schedules", auth=ANN)
        lists = ["/topics", "/groups", "/schedules", "/schemas/subjects", "/registry/subjects"]
        for route in [*routes(), *(f"GET {each}" for each in lists)]:
            method, path = route.split()
            codes = set()
            for name in NAMES if route not in WAITS else ():
                address = f"{fill_path(path, name)}"
                query = {"transactional_id": name} if "describe" in path else {}
                answer = await client.request(
                    method,
                    address,
                    json=body(route, name, receipt),
                    params=query,
                    auth=EVE,
                )
                codes.add(answer.status_code)
                assert "cloaked" not in answer.text, (route, name, answer.text)
                told = answer.text.replace("acme.veiled", "")  # that is the intruder's own
                assert "veiled" not in told, (route, name, answer.text)
                assert answer.status_code != 500, (route, name, answer.text)
                assert state(server.broker) == before, (route, name)
            table.append(f"{route:70} {sorted(codes)}: nothing leaks, nothing changes")
        after = await client.get("/schedules", auth=ANN)
        assert [each["name"] for each in after.json()["schedules"]] == ["cloaked", "t", "veiled"]
        assert after.json()["schedules"] == schedules.json()["schedules"]
        subjects = await client.get("/schemas/subjects", auth=ANN)
        assert subjects.json() == ["cloaked-value", "t-value", "veiled-value"]
        held = await client.get("/groups/t/in-flight", auth=ANN)
        assert len(held.json()["messages"]) == 1
    with capsys.disabled():
        print("", *table, sep="\n")


async def test_within_a_tenant_names_are_its_own(serving: Serving) -> None:
    async with tenants(serving) as (_, client):
        await fill(client)
        topics = (await client.get("/topics", auth=ANN)).json()["topics"]
        assert topics == ["cloaked", "t", "veiled"]
        inside = (await client.get("/topics", auth=ROOT)).json()["topics"]
        assert inside == ["acme.cloaked", "acme.t", "acme.veiled"]
        read = (await client.get("/topics/t/messages", auth=ANN)).json()["messages"][0]
        assert read["headers"] == [{"name": "acme.x", "value": "acme.y"}]  # users' own
        absent = await client.get("/topics/nope", auth=ANN)
        assert "'nope'" in absent.json()["error"]["message"]
        got = await client.get("/queues/veiled/peek?group=other", auth=ANN)
        assert got.json()["messages"][0]["topic"] == "veiled"
        offsets = {"offsets": {"t": {"0": 1}}}
        done = await client.post("/groups/g/offsets", json=offsets, auth=ANN)
        assert done.status_code < 300, done.text
        told = (await client.get("/groups/g/offsets", auth=ANN)).json()
        assert (told["group"], told["offsets"][0]["topic"]) == ("g", "t")
        by_id = await client.get("/schemas/ids/1", auth=ANN)
        assert by_id.status_code == 200
        assert "acme" not in by_id.text
        assert (await client.get("/schemas/ids/1", auth=EVE)).status_code == 404
        assert (await client.get("/registry/schemas/ids/1", auth=EVE)).status_code == 404
        assert (await client.get("/registry/subjects", auth=ANN)).json() == topics_of("value")
        assert (await client.get("/registry/subjects", auth=EVE)).json() == []


def topics_of(suffix: str) -> list[str]:
    return [f"cloaked-{suffix}", f"t-{suffix}", f"veiled-{suffix}"]


async def test_a_worker_acks_and_a_stream_shows_own_names(serving: Serving) -> None:
    async with tenants(serving) as (_, client):
        await client.post("/topics/t/messages", json=messages("x"), auth=ANN)
        address = "/queues/t/stream?group=g"
        accept = {"Accept": "text/event-stream"}
        async with client.stream("GET", address, auth=ANN, headers=accept) as stream:
            lines = []
            async for line in stream.aiter_lines():
                lines.append(line)
                if line.startswith("data: "):
                    break
        assert '"topic":"t"' in lines[-1]
        assert any(each.startswith("id: t:") for each in lines)
        joined = await client.post("/groups/r/join", json={"topics_regex": "^t$"}, auth=ANN)
        assert joined.status_code == 200, joined.text
        member = joined.json()
        assert {each["topic"] for each in member["partitions"]} <= {"t"}


async def test_a_suspended_tenant_is_told_why(serving: Serving) -> None:
    async with tenants(serving) as (_, client):
        refused = await client.post("/admin/tenants/acme/suspend", json={"reason": ""}, auth=ROOT)
        assert refused.status_code == 400
        done = await client.post(
            "/admin/tenants/acme/suspend", json={"reason": "unpaid"}, auth=ROOT
        )
        assert (done.json()["status"], done.json()["suspend_reason"]) == ("suspended", "unpaid")
        told = await client.get("/topics", auth=ANN)
        assert (told.status_code, told.json()["error"]["code"]) == (403, "tenant_refused")
        assert "unpaid" in told.json()["error"]["message"]
        assert (await client.get("/topics", auth=EVE)).status_code == 200
        await client.post("/admin/tenants/acme/activate", auth=ROOT)
        assert (await client.get("/topics", auth=ANN)).status_code == 200
        await client.post("/admin/tenants/acme/disable", auth=ROOT)
        assert (await client.get("/topics", auth=ANN)).status_code == 403


async def test_limits_and_usage(serving: Serving) -> None:
    async with tenants(serving) as (server, client):
        limits = {"topics": 1, "partitions_per_topic": 2, "retention_ms": "1h", "delay_ms": 1000}
        changed = await client.put("/admin/tenants/acme/quotas", json=limits, auth=ROOT)
        assert (changed.json()["topics"], changed.json()["groups"]) == (1, 50)
        many = await client.post("/topics", json={"name": "a", "partitions": 3}, auth=ANN)
        assert many.json()["error"]["code"] == "tenant_limit_reached"
        made = await client.post("/topics", json={"name": "a", "partitions": 1}, auth=ANN)
        assert made.json()["settings"]["retention.ms"] == "3600000"
        long = await client.patch(
            "/topics/a/settings", json={"set": {"retention.ms": "7200000"}}, auth=ANN
        )
        assert long.json()["error"]["code"] == "tenant_limit_reached"
        more = await client.post("/topics", json={"name": "b", "partitions": 1}, auth=ANN)
        assert more.status_code == 422
        late = {"messages": [{"value": "x", "delay": "1h"}]}
        delayed = await client.post("/topics/a/messages", json=late, auth=ANN)
        assert "tenant_limit_reached" in delayed.text
        done = await client.post("/topics/a/messages", json=messages("x"), auth=ANN)
        assert done.status_code == 200
        used = (await client.get("/admin/tenants/acme/usage", auth=ROOT)).json()
        assert (used["messages_published"], used["topics"], used["partitions"]) == (1, 1, 1)
        stats = (await client.get("/admin/tenants/acme/stats", auth=ROOT)).json()
        assert stats["topics_percent"] == 100.0
        await client.put("/admin/tenants/acme/quotas", json={"storage_bytes": 1}, auth=ROOT)
        server.broker.tenants._counted_at = None
        full = await client.post("/topics/a/messages", json=messages("x"), auth=ANN)
        assert full.status_code == 422, full.text


async def test_tenants_are_created_changed_and_deleted(serving: Serving) -> None:
    async with tenants(serving) as (server, client):
        for wrong in ("A", "ab", "a.b", "a" * 65, "1abc", "__system"):
            refused = await client.post("/admin/tenants", json={"id": wrong}, auth=ROOT)
            assert refused.status_code == 400, wrong
        again = await client.post("/admin/tenants", json={"id": "acme"}, auth=ROOT)
        assert again.status_code == 409
        await server.broker.create_topic("taken.x", partitions=1)
        taken = await client.post("/admin/tenants", json={"id": "taken"}, auth=ROOT)
        assert taken.status_code == 409
        change = {"name": "Acme", "quotas": {"groups": 7}}
        changed = await client.patch("/admin/tenants/acme", json=change, auth=ROOT)
        assert changed.json()["name"] == "Acme"
        assert changed.json()["quotas"]["groups"] == 7
        assert changed.json()["users"] == ["ann"]
        listed = await client.get("/admin/tenants?status=active", auth=ROOT)
        assert [each["id"] for each in listed.json()["tenants"]] == ["acme", "umbra"]
        left = await client.delete("/admin/tenants/acme/users/ann", auth=ROOT)
        assert left.status_code == 409  # with a password it would be nobody's
        await client.post("/topics", json={"name": "t"}, auth=ANN)
        topics = await client.get("/admin/tenants/acme/topics", auth=ROOT)
        assert topics.json()["topics"] == ["t"]
        assert (await client.delete("/admin/tenants/acme", auth=ROOT)).status_code == 409
        gone = await client.delete("/admin/tenants/acme?force=true", auth=ROOT)
        assert gone.json() == {"id": "acme", "deleted": True, "topics_deleted": 1}
        assert (await client.get("/topics", auth=ANN)).status_code == 403
        assert (await client.get("/admin/tenants/acme", auth=ROOT)).status_code == 404
        assert (await client.get("/admin/tenants", auth=EVE)).status_code == 403


def test_where_names_are():
    route = "POST /transactions/offsets"
    sent = {"group": "g", "offsets": [{"topic": "t", "metadata": "topic"}], "value": {"topic": "t"}}
    inside = {
        "group": "acme.g",
        "offsets": [{"topic": "acme.t", "metadata": "topic"}],
        "value": {"topic": "t"},
    }
    assert body_into(sent, ACME, route) == inside
    assert body_out(inside, ACME) == sent
    assert body_into({"name": "t"}, ACME, "POST /topics") == {"name": "acme.t"}
    assert body_into({"name": "t"}, ACME, "POST /x") == {"name": "t"}
    assert body_into(["x", 1, None], ACME, "POST /x") == ["x", 1, None]
    assert path_into("/topics/a/dlq/0/1", "/topics/{topic}/dlq/{partition}/{offset}", ACME) == (
        "/topics/acme.a/dlq/0/1"
    )
    assert path_into("/schedules/a", "/schedules/{name}", ACME) == "/schedules/acme.a"
    assert registry_path("/registry/subjects/a/b-value/versions/1", ACME) == (
        "/registry/subjects/acme.a/b-value/versions/1"
    )
    assert registry_path("/registry/config", ACME) == "/registry/config"
    assert query_into(b"group=a%20b&x=1", "GET /x", ACME) == b"group=acme.a+b&x=1"
    assert query_into(b"after=k", "GET /topics", ACME) == b"after=acme.k"
    assert query_into(b"after=k", "GET /x", ACME) == b"after=k"


async def test_a_token_names_its_tenant(serving: Serving, tmp_path: Path) -> None:
    provider = Provider(tmp_path)
    auth = provider.config(oauth_tenant_claim="org", oauth_roles_claim="roles")
    config = Config(auth=msgspec.structs.replace(auth, failed_login_delay_ms=0))
    async with (
        serving(config) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        broker = server.broker
        for tenant_id in ("acme", "umbra"):
            await broker.tenants.create(Tenant(tenant_id=tenant_id))
            await broker.create_topic(f"{tenant_id}.of-{tenant_id}", partitions=1)
        await broker.tenants.set_user("mapped", "umbra")

        async def topics(**more: Any) -> Any:
            token = sign(roles=["admin"], **more)
            headers = {"Authorization": f"Bearer {token}"}
            answer = await client.get("/topics", headers=headers)
            return answer.json().get("topics", answer.status_code)

        assert await topics(org="acme") == ["of-acme"]
        assert await topics(org="umbra") == ["of-umbra"]
        assert await topics(sub="mapped", org="umbra") == ["of-umbra"]
        assert await topics(sub="mapped") == ["of-umbra"]
        assert await topics(sub="mapped", org="acme") == 403  # two tenants are none
        assert await topics(org="gone") == 403
        assert await topics(org=["acme"]) == 401
        assert await topics(org="") == ["acme.of-acme", "umbra.of-umbra"]  # an operator
        await broker.tenants.set_status("acme", "suspended", "unpaid")
        assert await topics(org="acme") == 403


async def read_until(client: httpx.AsyncClient, topic: str, header: str) -> dict[str, Any]:
    """Ann's first message with such a header: its headers, and its value."""
    for _ in range(5_000):
        found = await client.get(f"/topics/{topic}/messages", auth=ANN)
        for each in found.json().get("messages", ()):
            named = {pair["name"]: pair["value"] for pair in each["headers"]}
            if header in named:
                return {**named, "value": each["value"]}
    raise AssertionError(f"nothing in {topic} has a header {header}")


async def test_dead_letters_show_own_names(serving: Serving) -> None:
    async with tenants(serving) as (_, client):
        await client.post("/topics", json={"name": "t", "partitions": 1}, auth=ANN)
        await client.post("/topics/t/messages", json={"messages": [{"value": "x"}]}, auth=ANN)
        got = await client.post("/queues/t/receive", json={"group": "g"}, auth=ANN)
        receipt = {"receipt_handle": got.json()["messages"][0]["receipt_handle"]}
        rejected = await client.post("/messages/reject", json=receipt | {"reason": "no"}, auth=ANN)
        assert rejected.is_success, rejected.text
        dead = await read_until(client, "t.dlq", "gq-dlq-id")
        assert dead.pop("gq-dlq-tenant") == "acme"
        assert not [each for each in dead.values() if "acme" in each]
        assert (dead["gq-dlq-topic"], dead["gq-dlq-group"]) == ("t", "g")
        assert dead["gq-dlq-id"] == "g/t/0/0"
        # Inside it has the names inside: it is found by its group, and goes back to its topic.
        found = (await client.get("/topics/t/dlq?group=g", auth=ANN)).json()
        assert [each["source_offset"] for each in found["messages"]] == [0], found
        back = await client.post("/topics/t/dlq/redrive", json={"group": "g"}, auth=ANN)
        assert back.json() == {"topic": "t", "to": "t", "moved": 1, "dry_run": False}


async def test_runs_of_a_schedule_show_its_own_name(serving: Serving) -> None:
    async with tenants(serving) as (_, client):
        await client.post("/topics", json={"name": "t", "partitions": 1}, auth=ANN)
        made = {"name": "nightly", **schedule("t"), "message": {"value": "{{name}}"}}
        assert (await client.post("/schedules", json=made, auth=ANN)).is_success
        ran = await client.post("/schedules/nightly/run", auth=ANN)
        assert ran.is_success, ran.text
        run = await read_until(client, "t", "gq-schedule")
        assert (run["value"], run["gq-schedule"]) == ("nightly", "nightly")


async def test_a_redrive_does_not_go_where_a_header_says(serving: Serving) -> None:
    """Who may write to `{topic}.dlq` need not be allowed to write elsewhere."""
    async with tenants(serving) as (server, client):
        await server.broker.create_topic("umbra.safe", partitions=1)
        await server.broker.create_topic("inner", partitions=1)
        for name in ("t", "t.dlq"):
            await client.post("/topics", json={"name": name, "partitions": 1}, auth=ANN)
        for target in ("umbra.safe", "inner", "safe"):
            for tenant in ("", "umbra"):
                forged = {"gq-dlq-id": "x", "gq-dlq-topic": target, "gq-dlq-tenant": tenant}
                sent = {"messages": [{"value": "forged", "headers": forged}]}
                told = await client.post("/topics/t.dlq/messages", json=sent, auth=ANN)
                assert told.is_success, told.text
        told = await client.post("/topics/t/dlq/redrive", json={}, auth=ANN)
        assert told.json()["moved"] == 6, told.text
        ends = {
            name: (await server.broker.partition(name, 0)).log.end_offset
            for name in ("umbra.safe", "inner", "acme.t")
        }
        assert ends == {"umbra.safe": 0, "inner": 0, "acme.t": 6}
