"""The registry in a broker: what is registered outlives a crash, and decisions do not race."""

import asyncio
from typing import Any

import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config
from goqueue.model.errors import NotCoordinator
from goqueue.runtime import Environment
from goqueue.schemas import Level, Reference, SchemaText, SubjectVersion
from goqueue.schemas.errors import IncompatibleSchema, SchemaNotFound
from goqueue.testing.sim.world import World

A = SchemaText('{"type":"record","name":"R","fields":[]}')
SPACED = SchemaText('{ "name": "R", "type": "record", "fields": [] }')


def with_fields(*names: str) -> SchemaText:
    fields = ",".join(f'{{"name":"{name}","type":"int","default":0}}' for name in names)
    return SchemaText(f'{{"type":"record","name":"R","fields":[{fields}]}}')


def broker_of(environment: Environment) -> Any:
    return Broker(environment, Config(data_dir="/data")).running()


def test_what_is_registered_outlives_a_crash():
    world = World(1)

    async def before() -> None:
        async with broker_of(world.environment("a")) as broker:
            await broker.schemas.register("a", A)
            await broker.schemas.set_level("a", Level.FULL)

    async def after() -> None:
        async with broker_of(world.environment("a")) as broker:
            found: SubjectVersion = await broker.schemas.find("a", A)
            assert (found.version, found.stored.schema_id) == (1, 1)
            assert await broker.schemas.look(lambda machine: machine.level("a")) is Level.FULL

    with world:
        world.run(before())
        world.power_loss("a")
        world.run(after())


def test_registrations_at_once_are_versions_in_a_row():
    world = World(2)

    async def register() -> None:
        async with broker_of(world.environment("a")) as broker:
            names = "abcdef"
            found = await asyncio.gather(
                *(broker.schemas.register("a", with_fields(name)) for name in names),
                *(broker.schemas.register("a", with_fields(name)) for name in names),
            )
            assert sorted({each.version for each in found}) == [1, 2, 3, 4, 5, 6]
            assert [each.version for each in found[:6]] == [each.version for each in found[6:]]

    with world:
        world.run(register())


def test_a_schema_is_compared_and_found():
    world = World(3)

    async def work() -> None:
        async with broker_of(world.environment("a")) as broker:
            schemas = broker.schemas
            await schemas.register("a", A)
            required = SchemaText(with_fields("x").text.replace(',"default":0', ""))
            with pytest.raises(IncompatibleSchema) as caught:
                await schemas.register("a", required)
            assert caught.value.problems[0].startswith("READER_FIELD_MISSING_DEFAULT_VALUE")
            with pytest.raises(SchemaNotFound):
                await schemas.find("a", SPACED)
            assert (await schemas.find("a", SPACED, normalize=True)).version == 1
            assert (await schemas.register("a", SPACED, normalize=True)).version == 1
            using = SchemaText(
                '{"type":"array","items":"R"}', references=(Reference("R", "a", -1),)
            )
            found = await schemas.register("b", using)
            assert found.stored.schema.references == (Reference("R", "a", 1),)
            schemas.resign()
            with pytest.raises(NotCoordinator):
                await schemas.register("a", A)

    with world:
        world.run(work())
