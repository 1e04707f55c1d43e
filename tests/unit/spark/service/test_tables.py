"""Topics that are kept as tables."""

from pathlib import Path

from goqueue.api.topics import TopicSummary
from goqueue.client.errors import ServerUnreachable
from goqueue.spark.pipelines.model import ArchiveSink, TopicSource
from goqueue.spark.service.tables import LOOK_SECONDS, TableOptions, TopicTables


def summary(name: str, *, internal: bool = False, **settings: str) -> TopicSummary:
    chosen = {f"goqueue.table.{key}": value for key, value in settings.items()}
    return TopicSummary(name, "id", 1, None, internal, chosen, None, None)


class World:
    def __init__(self, *topics: TopicSummary) -> None:
        self.topics = list(topics)
        self.now = 0.0
        self.is_away = False
        options = TableOptions("s3://bucket/lake", catalog="prod.raw", every="30s")
        self.tables = TopicTables(self._list, options, Path("pipelines"), lambda: self.now)

    def _list(self) -> list[TopicSummary]:
        if self.is_away:
            raise ServerUnreachable("away")
        return self.topics

    def names(self, seconds: float = LOOK_SECONDS) -> list[str]:
        self.now += seconds
        return [each.name for each in self.tables.look()]


def test_a_topic_that_asks_for_it_is_a_pipeline_of_one_archive():
    world = World(summary("orders", format="iceberg", decode="registry"), summary("plain"))
    (declared,) = world.tables.look()
    assert declared.name == "table.orders"
    pipeline = declared.pipeline
    assert pipeline is not None
    assert pipeline.trigger == "30s"
    assert pipeline.sources == {"messages": TopicSource(topic="orders", format="registry")}
    assert pipeline.sinks == {
        "table": ArchiveSink(
            "s3://bucket/lake", "messages", format="iceberg", catalog="prod.raw", decode=True
        )
    }


def test_the_catalog_is_for_iceberg_only():
    (declared,) = World(summary("orders", format="delta")).tables.look()
    assert declared.pipeline is not None
    assert declared.pipeline.sinks == {
        "table": ArchiveSink("s3://bucket/lake", "messages", format="delta")
    }


def test_settings_that_change_are_another_version_and_none_is_the_end():
    world = World(summary("orders", format="delta"))
    (before,) = world.tables.look()
    world.topics = [summary("orders", format="delta", decode="json")]
    world.now += LOOK_SECONDS
    (after,) = world.tables.look()
    assert before.version != after.version
    world.topics = [summary("orders", format="none")]
    assert world.names() == []


def test_the_broker_is_asked_now_and_then_and_its_own_topics_are_left_alone():
    world = World(summary("orders", format="delta"), summary("__x", internal=True, format="delta"))
    assert world.names() == ["table.orders"]
    world.topics = []
    assert world.names(LOOK_SECONDS / 2) == ["table.orders"]
    assert world.names() == []


def test_a_broker_that_is_away_stops_no_archive():
    world = World(summary("orders", format="delta"))
    assert world.names() == ["table.orders"]
    world.is_away = True
    assert world.names() == ["table.orders"]
