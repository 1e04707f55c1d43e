"""What all answers have in common: newlines, compression, types, and errors that help."""

import gzip
import json
import zlib

import httpx
import pytest

Client = httpx.AsyncClient
GZIP = {"accept-encoding": "gzip"}
PLAIN = {"accept-encoding": "identity"}


async def message(client: Client, method: str, path: str, **more: object) -> str:
    answer = await client.request(method, path, **more)  # type: ignore[arg-type]
    assert answer.status_code == 400, answer.text
    return str(answer.json()["error"]["message"])


# --- answers --------------------------------------------------------------------------------------


async def test_json_ends_with_a_newline(client: Client):
    for path in ("/topics", "/nowhere", "/livez", "/version"):
        answer = await client.get(path, headers=PLAIN)
        assert answer.text.endswith("}\n")
        assert int(answer.headers["content-length"]) == len(answer.content)
        head = await client.head(path, headers=PLAIN)
        assert abs(int(head.headers["content-length"]) - len(answer.content)) < 10  # of the time


@pytest.mark.parametrize("path", ["/", "/metrics", "/openapi.json", "/topics"])
async def test_a_content_type_has_one_charset_at_most(client: Client, path: str):
    answer = await client.get(path, timeout=60)
    assert answer.headers["content-type"].count("charset") <= 1


async def test_a_created_topic_has_a_location(client: Client):
    for prefix in ("", "/v1"):
        created = await client.post(f"{prefix}/topics", json={"name": f"t{len(prefix)}"})
        assert created.status_code == 201
        place = created.request.url.join(created.headers["location"])
        assert place.path == f"{prefix}/topics/t{len(prefix)}"
        assert (await client.get(place)).json()["name"] == f"t{len(prefix)}"


async def test_large_documents_are_compressed_for_those_who_accept_it(client: Client):
    plain = await client.get("/openapi.json", headers=PLAIN, timeout=60)
    assert "content-encoding" not in plain.headers
    async with client.stream("GET", "/openapi.json", headers=GZIP) as answer:
        raw = b"".join([chunk async for chunk in answer.aiter_raw()])
    assert answer.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in answer.headers["vary"]
    assert int(answer.headers["content-length"]) == len(raw) < len(plain.content) / 4
    assert gzip.decompress(raw) == plain.content


@pytest.mark.parametrize("accepted", ["gzip;q=0", "br, deflate", "identity, gzip; q=0.0", ""])
async def test_nobody_gets_what_they_do_not_accept(client: Client, accepted: str):
    answer = await client.get("/metrics", headers={"accept-encoding": accepted})
    assert "content-encoding" not in answer.headers


async def test_small_answers_and_messages_are_not_compressed(client: Client):
    """Compression would cost more time than all else that a receive does."""
    await client.post("/topics/t/messages", json={"messages": [{"value": "x" * 5000}]})
    for answer in (
        await client.get("/topics", headers=GZIP),
        await client.get("/topics/t/messages", headers=GZIP),
        await client.post("/queues/t/receive", json={"group": "g"}, headers=GZIP),
    ):
        assert answer.status_code == 200
        assert "content-encoding" not in answer.headers


async def test_messages_are_compressed_where_the_server_is_told_to(serving):
    async with serving(compress="all") as server, Client(base_url=server.url) as client:
        await client.post("/topics/t/messages", json={"messages": [{"value": "x" * 5000}]})
        answer = await client.get("/topics/t/messages", headers=GZIP)
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.json()["messages"][0]["value"] == "x" * 5000
    async with serving(compress="none") as server, Client(base_url=server.url) as client:
        assert "content-encoding" not in (await client.get("/metrics", headers=GZIP)).headers


async def test_a_request_body_may_be_compressed(client: Client):
    body = gzip.compress(json.dumps({"messages": [{"value": "x" * 100_000}]}).encode())
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    assert (await client.post("/topics/t/messages", content=body, headers=headers)).is_success
    found = (await client.get("/topics/t/messages")).json()["messages"]
    assert found[0]["value"] == "x" * 100_000


async def test_a_body_that_unfolds_beyond_the_limit_is_too_large(serving):
    async with serving(body_bytes_max=100_000) as server, Client(base_url=server.url) as client:
        for body in (gzip.compress(b"x" * 50_000_000), b"x" * 200_000):
            headers = {"content-type": "text/plain"}
            if body[0] == 0x1F:
                headers["content-encoding"] = "gzip"
            answer = await client.post("/topics/t/messages", content=body, headers=headers)
            assert answer.status_code == 413
            assert "100000" in answer.json()["error"]["message"]
            assert "http.body_bytes_max" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"no gzip", 400),
        ("gzip", gzip.compress(b'{"messages": [{"value": "x"}]}')[:-9], 400),
        ("br", b"x", 415),
        ("deflate", zlib.compress(b"x"), 415),
    ],
    ids=["no-gzip", "cut-short", "br", "deflate"],  # gzip writes the time into its bytes
)
async def test_other_encodings_are_refused(client: Client, encoding: str, body: bytes, status: int):
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    answer = await client.post("/topics/t/messages", content=body, headers=headers)
    assert answer.status_code == status
    assert "gzip" in answer.json()["error"]["message"]


# --- errors ---------------------------------------------------------------------------------------

JSON = {"content-type": "application/json"}


async def test_an_empty_body_is_called_empty(client: Client):
    text = await message(client, "POST", "/topics")
    assert "the body is empty" in text
    assert "name" in text
    assert "the body is empty" in await message(client, "POST", "/topics/t/messages")


async def test_half_a_body_is_called_incomplete(client: Client):
    for path in ("/topics", "/topics/t/messages"):
        text = await message(client, "POST", path, content=b'{"messages":', headers=JSON)
        assert "the body is not JSON: it ends in the middle" in text


