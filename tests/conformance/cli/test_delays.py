"""`goqueue delay`, `goqueue produce --delay` and both clients' verbs of delays against a server."""

import asyncio
from collections.abc import Iterator

import pytest

from goqueue.client import AsyncClient, Client, Message
from goqueue.client.errors import Conflict, NotFound
from tests.conformance.cli.commands import Run, decoded


@pytest.fixture
def topic(client: Client, names: Iterator[str]) -> str:
    name = next(names)
    client.create_topic(name, partitions=1)
    return name


def test_produce_list_show_reschedule_and_cancel(run: Run, topic: str):
    produced = decoded(run("produce", topic, "-m", "late", "-k", "k", "--delay", "1h"))
    assert produced["results"][0]["delayed"]
    decoded(run("produce", topic, "-m", "later", "--deliver-at", "2090-01-01T00:00:00Z"))
    listed = decoded(run("delay", "list", topic))
    assert [each["offset"] for each in listed] == [0, 1]
    shown = decoded(run("delay", "show", topic, "0", "0"))
    assert (shown["state"], shown["key"], shown["value"]) == ("pending", "k", "late")
    moved = decoded(
        run("delay", "reschedule", topic, "0", "0", "--deliver-at", "2099-01-01T00:00Z")
    )
    assert moved["deliver_at"] == "2099-01-01T00:00:00.000Z"
    assert [each["offset"] for each in decoded(run("delay", "list", topic))] == [1, 0]
    assert decoded(run("delay", "cancel", topic, "0", "0"))["state"] == "cancelled"
    run("delay", "cancel", topic, "0", "0", code=5)
    run("delay", "show", topic, "0", "9", code=4)
    run("delay", "reschedule", topic, "0", "1", code=2)
    stats = decoded(run("delay", "stats"))["topics"][topic]
    assert (stats["pending"], stats["cancelled"]) == (1, 1)


def test_both_clients_have_the_verbs(client: Client, topic: str):
    late = client.publish(topic, Message("late", delay_ms=3_600_000))
    assert late[0].delayed
    assert client.delayed_messages(topic).messages[0].offset == 0
    client.reschedule_delay(topic, 0, 0, delay_ms=7_200_000)
    assert client.delayed_message(topic, 0, 0).remaining_ms > 3_600_000
    client.cancel_delay(topic, 0, 0)
    with pytest.raises(Conflict):
        client.cancel_delay(topic, 0, 0)

    async def look() -> None:
        async with AsyncClient(client.base_url) as other:
            (found,) = await other.publish(topic, Message("x", deliver_at="2090-01-01T00:00:00Z"))
            assert found.deliver_at == "2090-01-01T00:00:00.000Z"
            assert (await other.delay_stats()).topics[topic].pending == 1
            with pytest.raises(NotFound):
                await other.delayed_message(topic, 0, 77)

    asyncio.run(look())
