"""Logins and permissions over HTTP: every route as nobody, as a stranger, as a reader."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from goqueue.cluster.metadata import FeatureLevel, SecurityRecord, SettingsChanged
from goqueue.model.config import AuthConfig, Config
from goqueue.server.http.asgi.app import API
from goqueue.server.http.openapi import page
from goqueue.server.http.registry.calls import OPERATIONS, find_operation
from goqueue.server.http.routes import health
from goqueue.server.http.security.audited import DATA
from goqueue.server.http.security.demands import ADMIN_ONLY, DEMANDS, template_text
from goqueue.server.http.security.registry_demands import registry_demands
from tests.unit.server.http.conftest import Server, Serving

AUTH = Config(auth=AuthConfig(enabled=True, failed_login_delay_ms=0))
OPEN = {"/health", "/healthz", "/livez", "/readyz"}
KINDS = ("config", "mode")
ENDLESS = {"GET /queues/{topic}/stream"}  # goes on for as long as its client stays
# Show what one may see, which is nothing.
LISTS = {
    f"GET /registry{each}"
    for each in ("", "/subjects", "/schemas", "/schemas/types", "/config", "/mode")
}
FOR_EVERYBODY_KNOWN = {key for key, demands in DEMANDS.items() if not demands}


def routes() -> list[str]:
    found = [
        f"{method} {template_text(path)}"
        for handler in [*API, *health.routes.handlers, *page.HANDLERS]
        for path in handler.paths
        for method in handler.http_methods
    ]
    return sorted(each for each in found if each.split()[0] not in ("HEAD", "OPTIONS"))


@contextlib.asynccontextmanager
async def guarded(serving: Serving) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    async with (
        serving(AUTH) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        users = server.broker.users
        await users.put("root", "root", ("admin",))
        await users.put("reader", "reader", ("readonly",))
        await users.put("stranger", "stranger")
        yield server, client


def test_every_route_is_in_the_table_and_nothing_else() -> None:
    assert sorted([*DEMANDS, *ADMIN_ONLY]) == sorted(set(routes()))


# Confluent's paths are one route to the application; each is walked as one of its own.
REGISTRY = [
    f"{method} /registry{path}"
    for method, path in (
        *(("GET", each) for each in ("", "/subjects", "/schemas", "/schemas/types", "/contexts")),
        *(("GET", f"/schemas/ids/1{each}") for each in ("", "/schema", "/subjects", "/versions")),
        *(("GET", f"/schemas/guids/{each}") for each in ("00000000-0000-0000-0000-000000000001",)),
        *((each, "/config") for each in ("GET", "PUT", "DELETE")),
        *((each, "/mode") for each in ("GET", "PUT", "DELETE")),
        *(("GET", f"/v1/metadata/{each}") for each in ("id", "version")),
        *((each, f"/{kind}/t-value") for each in ("GET", "PUT", "DELETE") for kind in KINDS),
        *((each, "/subjects/t-value/versions") for each in ("GET", "POST")),
        *((each, "/subjects/t-value/versions/1") for each in ("GET", "DELETE")),
        *((each, "/subjects/t-value") for each in ("POST", "DELETE")),
        ("GET", "/subjects/t-value/metadata"),
        ("GET", "/subjects/t-value/versions/1/schema"),
        ("GET", "/subjects/t-value/versions/1/referencedby"),
        ("POST", "/compatibility/subjects/t-value/versions/1"),
        ("POST", "/compatibility/subjects/t-value/versions"),
    )
]


def test_every_operation_of_the_registry_is_walked() -> None:
    walked = {
        found[0]
        for method, path in (each.split() for each in REGISTRY)
        if (found := find_operation(method, path.removeprefix("/registry") or "/"))
    }
    assert {operation for *_, operation in OPERATIONS} - walked == set()


async def test_every_route_as_nobody_as_a_stranger_and_as_a_reader(serving: Serving) -> None:
    table = ["route | demands | nobody | stranger | reader"]
    async with guarded(serving) as (server, client):
        for name in ("t", "veiled"):
            await server.broker.create_topic(name, partitions=1)
            made = await client.post(
                f"/registry/subjects/{name}-value/versions", json=SCHEMA, auth=("root", "root")
            )
            assert made.status_code == 200, made.text
        message = {"messages": [{"value": "x"}]}
        await client.post("/topics/t/messages", json=message, auth=("root", "root"))
        before = await _state(server, client)
        for route in [*routes(), *REGISTRY]:
            if route in ENDLESS:
                continue
            method, path = route.split()
            told = {
                name: await client.request(
                    method,
                    _fill(path),
                    json=_body(route),
                    auth=None if name == "nobody" else (name, name),
                )
                for name in ("nobody", "stranger", "reader")
            }
            assert told["nobody"].status_code == (200 if path in OPEN else 401), route
            stranger = told["stranger"]
            is_hidden = stranger.status_code == 404 and "/schemas/ids/" in route
            is_list = route in FOR_EVERYBODY_KNOWN or route in LISTS
            if not is_list and not is_hidden:
                assert stranger.status_code == 403, (route, stranger.text)
                assert stranger.json()["error"]["code"] == "access_denied"
            assert "veiled" not in stranger.text, (route, stranger.text)
            assert await _state(server, client) == before, route
            codes = " | ".join(str(each.status_code) for each in told.values())
            table.append(f"{route} | {_demands(route)} | {codes}")
    print("\n".join(table))  # `pytest -rP` shows it


async def _state(server: Server, client: httpx.AsyncClient) -> list[Any]:
    """All that a route could change."""
    broker = server.broker
    partition = broker.partitions.find_open("t", 0)
    kinds = SecurityRecord | SettingsChanged | FeatureLevel
    records = [each for each in broker.metadata.snapshot() if isinstance(each, kinds)]
    topics = [(each.name, each.partitions) for each in broker.topics()]
    log = [] if partition is None else [partition.log.start_offset, partition.log.end_offset]
    groups = [each for host in broker.groups.hosts for each in host.ahead.snapshot()]
    schemas = await client.get("/registry/schemas?deleted=true", auth=("root", "root"))
    levels = await client.get("/registry/config", auth=("root", "root"))
    return [records, topics, log, groups, schemas.text, levels.text]


def _demands(route: str) -> str:
    if route in ADMIN_ONLY:
        return "administrator"
    method, path = route.split()
    if route in REGISTRY:
        demands = registry_demands(method, path.removeprefix("/registry").lstrip("/"))
    else:
        demands = DEMANDS[route]
    words = [f"{each.operation.name} {each.resource_type.name}" for each in demands]
    return ", ".join(words) or "a login"


async def test_a_reader_changes_nothing(serving: Serving) -> None:
    async with guarded(serving) as (server, client):
        await server.broker.create_topic("t", partitions=1)
        for route in routes():
            method, path = route.split()
            if method == "GET" or path.startswith("/messages") or "offsets/" in path:
                continue
            answer = await client.request(
                method, _fill(path), json=_body(route), auth=("reader", "reader")
            )
            looks = {"POST /schemas/subjects/{subject}", "POST /schedules/preview"}
            looks |= {"POST /schemas/compatibility/subjects/{subject}/versions/{version}"}
            if route not in looks:
                assert answer.status_code == 403, (route, answer.text)
        assert (await client.get("/topics/t", auth=("reader", "reader"))).status_code == 200


VALUES = {
    "{partition}": "0",
    "{offset}": "0",
    "{node_id}": "9",
    "{producer_id}": "1",
    "{schema_id}": "1",
    "{version}": "1",
    "{topic}": "t",
    "{subject}": "t-value",
}


def _fill(path: str) -> str:
    filled = "/".join(VALUES.get(each, each.strip("{}")) for each in path.split("/"))
    return f"{filled}?transactional_id=x" if path == "/transactions/describe" else filled


def _body(route: str) -> Any:
    if route.startswith("GET"):
        return None
    receipts = {"receipt_handles": ["t:0:0:1:x"]}
    return {
        "name": "t",
        "topic": "t",
        "topics": ["t"],
        "group": "g",
        "transactional_id": "x",
        "offsets": {"t": {"0": 1}},
        **receipts,
    }


async def test_wrong_passwords_and_malformed_headers(serving: Serving) -> None:
    async with guarded(serving) as (_, client):
        assert (await client.get("/topics", auth=("reader", "reader"))).status_code == 200
        refused = await client.get("/topics", auth=("reader", "wrong"))
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic realm=")
        for header in ("Basic", "Basic !", "Basic eA==", "Bearer x", "Digest x", "Basic /w=="):
            answer = await client.get("/topics", headers={"Authorization": header})
            assert answer.status_code == 401, header
            assert answer.json()["error"]["code"] == "authentication_failed"


async def test_keys_are_shown_once_and_end_when_removed(serving: Serving) -> None:
    async with guarded(serving) as (_, client):
        root = ("root", "root")
        made = await client.post(
            "/admin/keys", json={"name": "ci", "roles": ["producer"]}, auth=root
        )
        assert made.status_code == 201, made.text
        key = made.json()["key"]
        listed = (await client.get("/admin/keys", auth=root)).text
        assert "ci" in listed
        assert key not in listed
        body = {"messages": [{"value": "x"}]}
        for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
            answer = await client.post("/topics/made/messages", json=body, headers=headers)
            assert answer.status_code in (200, 201), answer.text
            read = await client.get("/topics/made/messages", headers=headers)
            assert read.status_code == 403
        assert (await client.get(f"/topics?api_key={key}")).status_code == 401
        removed = await client.delete(f"/admin/keys/{made.json()['id']}", auth=root)
        assert removed.status_code == 200
        gone = await client.get("/topics", headers={"X-API-Key": key})
        assert gone.status_code == 401


async def test_acls_decide_and_lists_show_what_one_may_see(serving: Serving) -> None:
    async with guarded(serving) as (server, client):
        root, stranger = ("root", "root"), ("stranger", "stranger")
        for name in ("mine.a", "mine.b", "other"):
            await server.broker.create_topic(name, partitions=1)
        acl = {
            "principal": "User:stranger",
            "operation": "read",
            "resource_type": "topic",
            "resource_name": "mine.",
            "pattern": "prefixed",
        }
        added = await client.post("/admin/acls", json={"acls": [acl]}, auth=root)
        assert added.status_code == 200, added.text
        assert (await client.get("/topics", auth=stranger)).json()["topics"] == ["mine.a", "mine.b"]
        assert (await client.get("/topics/mine.a/messages", auth=stranger)).status_code == 200
        # A refusal does not tell whether there is such a topic.
        refusals = {
            (await client.get(f"/topics/{name}/messages", auth=stranger)).text.replace(name, "")
            for name in ("other", "absent")
        }
        assert len(refusals) == 1
        found = await client.get("/admin/acls?resource_name=mine.a", auth=root)
        assert found.json()["count"] == 1
        removed = await client.request("DELETE", "/admin/acls", json={"acls": [acl]}, auth=root)
        assert removed.json()["count"] == 1
        assert (await client.get("/topics", auth=stranger)).json()["topics"] == []


async def test_offsets_are_reset_in_topics_that_one_may_read(serving: Serving) -> None:
    async with guarded(serving) as (server, client):
        root, stranger = ("root", "root"), ("stranger", "stranger")
        for name in ("mine", "other"):
            await server.broker.create_topic(name, partitions=1)
            body = {"messages": [{"value": "x"}]}
            await client.post(f"/topics/{name}/messages", json=body, auth=root)
        both = {"offsets": {"mine": {"0": 1}, "other": {"0": 1}}}
        assert (await client.post("/groups/g/offsets", json=both, auth=root)).is_success
        for kind, name in (("group", "g"), ("topic", "mine")):
            acl = {"principal": "User:stranger", "operation": "read"}
            acl |= {"resource_type": kind, "resource_name": name}
            assert (await client.post("/admin/acls", json={"acls": [acl]}, auth=root)).is_success
        address = "/groups/g/offsets/reset"
        for dry_run in (True, False):
            asked = {"to": "earliest", "dry_run": dry_run}
            refused = await client.post(address, json=asked, auth=stranger)
            assert refused.status_code == 403, refused.text
            assert "other" not in refused.text
        kept = (await client.get("/groups/g/offsets", auth=root)).json()["topics"]
        assert kept == both["offsets"], "a refusal moves nothing"
        named = {"to": "earliest", "topic": "mine"}
        assert (await client.post(address, json=named, auth=stranger)).is_success
        moved = (await client.post(address, json={"to": "earliest"}, auth=root)).json()
        assert {each["topic"]: each["before"] for each in moved["offsets"]} == {
            "mine": 0,
            "other": 1,
        }


@pytest.mark.parametrize(
    ("method", "rest", "name"),
    [
        ("POST", "subjects/orders-value/versions", "WRITE orders"),
        ("POST", "subjects/orders-key", "DESCRIBE orders"),
        ("GET", "subjects/a/b.proto/versions/1/schema", "DESCRIBE a/b.proto"),
        ("DELETE", "subjects/orders-value/versions/1", "DELETE orders"),
        ("POST", "compatibility/subjects/orders-value/versions/1", "DESCRIBE orders"),
        ("PUT", "config/orders-value", "WRITE orders"),
        ("PUT", "config", "ALTER_CONFIGS kafka-cluster"),
        ("PUT", "mode", "ALTER_CONFIGS kafka-cluster"),
        ("GET", "subjects", ""),
        ("GET", "schemas", ""),
        ("GET", "schemas/ids/1", ""),
        ("GET", "schemas/ids/1/subjects", ""),
        ("GET", "schemas/guids/1", "DESCRIBE kafka-cluster"),
        ("GET", "contexts/.x/subjects", "DESCRIBE kafka-cluster"),
        ("GET", "subjects/orders-value/metadata", "DESCRIBE orders"),
        ("GET", "subjects/mine/versions/x/versions/1", "DESCRIBE mine/versions/x"),
        ("GET", "subjects/:.:orders-value/versions/1", "DESCRIBE orders"),
        ("GET", "", ""),
    ],
)
def test_paths_of_the_registry(method: str, rest: str, name: str) -> None:
    demands = registry_demands(method, rest)
    found = [f"{each.operation.name} {next(iter(each.names(None)))}" for each in demands]  # type: ignore[arg-type]
    assert found == ([name] if name else [])


async def test_logins_refusals_and_changes_are_on_record_without_secrets(serving: Serving) -> None:
    async with guarded(serving) as (_server, client):
        secret = "p4ssw0rd-of-carol"
        root = ("root", "root")
        body = {"password": secret, "roles": ["producer"]}
        await client.put("/admin/users/carol", json=body, auth=root)
        made = (await client.post("/admin/keys", json={"name": "ci"}, auth=root)).json()
        acl = {"principal": "User:carol", "operation": "read"}
        acl |= {"resource_type": "topic", "resource_name": "t"}
        assert (await client.post("/admin/acls", json={"acls": [acl]}, auth=root)).is_success
        await client.get("/topics", auth=("carol", "wr0ng-one"))
        wrong = made["key"][:-2] + ("00" if made["key"][-2:] != "00" else "11")
        await client.get("/topics", headers={"Authorization": f"Bearer {wrong}"})
        await client.get("/topics", auth=(made["key"], ""))
        await client.delete("/topics/t", auth=("carol", secret))
        await client.post("/topics", json={"name": "t"}, auth=root)
        for _ in range(3):
            message = {"messages": [{"value": "x"}]}
            answer = await client.post("/topics/t/messages", json=message, auth=("carol", secret))
            assert answer.is_success

        async def events(**query: str) -> list[dict[str, Any]]:
            found = await client.get("/admin/audit", params=query, auth=root)
            return list(found.json()["events"])

        for _ in range(100):
            if any(each["request"] == "POST /topics" for each in await events()):
                break
        refused = await events(kind="authentication", allowed="false")
        assert [each["principal"] for each in refused][::2] == ["User:carol", "User:(hidden)"]
        assert [each["operation"] for each in refused] == ["BASIC", "BEARER", "BASIC"]
        (denied,) = await events(kind="authorization")
        assert (denied["principal"], denied["resource"]) == ("User:carol", "topic:t")
        changes = {each["request"]: each for each in await events(kind="change")}
        assert changes.keys() == {
            "PUT /admin/users/{user}",
            "POST /admin/keys",
            "POST /admin/acls",
            "POST /topics",
        }
        assert (
            changes["POST /admin/acls"]["details"] == "ALLOW User:carol READ LITERAL topic:t from *"
        )
        logins = await events(principal="carol", allowed="true", kind="authentication")
        assert len(logins) == 1
        whole = await client.get("/admin/audit", auth=root)
        for word in (secret, "wr0ng-one", made["key"], made["key"][10:40]):
            assert word not in whole.text
        assert (await client.get("/admin/audit", auth=("carol", secret))).status_code == 403


async def test_changes_are_every_write_that_is_no_data() -> None:
    writes = {each for each in routes() if not each.startswith("GET")}
    assert writes >= DATA


async def test_the_brokers_own_topics_are_for_administrators(serving: Serving) -> None:
    async with guarded(serving) as (server, client):
        await client.get("/topics", auth=("reader", "wrong"))
        for _ in range(100):
            if server.broker.has_topic("__audit"):
                break
            await client.get("/topics", auth=("reader", "reader"))
        path = "/topics/__audit/partitions/0/messages?offset=0"
        assert (await client.get(path, auth=("reader", "reader"))).status_code == 403
        assert (await client.get(path, auth=("root", "root"))).status_code == 200


async def test_a_missing_topic_is_created_by_who_may_create_it(serving: Serving) -> None:
    async with guarded(serving) as (server, client):
        for name in ("written", "made"):
            await server.broker.users.put(name, name)
            acl = {"principal": f"User:{name}", "operation": "write", "resource_type": "topic"}
            body = {"acls": [{**acl, "resource_name": "*"}]}
            if name == "made":
                body["acls"].append({**acl, "operation": "create", "resource_name": "*"})
            assert (await client.post("/admin/acls", json=body, auth=("root", "root"))).is_success
        await server.broker.create_topic("there", partitions=1)

        async def publish(user: str, topic: str) -> int:
            messages = {"messages": [{"value": "x"}]}
            path = f"/topics/{topic}/messages"
            return (await client.post(path, json=messages, auth=(user, user))).status_code

        assert await publish("written", "there") == 200
        assert await publish("written", "lacking") == 403
        assert not server.broker.has_topic("lacking")
        assert await publish("made", "lacking") == 200
        assert await publish("written", "lacking") == 200


async def allow(client: httpx.AsyncClient, user: str, *operations: str, topic: str) -> None:
    for operation in operations:
        acl = {"principal": f"User:{user}", "operation": operation, "resource_type": "topic"}
        acl["resource_name"] = topic
        assert (
            await client.post("/admin/acls", json={"acls": [acl]}, auth=("root", "root"))
        ).is_success


SCHEMA = {"schema": '{"type": "object"}', "schemaType": "JSON"}


async def test_schemas_are_for_who_may_see_a_subject_that_has_them(serving: Serving) -> None:
    async with guarded(serving) as (_, client):
        root, stranger = ("root", "root"), ("stranger", "stranger")
        for subject in ("hidden-value", "mine-value"):
            made = await client.post(
                f"/registry/subjects/{subject}/versions", json=SCHEMA, auth=root
            )
            assert made.status_code == 200, made.text
        paths = ["/schemas/ids/1", "/registry/schemas/ids/1", "/registry/schemas/ids/1/schema"]
        for path in [*paths, "/registry/schemas/ids/1/subjects"]:
            there, absent = [
                await client.get(path.replace("/1", number), auth=stranger)
                for number in ("/1", "/7")
            ]
            assert there.status_code == 404, (path, there.text)
            assert there.text.replace("id 1", "id 7") == absent.text
        assert (await client.get("/registry/subjects", auth=stranger)).json() == []
        assert (await client.get("/registry/schemas", auth=stranger)).json() == []
        await allow(client, "stranger", "read", topic="mine")
        for path in paths:
            found = await client.get(path, auth=stranger)
            assert found.status_code == 200, (path, found.text)
            assert "hidden" not in found.text
        used = await client.get("/registry/schemas/ids/1/versions", auth=stranger)
        assert used.json() == [{"subject": "mine-value", "version": 1}]
        assert (await client.get("/registry/subjects", auth=stranger)).json() == ["mine-value"]
        shown = await client.get("/registry/subjects/mine-value/versions/1", auth=stranger)
        assert shown.status_code == 200, shown.text
        refused = await client.get("/registry/subjects/hidden-value/versions/1", auth=stranger)
        assert refused.status_code == 403
        written = await client.post(
            "/registry/subjects/mine-value/versions", json=SCHEMA, auth=stranger
        )
        assert written.status_code == 403
        assert len((await client.get("/registry/subjects", auth=root)).json()) == 2


@pytest.mark.parametrize("revoke", ["key", "permission"])
async def test_a_stream_ends_when_its_key_or_permission_is_gone(
    serving: Serving, revoke: str
) -> None:
    async with guarded(serving) as (server, client):
        await server.broker.create_topic("t", partitions=1)
        await allow(client, "stranger", "read", topic="t")
        group = {"principal": "User:stranger", "operation": "read"}
        group |= {"resource_type": "group", "resource_name": "g"}
        root = ("root", "root")
        await client.post("/admin/acls", json={"acls": [group]}, auth=root)
        key = {"name": "stream", "user": "stranger"}
        made = (await client.post("/admin/keys", json=key, auth=root)).json()
        headers = {"Authorization": f"Bearer {made['key']}", "Accept": "text/event-stream"}

        async def publish(value: str) -> None:
            body = {"messages": [{"value": value}]}
            assert (await client.post("/topics/t/messages", json=body, auth=root)).is_success

        async with client.stream("GET", "/queues/t/stream?group=g", headers=headers) as stream:
            lines = stream.aiter_lines()
            await publish("seen")
            async for line in lines:
                if line.startswith("data: "):
                    assert "seen" in line
                    break
            if revoke == "key":
                await client.delete(f"/admin/keys/{made['id']}", auth=root)
            else:
                await client.request("DELETE", "/admin/acls", json={"acls": [group]}, auth=root)
            await publish("secret")
            rest = [line async for line in lines]
        assert not any("secret" in line for line in rest), rest
        assert "event: error" in rest


async def test_a_member_polls_what_it_may_still_read(serving: Serving) -> None:
    async with guarded(serving) as (server, client):
        root, stranger = ("root", "root"), ("stranger", "stranger")
        for name in ("a", "hidden"):
            await server.broker.create_topic(name, partitions=1)
        await allow(client, "stranger", "read", topic="a")
        group = {"principal": "User:stranger", "operation": "all"}
        group |= {"resource_type": "group", "resource_name": "g"}
        await client.post("/admin/acls", json={"acls": [group]}, auth=root)
        joined = await client.post("/groups/g/join", json={"topics": ["a"]}, auth=stranger)
        member = joined.json()
        poll = f"/groups/g/poll?member_id={member['member_id']}"
        poll += f"&generation={member['generation']}&timeout=0ms"
        assert (await client.get(poll, auth=stranger)).status_code == 200
        other = await client.post("/groups/g/join", json={"topics": ["hidden"]}, auth=root)
        assert other.status_code == 200, other.text
        seen = await client.get("/groups/g", auth=stranger)
        assert "hidden" not in seen.text
        assert "hidden" in (await client.get("/groups/g", auth=root)).text
        acl = {"principal": "User:stranger", "operation": "read", "resource_type": "topic"}
        await client.request(
            "DELETE", "/admin/acls", json={"acls": [{**acl, "resource_name": "a"}]}, auth=root
        )
        refused = await client.get(poll, auth=stranger)
        assert refused.status_code == 403
        assert refused.json()["error"]["message"] == "User:stranger lacks READ on topic 'a'"


async def test_a_pattern_over_http_matches_what_its_member_may_read(serving: Serving) -> None:
    async with guarded(serving) as (server, client):
        for name in ("a", "secret"):
            await server.broker.create_topic(name, partitions=1)
        await server.broker.users.put("all", "all", ("consumer",))
        deny = {"principal": "User:all", "operation": "read", "resource_type": "topic"}
        deny |= {"resource_name": "secret", "permission": "deny"}
        done = await client.post("/admin/acls", json={"acls": [deny]}, auth=("root", "root"))
        assert done.is_success, done.text
        joined = await client.post(
            "/groups/g/join", json={"topics_regex": ".*"}, auth=("all", "all")
        )
        assert joined.status_code == 200, joined.text
        assert [each["topic"] for each in joined.json()["partitions"]] == ["a"]
