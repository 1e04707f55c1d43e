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


async def test_a_node_is_drained_and_undrained(client: Client):
    await create(client)
    drained = (await client.post("/cluster/nodes/1/drain")).json()
    assert (drained["state"], drained["leaders"]) == ("draining", 3)  # nobody else could lead
    assert (await client.post("/cluster/nodes/1/undrain")).json()["state"] == "active"
    assert (await client.post("/cluster/nodes/9/drain")).status_code == 404


async def test_the_node_that_keeps_the_metadata_is_not_removed(client: Client):
    refused = await client.delete("/cluster/nodes/1")
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "node_in_use"
    assert (await client.delete("/cluster/nodes/9")).status_code == 404


async def test_leaders_that_lead_need_no_election(client: Client):
    await create(client)
    for body in ({}, {"topic": "t"}, {"topic": "t", "partition": 1, "allow_unclean": True}):
        answer = await client.post("/cluster/leader-election", json=body)
        assert (answer.status_code, answer.json()) == (200, {"results": []})
    assert (await client.post("/cluster/leader-election", json={"topic": "x"})).status_code == 404
    only_index = await client.post("/cluster/leader-election", json={"partition": 1})
    assert only_index.status_code == 400


async def test_replicas_are_moved_only_to_nodes_that_are_there(client: Client):
    await create(client)
    moves = [
        {"topic": "t", "partition": 0, "new_replicas": [1]},
        {"topic": "t", "partition": 1, "new_replicas": [2]},
        {"topic": "t", "partition": 2},
    ]
    answer = await client.post("/admin/reassignment", json={"partitions": moves})
    assert answer.status_code == 202
    errors = [each["error"] for each in answer.json()["partitions"]]
    assert errors[0] == ""
    assert "there is only node 1" in errors[1]
    assert errors[2] == "nothing moves"
    assert [each["state"] for each in answer.json()["partitions"]] == ["completed", *["failed"] * 2]
    assert answer.json()["throttle_bytes_per_sec"] == 10 * 1024 * 1024
    nothing = (await client.get("/admin/reassignment")).json()
    assert (nothing["partitions"], nothing["bytes_left"], nothing["seconds_left"]) == ([], 0, 0)
    faster = await client.post("/admin/reassignment", json={"throttle_bytes_per_sec": 0})
    assert faster.json()["throttle_bytes_per_sec"] is None
    assert (await client.post("/admin/reassignment", json={})).status_code == 400
    assert (await client.delete("/admin/reassignment")).json()["partitions"] == []
    missing = {"partitions": [{"topic": "t", "partition": 9, "new_replicas": [1]}]}
    assert (await client.post("/admin/reassignment", json=missing)).status_code == 404


async def test_a_cluster_of_one_node_has_nothing_to_rebalance(client: Client):
    await create(client)
    plan = (await client.post("/admin/rebalance", json={"dry_run": True})).json()
    assert plan["moves"] == []
    assert [each["node_id"] for each in plan["nodes"]] == [1]
    for body, status in (
        ({"onto": 9}, 404),
        ({"without": [1]}, 400),
        ({"replace": 1}, 400),
        ({"replace": 1, "with": 1}, 400),
        ({"onto": 1, "without": [1]}, 400),
    ):
        refused = await client.post("/admin/rebalance", json=body)
        assert refused.status_code == status, refused.text


async def test_events_tell_of_topics(client: Client):
    await create(client)
    events = (await client.get("/cluster/events")).json()["events"]
    created = [each for each in events if each["kind"] == "topic_created"][-1]
    assert created["topic"] == "t"
    number = created["number"]
    later = (await client.get("/cluster/events", params={"after": number})).json()["events"]
    assert all(each["number"] > number for each in later)


async def test_levels_of_features_are_raised_for_good(client: Client):
    before = (await client.get("/cluster/features")).json()
    levels = {each["name"]: each["level"] for each in before["features"]}
    assert levels["transaction.version"] == 2
    assert before["nodes"][0]["levels"]["transaction.version"] == [1, 2]
    after = (await client.post("/cluster/features", json={})).json()
    assert all(each["is_finalized"] for each in after["features"])
    raised = {each["name"]: each["level"] for each in after["features"]}
    assert raised == levels | {"delay.version": 2, "security.version": 2}
    back = await client.post("/cluster/features", json={"levels": {"transaction.version": 1}})
    assert back.status_code == 409
    assert (await client.get("/cluster/state")).json()["features"] == raised


async def test_a_node_without_a_supervisor_is_not_restarted(client: Client):
    refused = await client.post("/cluster/nodes/1/restart")
    assert refused.status_code == 422
    assert "nobody would start" in refused.json()["error"]["message"]
    assert (await client.post("/cluster/nodes/7/restart")).status_code == 404


async def test_a_broker_that_is_alone_coordinates_one_shard_of_each(client: Client):
    found = (await client.get("/admin/coordinators")).json()["coordinators"]
    assert [(each["kind"], each["shard"], each["node_id"]) for each in found] == [
        ("groups", 0, 1),
        ("transactions", 0, 1),
    ]
    assert all(each["size"] >= 0 for each in found), "other tests use the same broker"
