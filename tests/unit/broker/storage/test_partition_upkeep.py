"""Flushes, watermarks and retention: one log's trouble is not another's."""

import pytest

from goqueue.broker import Broker
from goqueue.broker.storage import partition_upkeep
from goqueue.broker.storage.partition_upkeep import try_upkeep
from goqueue.log.replica import Replica, ReplicaFile
from goqueue.model.errors import GoQueueError, StorageFailed, TopicNotFound
from goqueue.model.ids import Offset
from goqueue.runtime import Environment
from goqueue.testing.sim import World
from tests.unit.broker.brokers import CONFIG, publish


class LevelLog:
    """A logger that keeps the levels of its lines."""

    def __init__(self) -> None:
        self.levels: list[str] = []

    def debug(self, _event: str, **_fields: object) -> None:
        self.levels.append("debug")

    def error(self, _event: str, **_fields: object) -> None:
        self.levels.append("error")


@pytest.mark.parametrize(
    ("error", "level"), [(TopicNotFound("deleted"), "debug"), (StorageFailed("broken"), "error")]
)
async def test_a_topic_deleted_meanwhile_is_no_failure(
    error: GoQueueError, level: str, monkeypatch: pytest.MonkeyPatch
):
    async def work() -> None:
        raise error

    log = LevelLog()
    monkeypatch.setattr(partition_upkeep, "_log", log)
    is_fine = await try_upkeep("checkpoint", "orders-0", work)
    assert log.levels == [level]
    assert is_fine == (level == "debug")


def test_a_partition_with_several_replicas_keeps_its_watermark():
    """Those with one write no such file."""

    async def story(environment: Environment) -> Offset | None:
        broker = Broker(environment, CONFIG)
        broker.partitions.replica_of = lambda topic_id, index: (
            None if topic_id is None else Replica(topic_id, index)
        )
        async with broker.running():
            topic = await broker.create_topic("t")
            await publish(broker, "t", "committed")
            await environment.clock.sleep(2 * partition_upkeep.WATERMARK_SECONDS)
            directory = f"{CONFIG.data_dir}/logs/t/0"
            file = ReplicaFile(environment.disk, directory)
            assert file.load() == Replica(topic.topic_id, 0)
            assert (
                ReplicaFile(environment.disk, f"{CONFIG.data_dir}/logs/__metadata/0").load() is None
            )
            return file.load_watermark()

    with World(0) as world:
        assert world.run(story(world.environment("a"))) == 1
