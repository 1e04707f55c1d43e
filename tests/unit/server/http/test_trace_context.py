"""The trace of an HTTP request goes on in the messages that it publishes."""

import httpx

Client = httpx.AsyncClient
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def headers_of(client: Client, offset: int) -> dict:
    page = await client.get(f"/topics/traced/partitions/0/messages?offset={offset}&limit=1")
    found = page.json()["messages"][0].get("headers", [])
    return {each["name"]: each["value"] for each in found}


async def test_messages_belong_to_the_trace_of_the_request(client: Client):
    await client.post("/topics", json={"name": "traced", "num_partitions": 1})
    messages = [{"value": "x"}, {"value": "y", "headers": {"traceparent": OTHER}}]
    path, context = "/topics/traced/messages", {"traceparent": PARENT}
    await client.post(path, json={"messages": messages}, headers=context)
    assert (await headers_of(client, 0)) == {"traceparent": PARENT}
    assert (await headers_of(client, 1)) == {"traceparent": OTHER}
    raw = {"content-type": "text/plain", "x-gq-header-a": "b"}
    await client.post(path, content=b"z", headers={**context, **raw})
    assert (await headers_of(client, 2)) == {"a": "b", "traceparent": PARENT}


async def test_what_is_no_trace_context_is_left_alone(client: Client):
    await client.post("/topics", json={"name": "traced", "num_partitions": 1})
    body = {"messages": [{"value": "x"}]}
    for wrong in ("", "nonsense", PARENT.upper()):
        await client.post("/topics/traced/messages", json=body, headers={"traceparent": wrong})
    for offset in range(3):
        assert not (await headers_of(client, offset))
