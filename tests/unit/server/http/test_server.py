"""Health, version, numbers, pages, and what every answer has in common."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

Client = httpx.AsyncClient


async def test_health_in_all_its_spellings(client: Client):
    assert (await client.get("/health")).json()["status"] == "ok"
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert answer.json()["status"] == "pass"
        assert answer.json()["uptime_seconds"] >= 0


async def test_ready_only_while_serving(serving):
    async with serving() as server, httpx.AsyncClient(base_url=server.url) as client:
        assert "checks" not in (await client.get("/readyz")).json()
        assert (await client.get("/readyz?verbose")).json()["checks"] == {"listeners": "pass"}
        server.listener.health.add_check("disk", lambda: "disk is full")
        refused = await client.get("/readyz?verbose=true")
        assert refused.status_code == 503
        assert refused.json()["checks"] == {"listeners": "pass", "disk": "disk is full"}
        server.listener.ready = False
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200


async def test_version_and_stats(client: Client):
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", (await client.get("/version")).json()["version"])
    await client.post("/topics", json={"name": "t", "num_partitions": 2})
    body = {"messages": [{"value": "x", "partition": 1}, {"value": "y", "partition": 1}]}
    await client.post("/topics/t/messages", json=body)
    stats = (await client.get("/stats")).json()
    assert stats["topics"] == 1
    assert stats["topic_stats"]["t"]["total_messages"] == 2
    assert stats["topic_stats"]["t"]["total_size_bytes"] == stats["total_size_bytes"] > 0


# --- pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_pages_need_nothing_from_elsewhere(client: Client, path: str):
    page = await client.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page.text)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for link in links_of(page.text):
        assert (await client.get(page.url.join(link), timeout=60)).status_code == 200, link


@pytest.mark.parametrize("path", ["/mq/", "/mq/docs", "/mq/docs/"])
async def test_pages_below_a_prefix_lead_to_what_is_below_it(serving, path: str):
    async with serving(root_path="/mq") as server, Client(base_url=server.url) as client:
        await client.post("/topics", json={"name": "t"})
        page = await client.get(path, timeout=60)
        for link in links_of(page.text):
            target = page.url.join(link)
            assert target.path.startswith("/mq/"), link
            assert (await client.get(target, timeout=60)).status_code == 200, link
        assert f"{server.url}/mq" in page.text


async def test_the_first_commands_have_the_address_that_was_asked(client: Client, server):
    page = (await client.get("/")).text
    assert f"{server.url}/topics/demo/messages" in page
    page = (await client.get("/", headers={"host": "localhost:99"})).text
    assert "http://localhost:99/topics/demo/messages" in page


def links_of(page: str) -> set[str]:
    return {link for link in re.findall(r'(?:src|href)="([^"]*)"', page) if link[0] != "#"}


async def test_the_page_shows_every_operation(client: Client):
    document = (await client.get("/openapi.json", timeout=60)).json()
    page = (await client.get("/docs", timeout=60)).text
    operations = [(m, p) for p, methods in document["paths"].items() for m in methods]
    assert len(operations) > 15
    for method, path in operations:
        assert f'data-method="{method.upper()}" data-path="{path}"' in page
    ids = re.findall(r'<details id="(\w+)"', page)
    assert len(ids) == len(set(ids)) == len(operations)  # to link to
    assert "`" not in page


async def test_the_document_says_what_fields_mean(client: Client):
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    assert "null when it does" in schemas["PartitionInfo"]["properties"]["read_only"]["description"]
    assert schemas["PublishRequest"]["properties"]["messages"]["minItems"] == 1


async def test_the_document_is_one_that_generators_of_clients_understand(client: Client):
    document = (await client.get("/openapi.json", timeout=60)).json()
    assert document["security"] == []
    assert document["info"]["license"]["identifier"] == "Apache-2.0"
    assert document["servers"] == [{"url": str(client.base_url).rstrip("/")}]
    publish = document["paths"]["/topics/{topic}/messages"]["post"]
    assert set(publish["requestBody"]["content"]) == {
        "application/json",
        "application/octet-stream",
    }
    for each in every_object(document):
        for choice in ("oneOf", "anyOf"):
            assert len(each.get(choice, "--")) > 1
            assert choice not in each or "default" not in each
        assert each != {"schema": {}}
        assert "document follows" not in str(each.get("description"))


def every_object(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        yield found
    for each in found.values() if isinstance(found, dict) else found:
        if isinstance(each, dict | list):
            yield from every_object(each)


# --- errors -------------------------------------------------------------------------------------


async def test_every_error_has_the_same_shape(client: Client):
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/topics/none", 404),
        ("PUT", "/topics", 405),
        ("POST", "/health", 405),
        ("GET", "/topics?limit=x", 400),
        ("POST", "/topics", 400),
    ):
        answer = await client.request(method, path)
        assert answer.status_code == status, (method, path)
        assert answer.headers["content-type"].startswith("application/json")
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "details"}
        assert error["code"]
        assert error["message"]


async def test_a_path_tells_what_may_be_done_there(client: Client):
    for method, status in (("OPTIONS", 204), ("PUT", 405)):
        answer = await client.request(method, "/topics")
        assert answer.status_code == status
        assert answer.headers["allow"] == "GET, POST, HEAD, OPTIONS"
    assert (await client.options("/nowhere")).status_code == 404


async def test_head_is_get_without_the_body(client: Client):
    wanted, answer = await client.get("/version"), await client.head("/version")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == wanted.headers["content-length"]


async def test_answers_forbid_what_a_browser_need_not_do(client: Client):
    for path in ("/topics", "/nowhere"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert "access-control-allow-origin" not in headers


async def test_a_page_of_another_origin_cannot_write(client: Client, server):
    body = {"name": "t"}
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = await client.post("/topics", json=body, headers=headers)
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "foreign_origin"
    own = {"origin": server.url, "sec-fetch-site": "same-origin"}
    assert (await client.post("/topics", json=body, headers=own)).status_code == 201


# --- bounds -------------------------------------------------------------------------------------


async def test_too_many_requests_at_once_are_told_to_come_back(serving):
    async with (
        serving(connections_max=3) as server,
        httpx.AsyncClient(base_url=server.url, limits=httpx.Limits(max_connections=50)) as client,
    ):
        await client.post("/topics", json={"name": "t", "num_partitions": 1})
        path = "/topics/t/partitions/0/messages?wait=500ms"
        answers = await asyncio.gather(*(client.get(path) for _ in range(6)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses[0] == 200
        assert statuses[-1] == 503
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["code"] == "overloaded"
        assert (await client.get("/livez")).status_code == 200


async def test_connections_far_beyond_the_limit_are_closed(serving):
    async with serving(connections_max=2) as server:
        opened = [await asyncio.open_connection(*server.address) for _ in range(6)]
        async with asyncio.timeout(5):
            assert await opened[-1][0].read() == b""
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * 100_000, b"431"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000, b"431"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"\x00\x01\x02\x03", b"400"),
        (b"GET / HTTP/1.1\r\nhost: [::1]\r\ncontent-length: -1\r\n\r\n", b"400"),
        (
            b"GET / HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 5\r\n"
            b"transfer-encoding: chunked\r\n\r\n",
            b"400",
        ),
        (
            b"POST /topics HTTP/1.1\r\nhost: [::1]\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"400",
        ),
    ],
)
async def test_what_is_no_request_costs_its_connection_only(
    client: Client, server, sent: bytes, status: bytes
):
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(sent)
    async with asyncio.timeout(5):
        answer = await reader.read()
    assert answer.split(b" ", 2)[1] == status
    assert b'{"error":{"code":"' in answer
    writer.close()
    assert (await client.get("/health")).status_code == 200


async def test_an_endless_header_is_cut_off(client: Client, server):
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"GET / HTTP/1.1\r\nhost: [::1]\r\nx: " + b"y" * 1_000_000)
    async with asyncio.timeout(5):
        with contextlib.suppress(ConnectionResetError):  # when bytes were left unread
            assert (await reader.read()).startswith(b"HTTP/1.1 431")
    writer.close()
    assert (await client.get("/health")).status_code == 200


async def test_an_upgrade_is_answered_over_http_1(server):
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(
        b"GET /health HTTP/1.1\r\nhost: [::1]\r\nconnection: upgrade, http2-settings\r\n"
        b"upgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
    )
    async with asyncio.timeout(5):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200")
    writer.close()


async def test_a_request_that_does_not_arrive_is_given_up(server, monkeypatch):
    monkeypatch.setattr("goqueue.server.http.asgi.connection.ARRIVAL_SECONDS_MAX", 0.1)
    for sent in (
        b"",
        b"GET / HT",
        b"POST /topics HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 9\r\n\r\n{",
    ):
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(sent)
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()


async def test_a_later_request_that_does_not_arrive_is_given_up(server, monkeypatch):
    monkeypatch.setattr("goqueue.server.http.asgi.connection.ARRIVAL_SECONDS_MAX", 0.1)
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"GET /health HTTP/1.1\r\nhost: [::1]\r\n\r\nGET /version HT")
    async with asyncio.timeout(5):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        with contextlib.suppress(ConnectionResetError):
            assert b'"version"' not in await reader.read()
    writer.close()


async def test_pipelined_requests_are_answered_in_order(server):
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(
        b"GET /version HTTP/1.1\r\nhost: [::1]\r\n\r\nGET /health HTTP/1.1\r\nhost: [::1]\r\n\r\n"
        b"GET /nowhere HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n\r\n"
    )
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    places = [answer.index(each) for each in (b'"version"', b'"status":"ok"', b"no_such_path")]
    assert places == sorted(places)
