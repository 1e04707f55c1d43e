"""Reading over HTTP: by offset, by time, across partitions, waiting, and what is out of reach."""

import asyncio
from typing import Any

import httpx
import pytest
import pytest_asyncio

Client = httpx.AsyncClient
PATH = "/topics/t/partitions/0/messages"
KEPT = {"retention.ms": -1}  # some messages claim to be years old


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def topic(client: Client) -> None:
    await client.post("/topics", json={"name": "t", "num_partitions": 1, "settings": KEPT})


async def publish(client: Client, *messages: Any, topic: str = "t") -> None:
    body = {"messages": [m if isinstance(m, dict) else {"value": m} for m in messages]}
    answer = await client.post(f"/topics/{topic}/messages", json=body)
    assert answer.status_code == 200, answer.text


def values(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [message["value"] for message in answer.json()["messages"]]


async def test_pages_follow_each_other_without_a_gap(client: Client):
    wanted = [f"v{number}" for number in range(250)]
    for start in range(0, 250, 60):
        await publish(client, *wanted[start : start + 60])
    found: list[str] = []
    page: dict[str, Any] = {"next_offset": 0, "at_end": False}
    while not page["at_end"]:
        answer = await client.get(f"{PATH}?offset={page['next_offset']}&limit=37")
        found += values(answer)
        page = answer.json()
    assert found == wanted
    assert page["next_offset"] == page["high_watermark"] == 250


async def test_a_page_ends_at_its_size(client: Client):
    await publish(client, *("x" * 1000 for _ in range(20)))
    answer = await client.get(f"{PATH}?max_bytes=3500")
    assert len(values(answer)) == 4
    assert answer.json()["at_end"] is False
    assert len(values(await client.get(f"{PATH}?max_bytes=1"))) == 1


async def test_reading_starts_at_the_earliest_by_default(client: Client):
    await publish(client, "a", "b", "c")
    deleted = await client.delete(f"{PATH}?before=2")
    assert deleted.json() == {"topic": "t", "partition": 0, "earliest": 2}
    assert values(await client.get(PATH)) == ["c"]
    assert values(await client.get(f"{PATH}?offset=earliest")) == ["c"]
    assert values(await client.get(f"{PATH}?offset=latest")) == []


async def test_an_offset_out_of_range_is_416_with_the_range(client: Client):
    await publish(client, "a", "b", "c")
    await client.delete(f"{PATH}?before=1")
    for offset in (0, 4, 2**63 - 1):
        answer = await client.get(f"{PATH}?offset={offset}")
        assert answer.status_code == 416
        error = answer.json()["error"]
        assert error["code"] == "offset_out_of_range"
        assert error["details"] == {"earliest": 1, "latest": 3, "next_offset": 3}
    assert (await client.delete(f"{PATH}?before=9")).status_code == 416


async def test_deleting_all_leaves_the_offsets(client: Client):
    await publish(client, "a", "b")
    assert (await client.delete(f"{PATH}?before=latest")).json()["earliest"] == 2
    await publish(client, "c")
    (message,) = (await client.get(PATH)).json()["messages"]
    assert message["offset"] == 2


@pytest.mark.parametrize(
    "query",
    [
        "offset=x",
        "offset=-1",
        "offset=99999999999999999999",
        "limit=0",
        "limit=10001",
        "limit=many",
        "max_bytes=0",
        "max_bytes=99999999999",
        "wait=soon",
        "wait=-1",
        "from_time=noon",
        "from_time=2026-01-01T00:00:00",
        "to_time=2026-99-01T00:00:00Z",
        "offset=0&from_time=0",
        "encoding=hex",
    ],
)
async def test_a_bad_query_is_the_callers_mistake(client: Client, query: str):
    answer = await client.get(f"{PATH}?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"


@pytest.mark.parametrize(
    "path",
    [
        "/topics/none/partitions/0/messages",
        "/topics/t/partitions/1/messages",
        "/topics/t/partitions/-1/messages",
        "/topics/t/partitions/99999999999/messages",
        "/topics/t/partitions/x/messages",
        "/topics/none/messages",
        "/topics/none/settings",
        "/topics/none/partitions",
        "/topics/t/partitions/7/offsets",
    ],
)
async def test_what_is_not_there_is_404(client: Client, path: str):
    answer = await client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"]


# --- time ---------------------------------------------------------------------------------------


async def test_a_range_of_times_is_read(client: Client):
    await publish(
        client, *({"value": str(n), "timestamp": 1_700_000_000_000 + n} for n in range(9))
    )
    start, end = 1_700_000_000_003, "2023-11-14T22:13:20.006Z"
    answer = await client.get(f"{PATH}?from_time={start}&to_time={end}")
    assert values(answer) == ["3", "4", "5"]
    assert answer.json()["at_end"] is True
    rest = await client.get(f"{PATH}?from_time=2023-11-15T00:13:20.006+02:00")
    assert values(rest) == ["6", "7", "8"]
    assert values(await client.get(f"{PATH}?from_time=1800000000000")) == []


async def test_offsets_are_found_by_time(client: Client):
    await publish(client, *({"value": "x", "timestamp": 1000 + n * 10} for n in (0, 5, 2)))
    where = "/topics/t/partitions/0/offsets"
    for time, offset, timestamp in (
        ("earliest", 0, None),
        ("latest", 3, None),
        ("newest", 1, "1970-01-01T00:00:01.050Z"),
        ("1001", 1, "1970-01-01T00:00:01.050Z"),
        ("9999", 3, None),
    ):
        found = (await client.get(f"{where}?time={time}")).json()
        assert (found["offset"], found["timestamp"]) == (offset, timestamp), time
        assert (found["earliest"], found["latest"], found["next_offset"]) == (0, 3, 3)


# --- waiting ------------------------------------------------------------------------------------


async def test_a_wait_ends_with_the_first_message(server, client: Client):
    partition = await server.broker.partition("t", 0)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(client.get(f"{PATH}?wait=30s"))
        await until(lambda: partition._waiters)
        await publish(client, "now")
    assert values(waiting.result()) == ["now"]


@pytest.mark.parametrize("path", [PATH, "/topics/t/messages"])
async def test_an_idle_wait_is_200_and_empty(client: Client, path: str):
    started = asyncio.get_running_loop().time()
    answer = await client.get(f"{path}?wait=100ms")
    assert values(answer) == []
    assert 0.1 <= asyncio.get_running_loop().time() - started < 5


async def test_a_wait_is_cut_at_the_servers_limit(serving):
    async with (
        serving(long_poll_ms_max=50) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        await client.post("/topics", json={"name": "t", "num_partitions": 1})
        async with asyncio.timeout(5):
            assert values(await client.get(f"{PATH}?wait=1h")) == []


@pytest.mark.parametrize("path", [PATH, "/topics/t/messages"])
async def test_a_client_that_leaves_ends_its_wait(server, path: str):
    partition = await server.broker.partition("t", 0)
    _, writer = await asyncio.open_connection(*server.address)
    writer.write(f"GET {path}?wait=60s HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    await until(lambda: partition._waiters)
    writer.close()
    await writer.wait_closed()
    await until(lambda: not partition._waiters)


async def test_a_stopping_server_answers_those_who_wait(serving):
    async with serving() as server, httpx.AsyncClient(base_url=server.url) as client:
        await client.post("/topics", json={"name": "t", "num_partitions": 1})
        partition = await server.broker.partition("t", 0)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(client.get(f"{PATH}?wait=60s"))
            await until(lambda: partition._waiters)
            async with asyncio.timeout(5):
                await server.listener.stop(3.0)
        assert values(waiting.result()) == []


async def test_a_wait_on_a_deleted_topic_ends(server, client: Client):
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(client.get(f"{PATH}?wait=60s"))
        partition = await server.broker.partition("t", 0)
        await until(lambda: partition._waiters)
        await client.delete("/topics/t")
    assert waiting.result().status_code == 404


async def until(holds: Any) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - nobody tells a test about its inside
            await asyncio.sleep(0.005)


# --- a topic as one stream ----------------------------------------------------------------------


async def test_partitions_are_merged_by_time_and_resumed(client: Client):
    await client.post("/topics", json={"name": "m", "num_partitions": 3, "settings": KEPT})
    times = [(n, (n * 7) % 3) for n in range(120)]
    for time, partition in times:
        message = {"value": str(time), "partition": partition, "timestamp": 1_000_000 + time}
        await publish(client, message, topic="m")
    found: list[str] = []
    answer = await client.get("/topics/m/messages?limit=50")
    while True:
        found += values(answer)
        page = answer.json()
        if page["at_end"]:
            break
        answer = await client.get(f"/topics/m/messages?limit=50&cursor={page['cursor']}")
    assert found == [str(time) for time, _ in times]

    await publish(client, {"value": "later", "key": "k"}, topic="m")
    answer = await client.get(f"/topics/m/messages?cursor={page['cursor']}")
    assert values(answer) == ["later"]


async def test_a_merged_range_of_times_ends(client: Client):
    await client.post("/topics", json={"name": "m", "num_partitions": 2, "settings": KEPT})
    for time in range(10):
        message = {"value": str(time), "partition": time % 2, "timestamp": 1_000_000 + time}
        await publish(client, message, topic="m")
    answer = await client.get("/topics/m/messages?from_time=1000002&to_time=1000007&limit=3")
    assert values(answer) == ["2", "3", "4"]
    cursor = answer.json()["cursor"]
    async with asyncio.timeout(5):
        answer = await client.get(f"/topics/m/messages?cursor={cursor}&wait=0")
    assert values(answer) == ["5", "6"]
    assert answer.json()["at_end"] is True
    ended = await client.get(f"/topics/m/messages?cursor={answer.json()['cursor']}&wait=60s")
    assert values(ended) == []


async def test_a_merged_wait_ends_with_the_first_message(server, client: Client):
    await client.post("/topics", json={"name": "m", "num_partitions": 3})
    last = await server.broker.partition("m", 2)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(client.get("/topics/m/messages?start=latest&wait=30s"))
        await until(lambda: last._waiters)
        await publish(client, {"value": "now", "partition": 2}, topic="m")
    assert values(waiting.result()) == ["now"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", {"0-0", "0-1", "1-0", "1-1"}),
        ("1", {"0-1", "1-1"}),
        ("-1", {"0-1", "1-1"}),
        ("-9", {"0-0", "0-1", "1-0", "1-1"}),
        ("latest", set()),
    ],
)
async def test_a_topic_is_read_from_a_position(client: Client, start: str, expected: set[str]):
    await client.post("/topics", json={"name": "m", "num_partitions": 2})
    messages = [{"value": f"{p}-{n}", "partition": p} for p in (0, 1) for n in (0, 1)]
    await publish(client, *messages, topic="m")
    assert set(values(await client.get(f"/topics/m/messages?start={start}"))) == expected


@pytest.mark.parametrize(("start", "status"), [("soon", 400), ("-", 400), ("3", 416)])
async def test_a_bad_start_is_refused(client: Client, start: str, status: int):
    await publish(client, "a")
    assert (await client.get(f"/topics/t/messages?start={start}")).status_code == status


async def test_a_cursor_steps_over_what_was_deleted_and_says_so(client: Client):
    await publish(client, "a", "b", "c")
    cursor = (await client.get("/topics/t/messages?limit=1")).json()["cursor"]
    await client.delete(f"{PATH}?before=2")
    answer = await client.get(f"/topics/t/messages?cursor={cursor}")
    assert values(answer) == ["c"]
    assert "offset 1" in answer.json()["problems"][0]


async def test_a_cursor_that_is_none_is_refused(client: Client):
    await publish(client, "a")
    good = (await client.get("/topics/t/messages")).json()["cursor"]
    await client.delete("/topics/t")
    await client.post("/topics", json={"name": "t", "num_partitions": 1})
    for cursor in ("x", "%00", "AAAA", good[:-3], good):
        answer = await client.get(f"/topics/t/messages?cursor={cursor}")
        assert answer.status_code == 400
        assert "cursor" in answer.json()["error"]["message"]
