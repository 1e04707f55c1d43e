"""The topic of dead letters is made when it is needed, as large as its source."""

from goqueue.broker import Broker
from goqueue.broker.dlq.topic import HISTORY_BYTES_MAX, RETENTION_MS, ensure_dead_letter_topic
from goqueue.model.config import Config
from goqueue.testing.sim.world import World


def test_it_has_the_partitions_of_its_source_also_later():
    async def story(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            source = await broker.create_topic(
                "t", partitions=2, settings={"max.message.bytes": "1000"}
            )
            made = await ensure_dead_letter_topic(broker, "t.dlq", source, 1)
            assert made.partitions == 2
            assert made.settings.retention_ms == RETENTION_MS
            assert made.settings.max_message_bytes == 1000 + HISTORY_BYTES_MAX
            assert await ensure_dead_letter_topic(broker, "t.dlq", source, 0) == made
            await broker.add_partitions("t", 4)
            wider = await ensure_dead_letter_topic(broker, "t.dlq", broker.topic("t"), 3)
            assert wider.partitions == 4

    with World(seed=1) as world:
        world.run(story(world))
