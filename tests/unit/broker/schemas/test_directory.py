"""Schemas by id and by subject: asked once, and again when there may be news."""

from goqueue.broker import Broker
from goqueue.broker.schemas import directory
from goqueue.model.config import Config
from goqueue.schemas import Level, SchemaText
from goqueue.testing.sim.world import World

A, B = SchemaText('"string"'), SchemaText('"int"')


def test_a_schema_is_parsed_once_and_its_subjects_are_asked_again():
    async def story(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            found = broker.schema_directory
            assert await found.find(1) is None
            assert await found.find_latest("a") is None
            await broker.schemas.register("a", A)
            known = await found.find(1)
            assert known is not None
            assert known.subjects == {"a"}
            await broker.schemas.register("b", A)
            assert await found.find(1) is known
            assert known.subjects == {"a"}
            assert await found.find(1, "b") is known
            assert sorted(known.subjects) == ["a", "b"]
            await broker.schemas.set_level("a", Level.NONE)
            await broker.schemas.register("a", B)
            latest = await found.find_latest("a")
            assert latest is not None
            assert latest.schema_id == 2
            assert found.cached == 2

    with World(seed=1) as world:
        world.run(story(world))


def test_the_number_of_compiled_schemas_is_bounded(monkeypatch):
    monkeypatch.setattr(directory, "SCHEMAS_MAX", 2)

    async def story(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            for number, text in enumerate(('"int"', '"string"', '"long"'), 1):
                await broker.schemas.register(f"s{number}", SchemaText(text))
                assert await broker.schema_directory.find(number) is not None
            assert broker.schema_directory.cached == 2
            assert broker.schema_directory.peek(1) is None

    with World(seed=2) as world:
        world.run(story(world))
