"""Publishing over HTTP: what is taken, what is refused, and how that is told."""

import base64
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
import pytest_asyncio

from goqueue.model.config import Config, TopicsConfig
from goqueue.model.partitioner import murmur2_partition

Client = httpx.AsyncClient
Json = dict[str, Any]


async def publish(client: Client, *messages: Json, topic: str = "t", **rest: Any) -> httpx.Response:
    body = {"messages": list(messages), **rest}
    return await client.post(f"/topics/{topic}/messages", json=body)


async def stored(client: Client, topic: str = "t", partitions: Sequence[int] = (0,)) -> list[Json]:
    found: list[Json] = []
    for partition in partitions:
        answer = await client.get(f"/topics/{topic}/partitions/{partition}/messages")
        found += answer.json()["messages"]
    return found


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def topic(client: Client) -> None:
    await client.post("/topics", json={"name": "t", "num_partitions": 1})


async def test_results_come_in_the_order_of_the_request(client: Client):
    await client.post("/topics", json={"name": "many", "num_partitions": 4})
    keys = [f"key-{number}" for number in range(40)]
    answer = await publish(client, *({"key": k, "value": k} for k in keys), topic="many")
    assert answer.status_code == 200
    for key, result in zip(keys, answer.json()["results"], strict=True):
        assert result["partition"] == murmur2_partition(key.encode(), 4)
        path = f"/topics/many/partitions/{result['partition']}/messages?offset={result['offset']}"
        (first, *_) = (await client.get(path)).json()["messages"]
        assert (first["key"], first["value"], first["timestamp"]) == (key, key, result["timestamp"])


async def test_messages_without_a_key_take_turns_among_all_partitions(client: Client):
    await client.post("/topics", json={"name": "even", "num_partitions": 4})
    seen = []
    for _ in range(8):
        answer = await publish(client, {"value": "a"}, {"value": "b"}, topic="even")
        first, second = answer.json()["results"]
        assert first["partition"] == second["partition"]
        seen.append(first["partition"])
    assert seen == [0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("text ✓", "text ✓"),
        ("", ""),
        (None, None),
        (7, "7"),
        (True, "true"),
        ([1, 2.50, "x"], '[1,2.5,"x"]'),
        ({"a": {"b": None}}, '{"a":{"b":null}}'),
    ],
)
async def test_a_value_may_be_any_json(client: Client, given: object, kept: str | None):
    assert (await publish(client, {"value": given})).status_code == 200
    (message,) = await stored(client)
    assert message["value"] == kept


async def test_numbers_in_json_values_keep_their_digits(client: Client):
    body = b'{"messages": [{"value": {"n" : 12345678901234567890123, "f": 1.10}}]}'
    await client.post("/topics/t/messages", content=body)
    assert (await stored(client))[0]["value"] == '{"n":12345678901234567890123,"f":1.10}'


async def test_binary_comes_back_as_it_was(client: Client):
    data = bytes(range(256))
    message = {
        "key": base64.b64encode(data[::-1]).decode(),
        "value": base64.b64encode(data).decode(),
        "headers": [
            {"name": "h", "value": base64.b64encode(b"\xff").decode()},
            {"name": "h", "value": None},
        ],
        "encoding": "base64",
    }
    assert (await publish(client, message)).status_code == 200
    (found,) = await stored(client)
    assert found["encoding"] == "base64"
    assert {name: found[name] for name in message} == message

    again = {name: found[name] for name in message}
    assert (await publish(client, again)).status_code == 200
    assert [each["value"] for each in await stored(client)] == [message["value"]] * 2


async def test_text_is_base64_when_asked_for(client: Client):
    await publish(client, {"value": "aGk="}, encoding="base64")
    assert (await stored(client))[0]["value"] == "hi"
    answer = await client.get("/topics/t/partitions/0/messages?encoding=base64")
    (message,) = answer.json()["messages"]
    assert (message["value"], message["encoding"]) == ("aGk=", "base64")


