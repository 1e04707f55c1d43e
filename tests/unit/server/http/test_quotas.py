"""Clients of HTTP over their quota: 429, the quota's name, and when to come again."""

import httpx

from tests.unit.server.http.conftest import Serving

MESSAGES = {"messages": [{"value": "x" * 100}] * 3}


async def test_quotas_are_listed_set_and_removed(serving: Serving) -> None:
    async with serving() as server, httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        change = {"user": "ann", "client_id": "<default>", "quotas": {"request_rate": 5}}
        made = await client.patch("/admin/quotas", json=change)
        assert made.json() == {
            "user": "ann",
            "client_id": "<default>",
            "quotas": {"request_rate": 5.0},
        }
        other = {"ip": "10.1.1.1", "quotas": {"connection_creation_rate": 2.5}}
        assert (await client.patch("/admin/quotas", json=other)).status_code == 200
        assert (await client.get("/admin/quotas")).json()["count"] == 2
        assert (await client.get("/admin/quotas?ip=10.1.1.1")).json()["count"] == 1
        assert (await client.get("/admin/quotas?user=bob")).json()["count"] == 0
        gone = await client.delete("/admin/quotas?user=ann&client_id=<default>")
        assert gone.json()["quotas"] == {"request_rate": 5.0}
        assert (await client.get("/admin/quotas")).json()["count"] == 1
        for wrong in (
            {"quotas": {"request_rate": 5}},
            {"user": "ann", "quotas": {"nothing": 5}},
            {"user": "ann", "quotas": {"request_rate": 0}},
            {"user": "ann", "ip": "::1", "quotas": {"connection_creation_rate": 1}},
        ):
            refused = await client.patch("/admin/quotas", json=wrong)
            assert refused.status_code == 400, refused.text


async def test_who_is_in_debt_is_told_when_to_come_again(serving: Serving) -> None:
    async with serving() as server, httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        app = {"X-Client-Id": "app"}
        await client.patch(
            "/admin/quotas", json={"client_id": "app", "quotas": {"producer_message_rate": 0.5}}
        )
        first = await client.post("/topics/t/messages", json=MESSAGES, headers=app)
        assert first.status_code == 200, first.text  # larger than a second's worth
        refused = await client.post("/topics/t/messages", json=MESSAGES, headers=app)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 3
        error = refused.json()["error"]
        assert (error["code"], error["details"]["quota"]) == (
            "quota_exceeded",
            "producer_message_rate",
        )
        # Others, and what is not limited, go on.
        assert (await client.post("/topics/t/messages", json=MESSAGES)).status_code == 200
        assert (await client.get("/topics/t/messages", headers=app)).status_code == 200
        assert server.broker.quotas.throttled == {"producer_message_rate": 1}


async def test_what_is_refused_is_not_charged(serving: Serving) -> None:
    async with serving() as server, httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        limits = {"producer_byte_rate": 0.001, "producer_message_rate": 0.001}
        await client.patch("/admin/quotas", json={"client_id": "<default>", "quotas": limits})
        for _ in range(3):
            wrong = await client.post("/topics/t/messages", json={"messages": []})
            assert wrong.status_code == 400
        assert (await client.post("/topics/t/messages", json=MESSAGES)).status_code == 200
        assert (await client.post("/topics/t/messages", json=MESSAGES)).status_code == 429


async def test_what_is_given_is_charged(serving: Serving) -> None:
    async with serving() as server, httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        await client.post("/topics/t/messages", json=MESSAGES)
        for name in ("bytes", "messages"):
            app = {"X-Client-Id": name}
            rate = {"consumer_byte_rate" if name == "bytes" else "consumer_message_rate": 0.01}
            await client.patch("/admin/quotas", json={"client_id": name, "quotas": rate})
            body = {"group": name, "max_messages": 1}
            first = await client.post("/queues/t/receive", json=body, headers=app)
            assert first.status_code == 200, first.text
            second = await client.post("/queues/t/receive", json=body, headers=app)
            assert second.status_code == 429, second.text


async def test_requests_are_counted(serving: Serving) -> None:
    async with serving() as server, httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        await client.patch(
            "/admin/quotas", json={"client_id": "app", "quotas": {"request_rate": 2}}
        )
        app = {"X-Client-Id": "app"}
        codes = [(await client.get("/topics", headers=app)).status_code for _ in range(5)]
        assert codes[:3] == [200, 200, 200]
        assert 429 in codes
        assert (await client.get("/readyz", headers=app)).status_code != 429


async def test_connections_of_an_address_are_limited(serving: Serving) -> None:
    async with (
        serving(connections_per_address_max=1) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        assert (await client.get("/topics")).status_code == 200
        async with httpx.AsyncClient(base_url=server.url) as second:
            try:
                answer = await second.get("/topics")
            except httpx.TransportError:
                answer = None
            assert answer is None
        assert (await client.get("/topics")).status_code == 200