async def test_a_body_of_the_wrong_kind_is_said_to_be_so(client: Client):
    text = await message(client, "POST", "/topics", json=[1])
    assert text == "the body: expected `object`, got `array`"


async def test_an_unknown_field_is_named_with_those_that_are_known(client: Client):
    answer = await client.post("/topics", json={"name": "t", "partition_count": 3})
    error = answer.json()["error"]
    assert "unknown field `partition_count`" in error["message"]
    assert "did you mean `partitions`?" in error["message"]
    assert error["details"]["fields"][0]["in"] == "body"
    assert error["details"]["fields"][0]["name"] == "partition_count"
    text = await message(client, "PATCH", "/groups/g/queue", json={"visiblity_ms": 3})
    assert "did you mean `visibility_ms`?" in text
    text = await message(client, "POST", "/topics/t/messages", json={"messages": [{"val": 1}]})
    assert "messages[0]: unknown field `val`; did you mean `value`?" in text


async def test_a_duration_that_is_none_is_said_to_be_so(client: Client):
    text = await message(client, "POST", "/queues/t/receive", json={"group": "g", "wait": "3x"})
    assert text.startswith("wait: ")
    assert "30s" in text
    assert "regex" not in text


async def test_unknown_parameters_are_refused(client: Client):
    text = await message(client, "GET", "/topics?limt=3")
    assert text == "unknown parameter `limt`; did you mean `limit`?"
    text = await message(client, "GET", "/topics/t/messages?colour=red")
    assert "unknown parameter `colour`; known are `cursor`" in text
    assert (await client.get("/v1/topics?limit=3&verbose=true")).status_code == 200
    for path in ("/livez?exclude=disk", "/?from=mail", "/metrics?name=x"):
        assert (await client.get(path)).status_code == 200


# --- notations ------------------------------------------------------------------------------------


async def test_partitions_is_what_the_answer_calls_them(client: Client):
    created = await client.post("/topics", json={"name": "t", "partitions": 5})
    assert created.json()["partitions"] == 5
    text = await message(
        client, "POST", "/topics", json={"name": "u", "partitions": 5, "num_partitions": 4}
    )
    assert "not both" in text


async def test_topic_settings_take_durations(client: Client):
    settings = {
        "retention.ms": "7d",
        "segment.ms": "1h30m",
        "flush.ms": 500,
        "goqueue.ttl.ms": "-1",
    }
    created = await client.post("/topics", json={"name": "t", "settings": settings})
    assert created.json()["settings"] == {
        "retention.ms": "604800000",
        "segment.ms": "5400000",
        "flush.ms": "500",
        "goqueue.ttl.ms": "-1",
    }
    changed = await client.patch("/topics/t/settings", json={"set": {"retention.ms": "12h"}})
    assert changed.json()["settings"]["retention.ms"]["value"] == "43200000"
    text = await message(
        client, "POST", "/topics", json={"name": "u", "settings": {"retention.ms": "7y"}}
    )
    assert "7d" in text
    assert "base 10" not in text
    text = await message(
        client, "POST", "/topics", json={"name": "u", "settings": {"retention.m": 7}}
    )
    assert "did you mean retention.ms?" in text


async def test_durations_are_texts_or_numbers(client: Client):
    await client.post("/topics", json={"name": "t"})
    queue = {"visibility_ms": "45s", "backoff_base_ms": 10, "backoff_max_ms": "5m", "ttl_ms": "1d"}
    found = (await client.patch("/groups/g/queue", json=queue)).json()["settings"]
    assert [found[each] for each in queue] == [45_000, 10, 300_000, 86_400_000]
    join = {"topics": ["t"], "session_timeout_ms": "10s", "rebalance_timeout_ms": "1m"}
    joined = (await client.post("/groups/s/join", json=join)).json()
    assert joined["session_timeout_ms"] == 10_000
    await client.post("/groups/s/leave", json={"member_id": joined["member_id"]})
    init = {"transactional_id": "x", "transaction_timeout_ms": "30s"}
    assert (await client.post("/producers/init", json=init)).is_success
    described = (await client.get("/transactions/ids/x")).json()
    assert described["timeout_ms"] == 30_000
    for value in ("0s", "soon", -1):
        await message(client, "PATCH", "/groups/g/queue", json={"visibility_ms": value})


async def test_a_receipt_may_be_called_receipt(client: Client):
    await client.post("/topics/t/messages", json={"messages": [{"value": "a"}, {"value": "b"}]})
    received = (await client.post("/queues/t/receive", json={"group": "g"})).json()["messages"]
    first, second = (each["receipt_handle"] for each in received)
    assert (await client.post("/messages/ack", json={"receipt": first})).json()["action"] == "acked"
    acked = (await client.post("/messages/ack", json={"receipts": [first, second]})).json()
    assert acked["settled"] == 2
    both = {"receipt": first, "receipt_handle": second}
    assert "one of them" in await message(client, "POST", "/messages/ack", json=both)


async def test_latest_is_the_end_as_in_kafka(client: Client):
    await client.post("/topics", json={"name": "t", "partitions": 1})
    for count in (0, 3):
        if count:
            await client.post("/topics/t/messages", json={"messages": [{"value": "x"}] * count})
        described = (await client.get("/topics/t")).json()["partition_offsets"]["0"]
        (listed,) = (await client.get("/topics/t/partitions")).json()["partitions"]
        found = (await client.get("/topics/t/partitions/0/offsets?time=latest")).json()
        for each in (described, listed, found):
            assert (each["earliest"], each["latest"], each["next_offset"]) == (0, count, count)
        assert found["offset"] == count