async def test_headers_time_and_priority_are_kept(client: Client):
    await publish(
        client,
        {
            "value": "x",
            "headers": {"a": "1", "b": None},
            "timestamp": "2026-01-31T12:00:00.5+02:00",
            "priority": "HIGH",
        },
        {"value": "y", "timestamp": 1_700_000_000_123, "priority": 4},
    )
    first, second = await stored(client)
    assert first["headers"] == [
        {"name": "a", "value": "1"},
        {"name": "b", "value": None},
        {"name": "gq-priority", "value": "high"},
    ]
    assert (first["timestamp"], first["priority"]) == ("2026-01-31T10:00:00.500Z", "high")
    assert (second["timestamp"], second["priority"]) == ("2023-11-14T22:13:20.123Z", "background")


async def test_some_refused_is_a_multi_status(client: Client):
    answer = await publish(client, {"value": "a"}, {"value": "b", "partition": 9}, {"value": "c"})
    assert answer.status_code == 207
    first, second, third = answer.json()["results"]
    assert (first["offset"], third["offset"]) == (0, 1)
    assert second["error"]["code"] == "partition_not_found"
    assert [each["value"] for each in await stored(client)] == ["a", "c"]


async def test_all_refused_is_the_first_ones_error(client: Client):
    answer = await publish(client, {"value": "b", "partition": 9})
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == "partition_not_found"
    assert error["details"]["results"][0]["error"]["code"] == "partition_not_found"


async def test_a_message_beyond_the_topics_limit_fails_alone(client: Client):
    settings = {"max.message.bytes": 2000}
    await client.post("/topics", json={"name": "s", "num_partitions": 1, "settings": settings})
    sizes = [900, 900, 900, 5000, 900]
    answer = await publish(client, *({"value": "x" * size} for size in sizes), topic="s")
    assert answer.status_code == 207
    errors = [result.get("error", {}).get("code") for result in answer.json()["results"]]
    assert errors == [None, None, None, "message_too_large", None]
    assert [len(each["value"]) for each in await stored(client, "s")] == [900] * 4
    alone = await publish(client, {"value": "x" * 5000}, topic="s")
    assert alone.status_code == 413


async def test_a_time_out_of_range_fails_alone(client: Client):
    answer = await publish(client, {"value": "a"}, {"value": "b", "timestamp": 2**62})
    assert answer.status_code == 207
    assert answer.json()["results"][1]["error"]["code"] == "invalid_timestamp"


async def test_a_compacted_topic_wants_keys(client: Client):
    settings = {"cleanup.policy": "compact"}
    await client.post("/topics", json={"name": "c", "num_partitions": 1, "settings": settings})
    answer = await publish(client, {"value": "a"}, {"key": "k", "value": None}, topic="c")
    assert answer.status_code == 207
    assert answer.json()["results"][0]["error"]["code"] == "invalid_record"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"messages": []}',
        b'{"messages": [{}]}',
        b'{"messages": [{"payload": "x"}]}',
        b'{"messages": [{"value": "x", "key": 1}]}',
        b'{"messages": [{"value": "\xff"}]}',
        b'{"messages": [{"value": {"a": "\xff"}}]}',
        b'{"messages": [{"value": "\\ud800"}]}',
        b'{"messages": [{"value": "x", "partition": -1}]}',
        b'{"messages": [{"value": "x", "partition": 99999999999999999999}]}',
        b'{"messages": [{"value": "x", "timestamp": "yesterday"}]}',
        b'{"messages": [{"value": "x", "timestamp": "2026-01-01T00:00:00"}]}',
        b'{"messages": [{"value": "x", "priority": "urgent"}]}',
        b'{"messages": [{"value": "x", "priority": 5}]}',
        b'{"messages": [{"value": "x", "delay": "5x"}]}',
        b'{"messages": [{"value": "x", "delay": -1}]}',
        b'{"messages": [{"value": "x", "deliver_at": "tomorrow"}]}',
        b'{"messages": [{"value": "x", "delay": "5s", "deliver_at": 5}]}',
        b'{"messages": [{"value": "x", "delay": "5s", "headers": {"gq-delay-ms": "5"}}]}',
        b'{"messages": [{"value": "!!", "encoding": "base64"}]}',
        b'{"messages": [{"value": 1, "encoding": "base64"}]}',
        b'{"messages": [{"value": "x"}], "encoding": "hex"}',
        b'{"messages": [{"value": ' + b"[" * 100_000 + b"}]}",
    ],
)
async def test_a_bad_request_publishes_nothing(client: Client, body: bytes):
    both = body.replace(b"[{", b'[{"value": "good"}, {', 1)
    for each in (body, both):
        answer = await client.post("/topics/t/messages", content=each)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"] == "invalid_request"
    assert await stored(client) == []


