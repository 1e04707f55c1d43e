"""Delayed messages over HTTP: publish, list, look up, cancel, reschedule, count."""

from typing import Any

import httpx
import pytest_asyncio

Client = httpx.AsyncClient
Json = dict[str, Any]


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def topic(client: Client) -> None:
    await client.post("/topics", json={"name": "t", "num_partitions": 1})


async def publish(client: Client, *messages: Json) -> list[Json]:
    answer = await client.post("/topics/t/messages", json={"messages": list(messages)})
    assert answer.status_code in (200, 207), answer.text
    results: list[Json] = answer.json()["results"]
    return results


async def values(client: Client, offset: int | None = None) -> list[str]:
    """All that there is; with an offset, what comes there."""
    query = "" if offset is None else f"?offset={offset}&wait=10s"
    answer = await client.get(f"/topics/t/partitions/0/messages{query}")
    return [each["value"] for each in answer.json()["messages"]]


async def test_a_delayed_message_is_answered_with_its_id_and_comes_later(client: Client):
    now, late = await publish(client, {"value": "now"}, {"value": "late", "delay": "50ms"})
    assert "delayed" not in now
    assert (late["delayed"], late["partition"], late["offset"]) == (True, 0, 0)
    assert (await values(client))[:1] == ["now"]  # 50 ms may be over
    assert await values(client, offset=1) == ["late"]


async def test_a_time_that_is_over_means_at_once_and_the_answer_says_so(client: Client):
    (past,) = await publish(client, {"value": "x", "deliver_at": "2020-01-01T00:00:00Z"})
    assert (past["delayed"], past["deliver_at"]) == (False, "2020-01-01T00:00:00.000Z")
    assert await values(client) == ["x"]


async def test_a_raw_body_may_be_delayed(client: Client):
    answer = await client.post(
        "/topics/t/messages?delay=1h&key=k", content=b"raw", headers={"Content-Type": "text/plain"}
    )
    (result,) = answer.json()["results"]
    assert result["delayed"]
    found = (await client.get(f"/topics/t/delayed/0/{result['offset']}")).json()
    assert (found["key"], found["value"], found["state"]) == ("k", "raw", "pending")
    assert 3_500_000 < found["remaining_ms"] <= 3_600_000
    assert found["headers"] == []


async def test_delayed_messages_are_listed_in_pages(client: Client):
    await publish(client, *({"value": "x", "delay": 60_000 - n} for n in range(5)))
    first = (await client.get("/topics/t/delayed?limit=3")).json()
    rest = (await client.get(f"/topics/t/delayed?cursor={first['cursor']}")).json()
    assert rest["cursor"] is None
    assert [each["offset"] for each in first["messages"] + rest["messages"]] == [4, 3, 2, 1, 0]
    assert (await client.get("/topics/t/delayed?cursor=nonsense")).status_code == 400


async def test_cancel_and_reschedule(client: Client):
    await publish(client, {"value": "a", "delay": "1h"}, {"value": "b", "delay": "1h"})
    cancelled = await client.delete("/topics/t/delayed/0/0")
    assert cancelled.json()["state"] == "cancelled"
    again = await client.delete("/topics/t/delayed/0/0")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "delayed_message_finished")
    unknown = await client.delete("/topics/t/delayed/0/99")
    assert unknown.json()["error"]["code"] == "delayed_message_not_found"
    assert (await client.get("/topics/t/delayed/7/0")).status_code == 404
    assert (await client.post("/topics/t/delayed/0/1", json={})).status_code == 400
    moved = await client.post("/topics/t/delayed/0/1", json={"delay": "0s"})
    assert moved.json()["remaining_ms"] == 0
    assert await values(client, offset=0) == ["b"]
    stats = (await client.get("/delay/stats")).json()["topics"]["t"]
    assert (stats["pending"], stats["scheduled"], stats["cancelled"]) == (0, 2, 1)


async def test_too_many_are_429_with_the_name_of_the_setting(client: Client):
    changed = await client.patch(
        "/topics/t/settings", json={"set": {"goqueue.delayed.messages.max": "1"}}
    )
    assert changed.status_code == 200, changed.text
    await publish(client, {"value": "a", "delay": "1h"})
    body = {"messages": [{"value": "b", "delay": "1h"}]}
    answer = await client.post("/topics/t/messages", json=body)
    assert answer.status_code == 429
    assert "goqueue.delayed.messages.max" in answer.json()["error"]["message"]
