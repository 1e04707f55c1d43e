"""Compaction by a list of superseded offsets, from outside."""

import base64
import zlib
from typing import Any

import httpx

Client = httpx.AsyncClient


async def test_what_is_named_goes_and_the_rest_stays(client: Client):
    await write(client, ["a", "b", "a", "c", "b", "a"])
    sealed = await seal(client)
    assert (sealed["first_offset"], sealed["end_offset"]) == (0, 6)

    answer = await compact(client, sealed, [0, 1, 2])

    assert answer.status_code == 200
    assert answer.json()["done"] is True
    assert (answer.json()["records_before"], answer.json()["records_after"]) == (6, 3)
    assert await keys(client) == [(3, "c"), (4, "b"), (5, "a")]


async def test_a_dry_run_changes_nothing(client: Client):
    await write(client, ["a", "a"])
    sealed = await seal(client)
    answer = await compact(client, sealed, [0], dry_run=True)
    assert answer.json()["records_after"] == 1
    assert await keys(client) == [(0, "a"), (1, "a")]


async def test_a_topic_that_is_not_compacted_is_refused(client: Client):
    await client.post("/topics", json={"name": "t", "num_partitions": 1})
    answer = await client.post("/topics/t/partitions/0/compaction/seal")
    assert answer.status_code == 400
    assert "cleanup.policy" in answer.json()["error"]["message"]


async def test_bits_for_another_life_of_the_topic_are_refused(client: Client):
    await write(client, ["a", "a"])
    sealed = await seal(client)
    await client.delete("/topics/t")
    await write(client, ["a", "a"])
    answer = await compact(client, sealed, [0])
    assert answer.status_code == 400
    assert await keys(client) == [(0, "a"), (1, "a")]


async def test_bits_that_are_none_are_refused(client: Client):
    await write(client, ["a", "a"])
    sealed = await seal(client)
    good = {**sealed, "superseded": packed([0], 2)}
    bad: list[dict[str, Any]] = [
        {"superseded": "not base64!"},
        {"superseded": base64.b64encode(b"not zlib").decode()},
        {"superseded": packed([0], 20)},
        {"superseded": base64.b64encode(zlib.compress(bytes(100_000_000))).decode()},
        {"end_offset": 3},
        {"end_offset": 2**63 - 1},
        {"first_offset": 1},
    ]
    for change in bad:
        answer = await client.post("/topics/t/partitions/0/compaction", json={**good, **change})
        assert answer.status_code == 400, change
    assert await keys(client) == [(0, "a"), (1, "a")]


async def write(client: Client, keys: list[str]) -> None:
    settings = {"cleanup.policy": "compact"}
    topic = {"name": "t", "num_partitions": 1, "settings": settings}
    assert (await client.post("/topics", json=topic)).status_code == 201
    for key in keys:
        body = {"messages": [{"key": key, "value": "v"}]}
        assert (await client.post("/topics/t/messages", json=body)).is_success


async def seal(client: Client) -> dict[str, Any]:
    answer = await client.post("/topics/t/partitions/0/compaction/seal")
    assert answer.status_code == 200
    return dict(answer.json())


async def compact(
    client: Client, sealed: dict[str, Any], offsets: list[int], *, dry_run: bool = False
) -> httpx.Response:
    bits = packed(offsets, sealed["end_offset"] - sealed["first_offset"])
    body = {**sealed, "superseded": bits, "dry_run": dry_run}
    return await client.post("/topics/t/partitions/0/compaction", json=body)


def packed(offsets: list[int], count: int) -> str:
    bits = bytearray((count + 7) // 8)
    for offset in offsets:
        bits[offset >> 3] |= 1 << (offset & 7)
    return base64.b64encode(zlib.compress(bytes(bits))).decode()


async def keys(client: Client) -> list[tuple[int, str]]:
    answer = await client.get("/topics/t/partitions/0/messages?offset=earliest")
    return [(each["offset"], each["key"]) for each in answer.json()["messages"]]