async def test_the_place_of_a_mistake_is_told(client: Client):
    answer = await publish(client, {"value": "a"}, {"value": "b", "priority": "urgent"})
    assert answer.json()["error"]["message"].startswith("messages[1]")


async def test_a_raw_body_is_one_value(client: Client):
    answer = await client.post(
        "/topics/t/messages?key=k&timestamp=1700000000000&priority=low",
        content=b"\x00\xffraw",
        headers={"content-type": "application/octet-stream", "X-GQ-Header-Trace": "abc"},
    )
    assert answer.status_code == 200
    (message,) = await stored(client)
    assert base64.b64decode(message["value"]) == b"\x00\xffraw"
    assert base64.b64decode(message["key"]) == b"k"
    assert message["headers"][0] == {"name": "trace", "value": "YWJj"}
    assert (message["priority"], message["timestamp"]) == ("low", "2023-11-14T22:13:20.000Z")


async def test_plain_text_needs_no_envelope(client: Client):
    headers = {"content-type": "text/plain"}
    await client.post("/topics/t/messages", content='{"not": "parsed"}', headers=headers)
    assert (await stored(client))[0]["value"] == '{"not": "parsed"}'


async def test_a_form_is_not_understood(client: Client):
    answer = await client.post("/topics/t/messages", files={"file": b"x"})
    assert answer.status_code == 415


async def test_query_parameters_of_raw_bodies_are_refused_beside_json(client: Client):
    body = {"messages": [{"value": "x"}]}
    answer = await client.post("/topics/t/messages?key=k", json=body)
    assert answer.status_code == 400


async def test_publishing_creates_the_topic_when_that_is_on(client: Client):
    assert (await publish(client, {"value": "x"}, topic="new")).status_code == 200
    assert (await client.get("/topics/new")).json()["partitions"] == 3


async def test_publishing_to_no_topic_is_not_found_when_it_is_off(serving):
    config = Config(topics=TopicsConfig(auto_create=False))
    async with serving(config) as server, httpx.AsyncClient(base_url=server.url) as client:
        answer = await publish(client, {"value": "x"}, topic="new")
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "topic_not_found"


async def test_a_large_body_is_413(serving):
    async with (
        serving(body_bytes_max=10_000) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        for body in (b"x" * 10_001, _chunks(b"x" * 1_000, 11)):
            answer = await client.post("/topics/t/messages", content=body)
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "request_too_large"
        assert (await client.get("/health")).status_code == 200


async def _chunks(data: bytes, count: int):
    for _ in range(count):
        yield data


async def test_a_full_disk_is_507_and_worth_another_try(client: Client, server, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr(server.broker.partitions.room, "_is_full", True)
        answer = await publish(client, {"value": "x"})
        assert (answer.status_code, answer.headers["retry-after"]) == (507, "1")
        assert answer.json()["error"]["code"] == "disk_full"
        assert answer.json()["error"]["details"]["retriable"] is True
    assert (await publish(client, {"value": "x"})).status_code == 200


async def test_a_partition_whose_disk_failed_is_503(client: Client, server):
    partition = await server.broker.partition("t", 0)
    partition.log.fail("the disk said no")
    answer = await publish(client, {"value": "x"})
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "storage_failed"
    listed = (await client.get("/topics/t/partitions")).json()["partitions"]
    assert "the disk said no" in listed[0]["read_only"]


async def test_acks_leader_is_readable_soon(client: Client):
    body = {"messages": [{"value": "x"}]}
    answer = await client.post("/topics/t/messages?acks=leader", json=body)
    assert answer.status_code == 200
    assert len(await stored(client)) == 1
    assert (await client.post("/topics/t/messages?acks=none", json=body)).status_code == 400
