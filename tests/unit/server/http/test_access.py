"""Who may call: names of the server, pages of other origins, proxies."""

import asyncio
from typing import Any

import httpx
import pytest

from goqueue.model.config import HttpConfig
from goqueue.server.http.asgi.access import HOSTS_REMEMBERED_MAX, Access

Client = httpx.AsyncClient
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36"
IMAGE_TAG = {  # what Chrome sends for <img src="http://127.0.0.1:8080/..."> on a page elsewhere
    "user-agent": CHROME,
    "accept": "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "no-cors",
    "sec-fetch-dest": "image",
}
OLD_BROWSER_IMAGE = {"user-agent": CHROME, "accept": "image/*,*/*;q=0.8"}
OLD_BROWSER_FETCH = {"user-agent": CHROME, "accept": "text/event-stream"}


async def raw(server, request: str) -> tuple[int, str]:
    """The status and the whole answer to a request written by hand."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(request.replace("\n", "\r\n").encode())
    async with asyncio.timeout(5):
        answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ", 2)[1]), answer


# --- names of the server --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_foreign_host_name_is_refused_on_loopback(client: Client, method: str):
    """A page whose name is rebound to 127.0.0.1 is of the same origin, as its browser sees it."""
    evil = {"host": "evil.example:8080", "origin": "http://evil.example:8080"}
    answer = await client.request(method, "/topics", headers=evil, content=b'{"name":"rebound"}')
    assert answer.status_code == 421
    error = answer.json()["error"]
    assert error["code"] == "unknown_host"
    assert "evil.example" in error["message"]
    assert "http.hosts" in error["message"]
    assert (await client.get("/topics")).json()["topics"] == []


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "app.localhost:80",
        "127.0.0.1",
        "127.9.9.9:7",
        "[::1]:8080",
    ],
)
async def test_loopback_names_are_accepted_with_any_port(client: Client, host: str):
    assert (await client.get("/topics", headers={"host": host})).status_code == 200


async def test_advertised_and_listed_names_are_accepted(serving):
    settings = {"advertised": "mq.example:80", "hosts": ["queue.example", "*.corp.example"]}
    async with serving(**settings) as server, Client(base_url=server.url) as client:
        for host, status in (
            ("mq.example", 200),
            ("queue.example:99", 200),
            ("a.b.corp.example", 200),
            ("corp.example", 421),
            ("evil-corp.example", 421),
            ("xqueue.example", 421),
        ):
            assert (await client.get("/topics", headers={"host": host})).status_code == status, host


@pytest.mark.parametrize(
    ("listen", "host", "accepted"),
    [
        ("0.0.0.0:0", "192.168.1.5:8080", True),
        ("0.0.0.0:0", "[fe80::1]", True),
        ("0.0.0.0:0", "goqueue:8080", True),  # no public name is without a dot
        ("0.0.0.0:0", "localhost", True),
        ("0.0.0.0:0", "evil.example", False),
        ("mq.corp.example:0", "mq.corp.example:8080", True),
        ("mq.corp.example:0", "evil.example", False),
        ("127.0.0.1:0", "goqueue", False),
        ("127.0.0.1:0", "192.168.1.5", False),
    ],
)
def test_on_all_interfaces_addresses_and_names_without_a_dot_are_accepted(
    listen: str, host: str, accepted: bool
):
    access = Access(HttpConfig(listen=listen))
    for _ in range(2):  # the second time from memory
        assert (refusal(access, (b"host", host.encode())) is None) is accepted


def refusal(access: Access, *headers: tuple[bytes, bytes], path: str = "/topics") -> int | None:
    """The status with which a GET is refused, if so."""
    scope = {
        "method": "GET",
        "path": path,
        "http_version": "1.1",
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
    }
    refused = access.refusal(scope, dict(headers))
    return None if refused is None else refused[0]


def test_a_host_that_was_accepted_for_health_only_is_refused_elsewhere():
    access = Access(HttpConfig(listen="127.0.0.1:0"))
    evil = (b"host", b"evil.example")
    assert refusal(access, evil, path="/livez") is None
    assert refusal(access, evil) == 421


def test_a_host_that_is_remembered_is_still_refused_twice_in_a_request():
    access = Access(HttpConfig(listen="127.0.0.1:0"))
    own = (b"host", b"localhost")
    assert refusal(access, own) is None
    assert refusal(access, own, own) == 400
    assert refusal(access, (b"host", b"evil.example"), own) == 400


def test_only_so_many_hosts_are_remembered():
    access = Access(HttpConfig(listen="127.0.0.1:0"))
    for number in range(2 * HOSTS_REMEMBERED_MAX + 1):
        assert refusal(access, (b"host", b"%d.localhost" % number)) is None
    assert len(access._hosts) <= HOSTS_REMEMBERED_MAX


async def test_health_is_told_whatever_name_was_asked_for(client: Client):
    """A balancer's check may call it by any name, and there is nothing to steal."""
    for path in ("/health", "/healthz", "/livez", "/readyz"):
        assert (await client.get(path, headers={"host": "balancer.example"})).status_code == 200
    assert (await client.get("/metrics", headers={"host": "evil.example"})).status_code == 421


