"""Numbers of groups for Prometheus."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from goqueue.server import group_lag, group_metrics
from tests.unit.server.http.conftest import Serving
from tests.unit.server.http.test_metrics import scrape

Client = httpx.AsyncClient


@pytest_asyncio.fixture(loop_scope="session")
async def client(serving: Serving) -> AsyncIterator[Client]:
    """Of a server of the test's own: the numbers are about all groups there are."""
    async with serving() as server, Client(base_url=server.url) as connected:
        yield connected


async def prepared(client: Client) -> dict:
    await client.post("/topics", json={"name": "t", "num_partitions": 2})
    messages = [{"value": str(number), "partition": 0} for number in range(5)]
    await client.post("/topics/t/messages", json={"messages": messages})
    joined = await client.post("/groups/readers/join", json={"topics": ["t"]})
    found: dict = joined.json()
    return found


async def test_a_group_s_life_is_in_the_numbers(client: Client):
    member = await prepared(client)
    said = {"member_id": member["member_id"], "generation": member["generation"]}
    await client.post("/groups/readers/offsets", json={**said, "offsets": {"t": {"0": 2}}})
    seen = await scrape(client)
    assert seen['goqueue_groups{state="Stable"}'] == 1
    assert seen['goqueue_group_members{group="readers"}'] == 1
    assert seen['goqueue_group_generation{group="readers"}'] == 1
    assert seen['goqueue_consumer_lag{group="readers",partition="0",topic="t"}'] == 3
    assert seen['goqueue_rebalances_total{group="readers",reason="member joined"}'] == 1
    assert seen["goqueue_rebalance_latency_seconds_count"] == 1
    assert seen["goqueue_partitions_assigned_total"] == 2
    assert seen["goqueue_offset_commits_total"] == 1
    await client.post("/groups/readers/leave", json={"member_id": member["member_id"]})
    seen = await scrape(client)
    assert seen['goqueue_groups{state="Empty"}'] == 1
    assert seen['goqueue_group_members{group="readers"}'] == 0
    assert seen["goqueue_partitions_revoked_total"] == 2
    assert seen["goqueue_session_timeouts_total"] == 0


async def test_many_groups_have_few_series(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_metrics, "GROUPS_SHOWN_MAX", 2)
    monkeypatch.setattr(group_lag, "LAG_SERIES_MAX", 3)
    await prepared(client)
    for number in range(5):
        offsets = {"t": {"0": number, "1": 0}}
        await client.post(f"/groups/a-{number}/offsets", json={"offsets": offsets})
    seen = await scrape(client)
    shown = [name for name in seen if name.startswith("goqueue_group_members")]
    assert shown == [
        'goqueue_group_members{group="readers"}',  # the one with a member comes first
        'goqueue_group_members{group="a-0"}',
    ]
    assert seen["goqueue_groups_left_out"] == 4
    assert seen['goqueue_groups{state="Empty"}'] == 5
    assert len([name for name in seen if name.startswith("goqueue_consumer_lag")]) <= 3
