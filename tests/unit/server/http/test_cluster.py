"""The cluster from outside: a single broker is a cluster of one."""

import httpx

Client = httpx.AsyncClient


async def create(client: Client) -> None:
    await client.post("/topics", json={"name": "t", "num_partitions": 3})


async def test_a_single_broker_leads_everything_and_is_in_sync(client: Client):
    await create(client)
    state = (await client.get("/cluster/state")).json()
    (node,) = state["nodes"]
    assert state["controller_id"] == node["node_id"] == 1
    assert node["is_controller"] is True
    assert (node["state"], node["leaders"], node["replicas"]) == ("active", 3, 3)
    assert state["health"] == (await client.get("/cluster/health")).json()
    assert state["health"]["status"] == "healthy"
    assert state["health"]["partitions"] == 3
    assert (await client.get("/cluster/nodes")).json()["nodes"] == [node]


async def test_partitions_have_a_place(client: Client):
    await create(client)
    (found,) = (await client.get("/cluster/topics")).json()["topics"]
    assert (found["name"], found["replication_factor"], found["min_insync_replicas"]) == ("t", 1, 1)
    assert [each["partition"] for each in found["partitions"]] == [0, 1, 2]
    for each in found["partitions"]:
        assert (each["leader"], each["replicas"], each["isr"]) == (1, [1], [1])
        assert each["elr"] == each["offline"] == each["adding"] == each["removing"] == []


async def test_places_come_in_pages(client: Client):
    await create(client)
    await client.post("/topics", json={"name": "u"})
    first = (await client.get("/cluster/topics", params={"limit": 1})).json()
    assert first["next_after"] == "t"
    then = (await client.get("/cluster/topics", params={"limit": 1, "after": "t"})).json()
    assert [each["name"] for each in then["topics"]] == ["u"]
    assert "next_after" not in then


async def test_a_partition_says_what_this_node_has_of_it(client: Client):
    await create(client)
    await client.post("/topics/t/messages", json={"messages": [{"value": "a", "partition": 1}]})
    found = (await client.get("/cluster/partition/t/1/info")).json()
    local = found["local"]
    assert found["place"]["leader"] == local["node_id"] == 1
    assert (local["role"], local["start_offset"]) == ("leader", 0)
    assert local["high_watermark"] == local["end_offset"] == 1
    for path in ("t/9", "missing/0"):
        assert (await client.get(f"/cluster/partition/{path}/info")).status_code == 404