@pytest.mark.parametrize(
    "request_text",
    [
        "GET /topics HTTP/1.1\nconnection: close\n\n",
        "GET /topics HTTP/1.1\nhost:\nconnection: close\n\n",
        "GET /topics HTTP/1.1\nhost: localhost\nhost: localhost\nconnection: close\n\n",
        "GET /topics HTTP/1.1\nhost: a:b\nconnection: close\n\n",
        "GET /topics HTTP/1.1\nhost: localhost:99999\nconnection: close\n\n",
        "GET /topics HTTP/1.1\nhost: user@localhost\nconnection: close\n\n",
        "GET /topics HTTP/1.1\nhost: local host\nconnection: close\n\n",
        "GET /topics HTTP/1.1\nhost: [::1\nconnection: close\n\n",
        "GET /livez HTTP/1.1\nhost: a:b\nconnection: close\n\n",
        "POST /topics HTTP/1.1\nhost: a:b\ncontent-type: application/json\ncontent-length: 9\n"
        'connection: close\n\n{"x":"y"}',
    ],
)
async def test_a_missing_or_malformed_host_is_a_bad_request(server, request_text: str):
    status, answer = await raw(server, request_text)
    assert status == 400
    assert '"code":"invalid_host"' in answer


async def test_http_1_0_needs_no_host(server):
    status, _ = await raw(server, "GET /topics HTTP/1.0\n\n")
    assert status == 200


# --- pages of other origins -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        IMAGE_TAG,
        {**IMAGE_TAG, "accept": "text/event-stream"},  # fetch with mode no-cors
        {**IMAGE_TAG, "sec-fetch-site": "same-site"},
        {"accept": "text/event-stream", "origin": "https://evil.example"},  # EventSource
        {"accept": "text/event-stream", "origin": "null"},
        {**IMAGE_TAG, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {**IMAGE_TAG, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        OLD_BROWSER_IMAGE,
        OLD_BROWSER_FETCH,
        {"accept": "*/*"},
        {},
    ],
)
async def test_a_page_cannot_lease_messages_with_a_plain_get(client: Client, headers: dict):
    await client.post("/topics", json={"name": "orders", "num_partitions": 1})
    messages = [{"value": str(each)} for each in range(7)]
    await client.post("/topics/orders/messages", json={"messages": messages})
    for _ in range(12):
        path = "/queues/orders/stream?group=billing"
        async with client.stream("GET", path, headers={"accept": "*/*", **headers}) as answer:
            assert answer.status_code in (403, 406)
    peeked = (await client.get("/queues/orders/peek?group=billing")).json()["messages"]
    assert [each["attempts"] for each in peeked] == [0] * 7
    work = {"group": "billing", "max_messages": 10}
    received = (await client.post("/queues/orders/receive", json=work)).json()["messages"]
    assert [each["value"] for each in received] == [str(each) for each in range(7)]


