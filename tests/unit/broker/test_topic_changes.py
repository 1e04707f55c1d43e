"""What follows from a change of the metadata; on several nodes: `cluster/test_roles`."""

import structlog

from goqueue.broker import Broker
from tests.unit.broker.brokers import play, publish


def test_partitions_that_are_open_take_over_new_settings():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        partition = await broker.partition("t", 0)
        await broker.change_settings("t", {"retention.ms": "1234"})
        assert partition.log.settings.retention_ms == 1234

    play(story)


def test_the_files_of_a_deleted_topic_are_removed_and_the_metadata_forgets_it():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        await publish(broker, "t", "one")
        disk = broker.environment.disk
        assert disk.exists("/data/logs/t")
        await broker.delete_topic("t")
        await broker.environment.clock.sleep(1)
        assert not disk.exists("/data/logs/t")
        assert not broker.metadata.deleted

    play(story)


def test_topics_come_and_go_while_another_node_coordinates_groups():
    async def story(broker: Broker) -> None:
        broker.groups.resign()
        with structlog.testing.capture_logs() as lines:
            await broker.create_topic("t")
            await broker.delete_topic("t")
        assert [line["event"] for line in lines] == ["topic created", "topic deleted"]

    play(story)
