"""What Prometheus sees of queues, and that it does not see too much."""

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.publish import Messages
from goqueue.model.ids import GroupId, TopicName
from goqueue.queue import GroupStats, Totals
from goqueue.server.queue_metrics import GROUPS_SHOWN_MAX, TOPICS_SHOWN_MAX, QueueCollector
from tests import queue_verbs
from tests.unit.server.http.conftest import Server, Serving


@pytest_asyncio.fixture(loop_scope="session")
async def server(serving: Serving) -> AsyncIterator[Server]:
    """The test's own: groups stay when their topics go, and so do their numbers."""
    async with serving() as own:
        yield own


async def test_queues_are_counted_by_group_and_topic(server: Server, client: httpx.AsyncClient):
    broker = server.broker
    for topic in ("orders", "mails"):
        await broker.create_topic(topic, partitions=2)
        await Messages(broker).publish(topic, [OutgoingMessage(b"a"), OutgoingMessage(b"b")])
        held = await queue_verbs.receive(broker.queues, [topic], "team", "ann")
        await queue_verbs.ack(broker.queues, [held[0].receipt])
        await queue_verbs.reject(broker.queues, [held[1].receipt], reason="bad")
    while await broker.queues.dead_letters.count("orders") < 1:
        await broker.environment.clock.sleep(0.01)
    text = (await client.get("/metrics")).text
    for topic in ("orders", "mails"):
        labels = f'group="team",topic="{topic}"'
        assert f"goqueue_messages_acked_total{{{labels}}} 1.0" in text
        assert f"goqueue_messages_rejected_total{{{labels}}} 1.0" in text
        dead = f'group="team",reason="rejected",topic="{topic}"'
        assert f"goqueue_messages_dead_lettered_total{{{dead}}} 1.0" in text
        lane = f'group="team",priority="normal",topic="{topic}"'
        assert f"goqueue_queue_ready{{{lane}}} 0.0" in text
        assert f"goqueue_messages_delivered_total{{{lane}}} 2.0" in text
    assert 'goqueue_dead_letters{topic="orders"} 1.0' in text


async def test_the_number_of_series_has_a_bound(server: Server):
    collector = QueueCollector(server.broker)
    topics = {TopicName(f"t{number}"): Totals() for number in range(9)}
    collector.stats = [
        GroupStats(GroupId(f"group-{n}"), n % 2, {}, Totals(), (), topics)
        for n in range(GROUPS_SHOWN_MAX * 3)
    ]
    families = {family.name: family for family in collector.collect()}
    assert families["goqueue_queue_groups_left_out"].samples[0].value == GROUPS_SHOWN_MAX * 2
    acked = families["goqueue_messages_acked"].samples
    assert len(acked) == TOPICS_SHOWN_MAX
    assert len({sample.labels["group"] for sample in acked}) <= GROUPS_SHOWN_MAX