@pytest.mark.parametrize(
    "headers",
    [
        {},  # curl
        {"user-agent": CHROME, "sec-fetch-site": "same-origin"},
        {"user-agent": CHROME, "x-requested-with": "fetch"},
    ],
)
async def test_who_asks_for_events_gets_them(client: Client, headers: dict):
    await client.post("/topics/orders/messages", json={"messages": [{"value": "x"}]})
    headers = {"accept": "text/event-stream", **headers}
    async with client.stream("GET", "/queues/orders/stream?group=g", headers=headers) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data:"):
                break
        assert '"value":"x"' in line


async def test_a_stream_says_which_header_it_needs(client: Client):
    await client.post("/topics", json={"name": "orders"})
    answer = await client.get("/queues/orders/stream?group=g")
    assert answer.status_code == 406
    assert "Accept: text/event-stream" in answer.json()["error"]["message"]


async def test_a_page_cannot_poll_for_a_member(client: Client):
    await client.post("/topics", json={"name": "orders"})
    joined = await client.post("/groups/g/join", json={"topics": ["orders"], "member_id": "m"})
    path = f"/groups/g/poll?member_id=m&generation={joined.json()['generation']}&timeout=0"
    link = {**IMAGE_TAG, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    for headers in (IMAGE_TAG, OLD_BROWSER_IMAGE, link):
        assert (await client.get(path, headers=headers)).status_code == 403
    assert (await client.get(path)).status_code == 200
    await client.post("/groups/g/leave", json={"member_id": "m"})


async def test_a_link_from_elsewhere_opens_a_page(client: Client):
    """Pages elsewhere may link to these, and may not load anything into themselves."""
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    for destination, status in (("document", 200), ("iframe", 403), ("embed", 403)):
        answer = await client.get("/", headers={**link, "sec-fetch-dest": destination})
        assert answer.status_code == status
    assert (await client.get("/topics", headers=IMAGE_TAG)).status_code == 403


# --- pages that may -------------------------------------------------------------------------------

APP = "https://app.example"


async def test_a_listed_origin_reads_and_writes(serving):
    async with serving(cors_origins=[APP]) as server, Client(base_url=server.url) as client:
        page = {"origin": APP, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
        asked = {
            **page,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type,x-gq-header-a",
        }
        preflight = await client.options("/topics", headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == APP
        assert preflight.headers["access-control-allow-methods"] == "GET, POST, HEAD, OPTIONS"
        assert preflight.headers["access-control-allow-headers"] == "content-type,x-gq-header-a"
        assert int(preflight.headers["access-control-max-age"]) > 0
        assert "origin" in preflight.headers["vary"].lower()
        for answer in (
            await client.post("/topics", json={"name": "t"}, headers=page),
            await client.get("/topics", headers=page),
            await client.get("/nowhere", headers=page),
        ):
            assert answer.status_code in (201, 200, 404)
            assert answer.headers["access-control-allow-origin"] == APP
            assert "origin" in answer.headers["vary"].lower()


async def test_other_origins_are_told_which_setting_would_let_them(serving):
    async with serving(cors_origins=[APP]) as server, Client(base_url=server.url) as client:
        for origin in ("https://evil.example", "http://app.example", f"{APP}:444", f"{APP}.evil"):
            page = {"origin": origin, "access-control-request-method": "POST"}
            for method in ("OPTIONS", "POST", "GET"):
                answer = await client.request(method, "/topics", headers=page)
                assert answer.status_code == 403
                assert "access-control-allow-origin" not in answer.headers
                assert "http.cors_origins" in answer.json()["error"]["message"]


async def test_a_page_of_a_listed_origin_acks_what_it_was_sent(serving):
    async with serving(cors_origins=[APP]) as server, Client(base_url=server.url) as client:
        page = {"origin": APP, "sec-fetch-site": "cross-site", "user-agent": CHROME}
        body = {"messages": [{"value": "x"}]}
        assert (await client.post("/topics/t/messages", json=body, headers=page)).is_success
        headers = {**page, "accept": "text/event-stream"}
        async with client.stream("GET", "/queues/t/stream?group=g", headers=headers) as answer:
            assert answer.headers["access-control-allow-origin"] == APP
            async for line in answer.aiter_lines():
                if line.startswith("id: t:"):
                    break
        acked = await client.post(
            "/messages/ack", json={"receipt_handle": line.removeprefix("id: ")}, headers=page
        )
        assert acked.json()["action"] == "acked"


# --- proxies --------------------------------------------------------------------------------------

PROXY = {"trusted_proxies": ["127.0.0.1"], "hosts": ["mq.example"]}
FORWARDED = {
    "x-forwarded-host": "mq.example:8443",
    "x-forwarded-proto": "https",
    "x-forwarded-prefix": "/mq",
}


async def test_a_page_behind_a_trusted_proxy_may_write(serving):
    page = {"origin": "https://mq.example:8443", "sec-fetch-site": "same-origin"}
    async with serving(**PROXY) as server, Client(base_url=server.url) as client:
        answer = await client.post("/topics", json={"name": "t"}, headers={**FORWARDED, **page})
        assert answer.status_code == 201
        refused = await client.post("/topics", json={"name": "u"}, headers=page)
        assert refused.status_code == 403


async def test_what_others_say_of_a_proxy_counts_for_nothing(serving):
    page = {"origin": "https://mq.example:8443"}
    settings = {**PROXY, "trusted_proxies": ["10.0.0.0/8"]}
    async with serving(**settings) as server, Client(base_url=server.url) as client:
        answer = await client.post("/topics", json={"name": "t"}, headers={**FORWARDED, **page})
        assert answer.status_code == 403


@pytest.mark.parametrize(
    ("host", "forwarded", "status"),
    [
        ("127.0.0.1", "mq.example", 200),
        ("127.0.0.1", "evil.example", 421),  # rebound to the proxy
        ("evil.example", "mq.example", 421),  # rebound to us: a page may send any header
        ("127.0.0.1", "a:b", 400),
    ],
)
async def test_both_names_must_be_ours(serving, host: str, forwarded: str, status: int):
    headers = {"host": host, "x-forwarded-host": forwarded}
    async with serving(**PROXY) as server, Client(base_url=server.url) as client:
        assert (await client.get("/topics", headers=headers)).status_code == status


async def test_paths_are_served_with_the_prefix_and_without_it(serving):
    async with serving(root_path="/mq") as server, Client(base_url=server.url) as client:
        for path in ("/topics", "/mq/topics", "/mq/v1/topics", "/mq", "/mq/", "/mq/livez"):
            assert (await client.get(path)).status_code == 200, path
        for path in ("/mqx/topics", "/mq/mq/topics", "/mqtopics"):
            assert (await client.get(path)).status_code == 404, path


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded; charset=utf-8"])
async def test_a_page_sends_json_and_no_form(client: Client, kind: str):
    """A form needs no preflight; curl has no reader, and may say nothing."""
    body, own = b'{"name":"by-form"}', f"http://{client.base_url.netloc.decode()}"
    page = {"origin": own, "sec-fetch-site": "same-origin", "content-type": kind}
    answer = await client.post("/topics", headers=page, content=body)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]["message"]
    page["content-type"] = "application/json"
    assert (await client.post("/topics", headers=page, content=body)).status_code == 201
    curl = {"content-type": kind}
    answer = await client.post("/topics", headers=curl, content=b'{"name":"by-curl"}')
    assert answer.status_code == 201


async def test_the_client_is_whom_the_last_trusted_proxy_names():
    access = Access(HttpConfig(trusted_proxies=["10.0.0.0/8"]))
    found = []
    for peer, forwarded in (
        ("10.0.0.1", b"192.0.2.7"),
        ("10.0.0.1", b"6.6.6.6, 192.0.2.7, 10.0.0.2"),  # the first one anybody may have written
        ("192.0.2.9", b"6.6.6.6"),  # no proxy of ours
        ("10.0.0.1", b"nonsense"),
    ):
        headers = [(b"host", b"127.0.0.1"), (b"x-forwarded-for", forwarded)]
        scope: dict[str, Any] = {
            "client": (peer, 1),
            "path": "/topics",
            "http_version": "1.1",
            "scheme": "http",
            "headers": headers,
        }
        access.resolve(scope, dict(headers))
        found.append(scope["client"][0])
    assert found == ["192.0.2.7", "192.0.2.7", "192.0.2.9", "10.0.0.1"]
