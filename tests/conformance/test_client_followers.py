"""Many readers of one topic in one program, as a web service has them."""

import asyncio
from collections.abc import Callable

from goqueue import AsyncClient, Message
from tests.conformance.server import Server

FOLLOWERS = 200
EVENTS = 6
PARTITIONS = 3
TIMEOUT_S = 10.0  # of a publish; with a connection a partition they took half a minute


async def test_followers_of_one_client_get_every_event_and_publishes_keep_their_time_out(
    server: Server, make_topic: Callable[..., str]
):
    topic = make_topic(PARTITIONS)
    async with (
        AsyncClient(f"http://{server.http_address}", timeout=TIMEOUT_S) as client,
        asyncio.TaskGroup() as tasks,
    ):
        following = [tasks.create_task(read(client, topic)) for _ in range(FOLLOWERS)]
        for number in range(EVENTS):
            await client.publish(topic, [Message(str(number), partition=number % PARTITIONS)])
    expected = sorted(str(number).encode() for number in range(EVENTS))
    assert [each.result() for each in following] == [expected] * FOLLOWERS


async def read(client: AsyncClient, topic: str) -> list[bytes | None]:
    found: list[bytes | None] = []
    messages = client.follow(topic)
    async for message in messages:
        found.append(message.value)
        if len(found) == EVENTS:
            break
    await messages.aclose()
    return sorted(found, key=str)


async def test_a_topic_is_followed_from_a_position_in_each_partition(
    server: Server, make_topic: Callable[..., str]
):
    topic = make_topic(2)
    async with AsyncClient(f"http://{server.http_address}") as client:
        texts = [
            Message(f"{index}-{number}", partition=index) for number in range(4) for index in (0, 1)
        ]
        await client.publish(topic, texts)
        for offset, expected in ((-1, {b"0-3", b"1-3"}), (2, {b"0-2", b"1-2", b"0-3", b"1-3"})):
            messages = client.follow(topic, offset=offset)
            assert {(await anext(messages)).value for _ in expected} == expected
            await messages.aclose()
