"""Transactions over HTTP: what is in one is seen when it is committed, and only then."""

import itertools
from typing import Any

import httpx
import pytest
import pytest_asyncio

from goqueue.groups import FetchRequest
from goqueue.model.ids import GroupId, TopicName, TopicPartition

NUMBERS = itertools.count()


class Producer:
    def __init__(self, client: httpx.AsyncClient, name: str) -> None:
        self._client = client
        self.name = name
        self.ids: dict[str, Any] = {}

    async def init(self, **more: Any) -> dict[str, Any]:
        answer = await self._client.post(
            "/producers/init", json={"transactional_id": self.name} | more
        )
        assert answer.status_code == 200, answer.text
        self.ids = {"transactional_id": self.name} | answer.json()
        return self.ids

    async def call(self, verb: str, expected: int = 200, **more: Any) -> dict[str, Any]:
        answer = await self._client.post(f"/transactions/{verb}", json=self.ids | more)
        assert answer.status_code == expected, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def publish(self, value: str, **more: Any) -> dict[str, Any]:
        asked: dict[str, Any] = {"topic": "orders", "partition": 0, "value": value} | more
        return await self.call("publish", **asked)


async def values(client: httpx.AsyncClient, topic: str = "orders") -> list[str]:
    answer = await client.get(f"/topics/{topic}/partitions/0/messages", params={"offset": 0})
    return [message["value"] for message in answer.json()["messages"]]


@pytest_asyncio.fixture(loop_scope="session")
async def producer(client) -> Producer:
    await client.post("/topics", json={"name": "orders", "num_partitions": 2})
    producer = Producer(client, f"writer-{next(NUMBERS)}")
    await producer.init()
    return producer


async def test_a_message_is_seen_when_its_transaction_is_committed(client, producer):
    begun = await producer.call("begin")
    assert begun["transaction_id"].startswith("txn-")
    published = await producer.publish("one")
    assert published == {"partition": 0, "offset": 0, "duplicate": False}
    assert await values(client) == []
    assert await producer.call("commit") == {"status": "committed"}
    assert await producer.call("commit") == {"status": "committed"}
    assert await values(client) == ["one"]


async def test_an_aborted_message_is_never_seen_and_readers_go_on_behind_it(client, producer):
    await producer.call("begin")
    await producer.publish("gone")
    assert await producer.call("abort") == {"status": "aborted"}
    await producer.call("begin")
    await producer.publish("here")
    await producer.call("commit")
    assert await values(client) == ["here"]


async def test_a_long_run_of_aborted_messages_does_not_wedge_a_reader(client, producer):
    await producer.call("begin")
    for _ in range(30):
        await producer.publish("gone")
    await producer.call("abort")
    await producer.call("begin")
    await producer.publish("here")
    await producer.call("commit")
    query = {"offset": 0, "limit": 5, "max_bytes": 100, "wait": "5s"}
    answer = await client.get("/topics/orders/partitions/0/messages", params=query)
    assert [each["value"] for each in answer.json()["messages"]] == ["here"]
    assert answer.elapsed.total_seconds() < 4


async def test_a_transaction_spans_topics_and_a_groups_offsets(client, producer, server):
    await client.post("/topics", json={"name": "input", "num_partitions": 1})
    await client.post("/topics", json={"name": "bills", "num_partitions": 1})
    await producer.call("begin")
    await producer.publish("order")
    await producer.publish("bill", topic="bills")
    offsets = [{"topic": "input", "partition": 0, "offset": 7}]
    await producer.call("offsets", group="workers", offsets=offsets)

    def committed() -> dict:
        (fetched,) = server.broker.groups.host.ahead.fetch(
            [FetchRequest(group_id=GroupId("workers"))]
        ).reply.reply
        return {place: each.offset for place, each in fetched.offsets.items() if each}

    assert committed() == {}
    pending = server.broker.groups.host.ahead.pending_offsets.of(GroupId("workers"))
    assert TopicPartition(TopicName("input"), 0) in pending
    await producer.call("commit")
    assert committed() == {("input", 0): 7}
    assert (await values(client), await values(client, "bills")) == (["order"], ["bill"])


async def test_a_repetition_is_recognised_by_its_sequence(client, producer):
    await producer.call("begin")
    first = await producer.publish("one", sequence=0)
    again = await producer.publish("one", sequence=0)
    assert again == first | {"duplicate": True}
    refused = await producer.call(
        "publish", 409, topic="orders", partition=0, value="three", sequence=2
    )
    assert refused["error"]["code"] == "out_of_order_sequence"
    await producer.call("commit")
    assert await values(client) == ["one"]


async def test_a_second_producer_fences_the_first(client, producer):
    await producer.call("begin")
    await producer.publish("half")
    second = Producer(client, producer.name)
    await second.init()
    for verb, more in (
        ("publish", {"topic": "orders", "value": "zombie"}),
        ("commit", {}),
        ("begin", {}),
    ):
        refused = await producer.call(verb, 409, **more)
        assert refused["error"]["code"] == "producer_fenced"
    beat = await client.post(
        f"/producers/{producer.ids['producer_id']}/heartbeat",
        json={"transactional_id": producer.name, "epoch": producer.ids["epoch"]},
    )
    assert beat.status_code == 409
    assert await values(client) == []


