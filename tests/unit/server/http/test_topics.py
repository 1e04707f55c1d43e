"""Topics over HTTP, from outside."""

import httpx
import pytest

Client = httpx.AsyncClient


async def test_a_topic_is_created_listed_described_and_deleted(client: Client):
    created = await client.post("/topics", json={"name": "orders", "num_partitions": 2})
    assert created.status_code == 201
    assert created.json()["created"] is True
    assert created.json()["partitions"] == 2

    assert (await client.get("/topics")).json() == {"topics": ["orders"]}

    detail = (await client.get("/topics/orders")).json()
    assert detail["partition_offsets"]["1"] == {"earliest": 0, "latest": 0, "next_offset": 0}
    assert detail["total_messages"] == 0

    deleted = await client.delete("/topics/orders")
    assert deleted.json() == {"name": "orders", "deleted": True}
    assert (await client.get("/topics/orders")).status_code == 404
    assert (await client.delete("/topics/orders")).status_code == 404


async def test_defaults_are_three_partitions_and_a_week(client: Client):
    assert (await client.post("/topics", json={"name": "t"})).json()["partitions"] == 3
    settings = (await client.get("/topics/t/settings")).json()["settings"]
    assert settings["retention.ms"]["value"] == str(168 * 3_600_000)
    assert settings["retention.ms"]["is_default"] is True


async def test_topics_are_listed_in_order_and_by_page(client: Client):
    for name in ("c", "a", "b"):
        await client.post("/topics", json={"name": name, "num_partitions": 1})
    first = (await client.get("/topics?limit=2")).json()
    assert first == {"topics": ["a", "b"], "next_after": "b"}
    second = (await client.get(f"/topics?limit=2&after={first['next_after']}&verbose=true")).json()
    assert second["topics"] == ["c"]
    assert second["details"][0]["partitions"] == 1


async def test_v1_is_the_same_api(client: Client):
    assert (await client.post("/v1/topics", json={"name": "t"})).status_code == 201
    assert (await client.get("/v1/topics/t")).json()["name"] == "t"
    assert (await client.get("/v1/health")).status_code == 404


async def test_an_existing_topic_is_a_conflict(client: Client):
    await client.post("/topics", json={"name": "t"})
    again = await client.post("/topics", json={"name": "t"})
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "topic_exists"


@pytest.mark.parametrize(
    "body",
    [
        {"name": ".."},
        {"name": "a/b"},
        {"name": ""},
        {"name": "x" * 250},
        {"name": "t", "num_partitions": 0},
        {"name": "t", "num_partitions": 10**9},
        {"name": "t", "num_partitions": "three"},
        {"name": "t", "settings": {"no.such": 1}},
        {"name": "t", "settings": {"retention.ms": -5}},
        {"name": "t", "retention_hours": 1, "settings": {"retention.ms": 5}},
        {"name": "t", "retention": 1},
        {},
        [],
        None,
    ],
)
async def test_a_bad_topic_is_the_callers_mistake(client: Client, body: object):
    answer = await client.post("/topics", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    assert (await client.get("/topics")).json()["topics"] == []


@pytest.mark.parametrize(
    "path", ["/topics/%2e%2e", "/topics/..%2f..", "/topics/%2e", "/topics/a%00"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_no_name_reaches_outside_the_data_directory(
    client: Client, server, method: str, path: str
):
    await client.post("/topics", json={"name": "kept"})
    answer = await client.request(method, httpx.URL(server.url).copy_with(raw_path=path.encode()))
    assert answer.status_code in (400, 404)
    assert (await client.get("/topics/kept")).status_code == 200


async def test_names_of_the_brokers_own_are_refused(client: Client):
    answer = await client.post("/topics", json={"name": "__mine"})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "policy_violation"
    published = await client.post(
        "/topics/__metadata/messages", json={"messages": [{"value": "x"}]}
    )
    assert published.status_code == 422


async def test_validate_only_changes_nothing(client: Client):
    answer = await client.post("/topics", json={"name": "t", "validate_only": True})
    assert (answer.status_code, answer.json()["created"]) == (200, False)
    assert (await client.get("/topics")).json()["topics"] == []


async def test_settings_are_set_and_unset(client: Client):
    body = {"name": "t", "retention_hours": 2, "settings": {"max.message.bytes": 2000}}
    assert (await client.post("/topics", json=body)).json()["settings"] == {
        "retention.ms": "7200000",
        "max.message.bytes": "2000",
    }
    changed = await client.patch(
        "/topics/t/settings", json={"set": {"flush": "interval"}, "unset": ["retention.ms"]}
    )
    settings = changed.json()["settings"]
    assert settings["flush"]["value"] == "interval"
    assert settings["flush"]["default"] == "commit"
    assert settings["flush"]["is_default"] is False
    assert settings["flush"]["meaning"]
    assert settings["retention.ms"]["is_default"] is True
    assert (await client.get("/topics/t/settings")).json() == changed.json()


@pytest.mark.parametrize(
    "body",
    [
        {"set": {"no.such": "1"}},
        {"unset": ["no.such"]},
        {"set": {"flush": "sometimes"}},
        {"set": {"flush": "never"}, "unset": ["flush"]},
        {"flush": "never"},
    ],
)
async def test_bad_settings_change_nothing(client: Client, body: object):
    await client.post("/topics", json={"name": "t"})
    before = (await client.get("/topics/t/settings")).json()
    assert (await client.patch("/topics/t/settings", json=body)).status_code == 400
    assert (await client.get("/topics/t/settings")).json() == before


@pytest.mark.parametrize("prefix", ["/topics", "/admin/topics", "/v1/topics", "/v1/admin/topics"])
async def test_partitions_are_added(client: Client, prefix: str):
    await client.post("/topics", json={"name": "t", "num_partitions": 2})
    grown = await client.post(f"{prefix}/t/partitions", json={"count": 5})
    assert grown.json() == {
        "success": True,
        "topic_name": "t",
        "old_partition_count": 2,
        "new_partition_count": 5,
        "partitions_added": 3,
    }
    listed = (await client.get("/topics/t/partitions")).json()["partitions"]
    assert [each["partition"] for each in listed] == [0, 1, 2, 3, 4]
    fewer = await client.post(f"{prefix}/t/partitions", json={"count": 3})
    assert (fewer.status_code, fewer.json()["error"]["code"]) == (400, "invalid_partitions")


async def test_a_body_needs_no_content_type(client: Client):
    """What curl -d sends without being told."""
    answer = await client.post(
        "/topics",
        content=b'{"name": "t"}',
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 201


async def test_the_list_has_sizes_of_topics_in_use(client: Client):
    await client.post("/topics", json={"name": "used", "num_partitions": 1})
    await client.post("/topics", json={"name": "unused", "num_partitions": 1})
    await client.post("/topics/used/messages", json={"messages": [{"value": "a"}, {"value": "b"}]})
    details = (await client.get("/topics?verbose=true")).json()["details"]
    found = {each["name"]: (each["messages"], each["size_bytes"]) for each in details}
    size = (await client.get("/topics/used")).json()["total_size_bytes"]
    assert found == {"used": (2, size), "unused": (None, None)}
