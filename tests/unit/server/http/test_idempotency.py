"""`Idempotency-Key`: a publish that is repeated is written once."""

import asyncio

import httpx
import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.model.errors import StorageFailed

Client = httpx.AsyncClient
KEY = {"idempotency-key": "order-17"}


async def publish(client: Client, *values: str, topic: str = "t", **headers: str):
    body = {"messages": [{"value": value} for value in values]}
    return await client.post(f"/topics/{topic}/messages", json=body, headers={**KEY, **headers})


async def read(client: Client, topic: str = "t") -> list[str]:
    page = (await client.get(f"/topics/{topic}/messages")).json()
    return [message["value"] for message in page["messages"]]


async def test_a_repeat_is_answered_as_the_first_and_written_once(client: Client):
    first = await publish(client, "a", "b")
    await client.post("/topics/t/messages", json={"messages": [{"value": "other"}]})
    again = await publish(client, "a", "b")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert sorted(await read(client)) == ["a", "b", "other"]


async def test_without_a_key_and_under_other_keys_everything_is_written(client: Client):
    for headers in ({"idempotency-key": "1"}, {"idempotency-key": "2"}):
        await publish(client, "a", **headers)
    for _ in range(2):
        await client.post("/topics/t/messages", json={"messages": [{"value": "a"}]})
    assert await read(client) == ["a"] * 4


async def test_a_key_counts_within_its_topic(client: Client):
    await publish(client, "a")
    assert "idempotency-replayed" not in (await publish(client, "a", topic="u")).headers
    assert await read(client, "u") == ["a"]


async def test_a_key_with_other_messages_is_refused(client: Client):
    await publish(client, "a")
    for values in (["b"], ["a", "a"], ["a", "b"]):
        refused = await publish(client, *values)
        assert refused.status_code == 422
        assert refused.json()["error"]["code"] == "idempotency_key_reused"
    assert await read(client) == ["a"]


async def test_many_at_once_are_written_once(client: Client):
    answers = await asyncio.gather(*(publish(client, "a", "b") for _ in range(10)))
    assert len({answer.text for answer in answers}) == 1
    assert await read(client) == ["a", "b"]


async def test_messages_of_many_partitions_are_each_written_once(client: Client):
    messages = [{"key": str(each), "value": str(each)} for each in range(50)]
    body = {"messages": [*messages, {"value": "keyless"}]}
    first = await client.post("/topics/t/messages", json=body, headers=KEY)
    again = await client.post("/topics/t/messages", json=body, headers=KEY)
    assert {each["partition"] for each in first.json()["results"]} == {0, 1, 2}
    assert again.json() == first.json()
    assert len(await read(client)) == 51


async def test_a_raw_body_has_a_key_too(client: Client):
    headers = {**KEY, "content-type": "text/plain"}
    for _ in range(2):
        answer = await client.post("/topics/t/messages", content=b"raw", headers=headers)
        assert answer.status_code == 200
    assert await read(client) == ["raw"]


async def test_what_was_written_in_part_is_completed(server):
    """The first try reached one partition of two; the repeat reaches the other, and only that."""
    broker = server.broker
    await broker.create_topic("t", partitions=2)
    verbs = Messages(broker)
    messages = [OutgoingMessage(b"a", partition=0), OutgoingMessage(b"b", partition=1)]
    append = broker.append

    def failing(partition, data, **how):
        if partition.index == 1:
            raise StorageFailed("not now")
        return append(partition, data, **how)

    broker.append = failing
    try:
        first = await verbs.publish("t", messages, idempotency_key="k")
    finally:
        broker.append = append
    assert isinstance(first[1], StorageFailed)
    again = await verbs.publish("t", messages, idempotency_key="k")
    published = [each for each in again if isinstance(each, Published)]
    assert [(each.offset, each.is_repeat) for each in published] == [(0, True), (0, False)]
    assert [(await broker.partition("t", each)).log.end_offset for each in (0, 1)] == [1, 1]


async def test_a_key_is_known_after_a_restart(serving):
    async with serving() as server, Client(base_url=server.url) as client:
        first = await publish(client, "a", "b")
    async with serving() as server, Client(base_url=server.url) as client:
        again = await publish(client, "a", "b")
        assert again.json() == first.json()
        assert again.headers["idempotency-replayed"] == "true"
        assert await read(client) == ["a", "b"]


async def test_under_a_key_the_messages_of_a_partition_fit_one_batch(client: Client):
    settings = {"max.message.bytes": 1000}
    await client.post("/topics", json={"name": "t", "num_partitions": 1, "settings": settings})
    refused = await publish(client, "x" * 600, "y" * 600)
    assert refused.status_code == 413
    assert "max.message.bytes" in refused.json()["error"]["message"]
    assert await read(client) == []


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "\xe9"])
async def test_a_key_is_visible_ascii(client: Client, key: str):
    headers = [(b"idempotency-key", key.encode("latin-1"))]
    body = {"messages": [{"value": "a"}]}
    answer = await client.post("/topics/t/messages", json=body, headers=headers)
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["error"]["message"]