async def test_made_up_producers_write_nothing(client, producer):
    answer = await client.post(
        "/transactions/publish",
        json={"producer_id": 999, "epoch": 0, "topic": "orders", "value": "x"},
    )
    assert answer.status_code == 404
    refused = await producer.call("publish", 409, topic="orders", value="outside")
    assert refused["error"]["code"] == "invalid_transaction_state"
    assert await values(client) == []


async def test_what_comes_late_does_not_meet_the_next_transaction(client, producer):
    first = (await producer.call("begin"))["transaction_id"]
    await producer.call("commit", transaction_id=first)
    await producer.call("begin")
    await producer.call(
        "publish", 409, topic="orders", value="late", partition=0, transaction_id=first
    )
    await producer.call("abort", 409, transaction_id=first)
    await producer.call("commit")


async def test_operators_list_describe_and_abort(client, producer):
    begun = await producer.call("begin")
    await producer.publish("one")
    listed = (await client.get("/transactions")).json()
    assert listed["count"] == 1
    (found,) = listed["transactions"]
    assert found["transaction_id"] == begun["transaction_id"]
    assert found["state"] == "ongoing"
    assert found["partitions"] == [{"topic": "orders", "partition": 0}]
    path = f"/transactions/ids/{producer.name}"
    assert (await client.get(path)).json() == found
    assert (await client.post(f"{path}/abort")).json() == {"status": "aborted"}
    assert (await client.post(f"{path}/abort")).json() == {"status": "nothing to abort"}
    assert (await client.get("/transactions")).json()["count"] == 0
    assert (await client.get("/transactions/ids/nobody")).status_code == 404
    stats = (await client.get("/transactions/stats")).json()
    assert stats["started"] == stats["committed"] + stats["aborted"]
    assert (stats["active_transactions"], stats["oldest_age_ms"]) == (0, 0)
    scraped = (await client.get("/metrics")).text
    assert f"goqueue_transactions_aborted_total {stats['aborted']}.0" in scraped
    assert "goqueue_transactions_open 0.0" in scraped


@pytest.mark.parametrize("timeout_ms", [0, 900_001])
async def test_a_timeout_has_bounds(client, timeout_ms):
    answer = await client.post(
        "/producers/init", json={"transactional_id": "x", "transaction_timeout_ms": timeout_ms}
    )
    assert answer.status_code == 400


# --- many by one decision -----------------------------------------------------------------------


async def test_one_decision_commits_many_and_a_repetition_changes_nothing(client, producer):
    path = "/v1/transactions/groups/nightly-job"
    run = (await client.post(f"{path}/runs", json={})).json()
    assert run == {"run": 0, "last_version": -1}

    async def attempt(number: int, value: str) -> dict:
        task = Producer(client, f"nightly-job-{number}")
        await task.init()
        await task.call("begin")
        await task.publish(value)
        return task.ids

    async def decide(version: int, members: list[dict], run: int = 0) -> Any:
        return await client.post(
            f"{path}/decide", json={"version": version, "run": run, "members": members}
        )

    first = [await attempt(1, "a"), await attempt(2, "b")]
    decided = (await decide(0, first)).json()
    assert decided["already_decided"] is False
    assert [each["epoch"] for each in decided["members"]] == [1, 1]
    again = [await attempt(1, "a"), await attempt(2, "b")]
    assert (await decide(0, again)).json()["already_decided"] is True
    assert (await client.get("/transactions")).json()["count"] == 0
    assert sorted(await values(client)) == ["a", "b"]
    assert (await client.get(path)).json()["last_version"] == 0

    assert (await client.post(f"{path}/runs", json={"run": 1})).json()["last_version"] == 0
    fenced = await decide(1, [await attempt(1, "c")], run=0)
    assert fenced.json()["error"]["code"] == "application_fenced"
    assert (await decide(5, [await attempt(1, "d")], run=1)).status_code == 200
    back = await decide(1, [await attempt(1, "e")], run=1)
    assert back.json()["error"]["code"] == "version_goes_back"


async def test_a_run_with_a_name_may_be_started_by_every_task(client):
    path = "/v1/transactions/groups/named/runs"
    for _ in range(2):
        assert (await client.post(path, json={"name": "a"})).json() == {
            "run": 0,
            "last_version": -1,
        }
    assert (await client.post(path, json={"name": "b"})).json()["run"] == 1
    fenced = await client.post(path, json={"name": "a"})
    assert fenced.status_code == 409
    assert fenced.json()["error"]["code"] == "application_fenced"
    assert (await client.post(path, json={"name": "c", "run": 7})).status_code == 400
    assert (await client.post(path, json={"name": ""})).status_code == 400


async def test_an_application_can_be_forgotten(client):
    path = "/v1/transactions/groups/once"
    await client.post(f"{path}/runs", json={"name": "a"})
    await client.post(f"{path}/decide", json={"version": 7, "run": 0, "members": []})
    for was_known in (True, False):
        answer = await client.delete(path)
        assert answer.json() == {"application": "once", "was_known": was_known}
    assert (await client.get(path)).json()["last_version"] == -1
