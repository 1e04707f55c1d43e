"""Server-sent events: what a client that lost its connection gets when it comes back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest_asyncio

Client = httpx.AsyncClient
Event = dict[str, str]
ASK = {"accept": "text/event-stream"}


@pytest_asyncio.fixture(loop_scope="session")
async def orders(client: Client) -> Client:
    await client.post("/topics", json={"name": "orders", "num_partitions": 1})
    messages = [{"value": str(each)} for each in range(6)]
    await client.post("/topics/orders/messages", json={"messages": messages})
    return client


@contextlib.asynccontextmanager
async def events(
    client: Client, last: str | None = None, **query: object
) -> AsyncIterator[AsyncIterator[Event]]:
    headers = ASK if last is None else {**ASK, "last-event-id": last}
    parameters = {"group": "billing", "consumer": "page", "at_once": 3, **query}
    path = "/queues/orders/stream"
    async with client.stream("GET", path, params=parameters, headers=headers) as answer:  # type: ignore[arg-type]
        assert answer.status_code == 200
        yield parsed(answer)


async def parsed(answer: httpx.Response) -> AsyncIterator[Event]:
    event: Event = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if line == "":
            yield event
            event = {}
        elif name:
            event[name] = value


async def messages(stream: AsyncIterator[Event], count: int) -> list[Event]:
    found: list[Event] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            event = await anext(stream)
            if event.get("event") == "message":
                found.append(event)
    return found


def values(found: list[Event]) -> list[str]:
    return [msgspec.json.decode(event["data"])["value"] for event in found]


def attempts(found: list[Event]) -> list[int]:
    return [msgspec.json.decode(event["data"])["attempt"] for event in found]


async def test_a_stream_tells_when_to_come_back(orders: Client):
    async with events(orders) as stream:
        assert (await anext(stream))["retry"] == "1000"


async def test_what_got_lost_with_a_connection_comes_again_at_once(orders: Client):
    async with events(orders) as stream:
        seen = await messages(stream, 6)
    assert values(seen) == ["0", "1", "2", "3", "4", "5"]
    async with events(orders, last=seen[1]["id"]) as stream:  # the page has seen two of them
        again = await messages(stream, 4)
    assert values(again) == ["2", "3", "4", "5"]
    assert attempts(again) == [2] * 4
    acked = await orders.post(
        "/messages/ack", json={"receipt_handles": [each["id"] for each in seen[:2] + again]}
    )
    assert acked.json()["settled"] == 6  # also what it had seen before: that stayed its own
    late = await orders.post("/messages/ack", json={"receipt_handle": seen[2]["id"]})
    assert late.status_code == 409


async def test_what_comes_again_counts_as_no_failure(orders: Client):
    """After three failures a message is a dead letter; connections may break more often."""
    async with events(orders) as stream:
        found = await messages(stream, 6)
    while len(found) > 1:
        async with events(orders, last=found[0]["id"]) as stream:
            found = await messages(stream, len(found) - 1)
    assert (values(found), attempts(found)) == (["5"], [6])
    assert (await orders.get("/topics/orders/dlq")).json()["count"] == 0


async def test_a_client_that_saw_no_message_gets_them_all_again(orders: Client):
    async with events(orders) as stream:
        opening = await anext(stream)
        await messages(stream, 6)
    async with events(orders, last=opening["id"]) as stream:
        assert values(await messages(stream, 6)) == ["0", "1", "2", "3", "4", "5"]


async def test_the_former_connection_ends_when_its_client_comes_back(orders: Client):
    """One that broke without a word would go on taking messages."""
    async with events(orders, at_once=1) as former:
        seen = await messages(former, 1)
        async with events(orders, last=seen[0]["id"], at_once=1):
            async with asyncio.timeout(10):
                with contextlib.suppress(StopAsyncIteration):
                    while True:
                        await anext(former)


async def test_an_id_that_is_not_known_is_no_error(orders: Client):
    for last in ("", "nonsense", "orders:0:0:1:99.billing", "x" * 5000):
        async with events(orders, last=last, visibility="1h") as stream:
            assert await anext(stream)


async def test_another_groups_id_releases_nothing(orders: Client):
    async with events(orders, group="audit", consumer="auditor") as stream:
        seen = await messages(stream, 6)
    async with events(orders, last=seen[0]["id"]) as stream:
        await messages(stream, 6)
    held = (await orders.get("/groups/audit/in-flight")).json()
    assert len(held["messages"]) == 6
