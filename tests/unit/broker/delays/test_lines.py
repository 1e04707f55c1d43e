"""Lines are opened, dropped with leadership, and go with their topic."""

import pytest

from goqueue.broker.storage.bundle import DELAYS, TIMERS
from goqueue.cluster.replication import Follower, Leader
from goqueue.model.errors import NotLeader
from goqueue.model.ids import Epoch, NodeId
from tests.unit.broker.delays.delay_world import TOPIC, Bench, delayed, line_of, play, values


def test_a_partition_has_a_delay_log_once_a_message_is_delayed():
    async def story(bench: Bench) -> None:
        disk, directory = bench.broker.environment.disk, f"/data/logs/{TOPIC}/0"
        await bench.publish(TOPIC, b"now")
        assert not disk.exists(f"{directory}/{DELAYS}")
        await bench.publish(TOPIC, delayed(b"late", 60_000))
        assert disk.exists(f"{directory}/{DELAYS}")
        assert disk.exists(f"{directory}/{TIMERS}")

    play(story)


def test_a_deleted_topic_takes_its_delays_along():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, delayed(b"late", 1000))
        await bench.broker.delete_topic(TOPIC)
        assert bench.broker.delays.lines.find(TOPIC, 0) is None
        await bench.broker.create_topic(TOPIC, partitions=1)
        await bench.publish(TOPIC, delayed(b"other", 3000))
        await bench.sleep(5)
        assert await values(bench.broker) == [b"other"]

    play(story)


def test_a_line_is_dropped_while_another_node_leads_and_goes_on_afterwards():
    async def story(bench: Bench) -> None:
        broker = bench.broker
        topic, here, there = broker.topic(TOPIC), NodeId(1), NodeId(2)
        await bench.publish(TOPIC, delayed(b"a", 1000), delayed(b"b", 60_000))
        old = line_of(broker)
        followed = Follower(there, Epoch(5))
        await broker.partitions.change_role(topic, 0, followed)
        assert broker.delays.lines.find(TOPIC, 0) is None
        with pytest.raises(NotLeader):
            old.timers.write(lambda machine: machine.index(old.messages.log.end_offset, (), ()))
        with pytest.raises(NotLeader):
            await broker.delays.admin.find(TOPIC, 0, 0)
        await bench.sleep(5)
        leads = Leader.alone(here, Epoch(6))
        await broker.partitions.change_role(topic, 0, leads)
        await bench.sleep(1)
        assert await values(broker) == [b"a"]
        assert line_of(broker).timers.ahead.pending == 1

    play(story)
