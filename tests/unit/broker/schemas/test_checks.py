"""What is checked of a record, and what its producer is told."""

import pytest

from goqueue.broker import Broker
from goqueue.broker.storage.partition import Partition
from goqueue.model import batch as batches
from goqueue.model.config import Config
from goqueue.model.errors import CorruptBatch, InvalidRecord
from goqueue.model.record import Record
from goqueue.schemas import Level, SchemaText, SchemaType
from goqueue.schemas.errors import SchemaViolation
from goqueue.testing.sim.world import World

NAMED = SchemaText('{"properties":{"name":{"type":"string"}},"type":"object"}', SchemaType.JSON)
MESSAGE = SchemaText('syntax = "proto3"; message M { string s = 1; }', SchemaType.PROTOBUF)


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4) + payload


def record(value: bytes | None, *headers: tuple[str, bytes]) -> Record:
    return Record(0, 0, None, value, headers)


GOOD = framed(1, b'{"name":"a"}')


async def produce(broker: Broker, partition: Partition, data: bytearray) -> None:
    await broker.check_schemas(partition, data)
    broker.append(partition, data, is_checked=True)


def test_a_batch_is_refused_with_the_indexes_the_reason_and_the_path():
    async def story(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            await broker.create_topic("t", settings={"goqueue.schema.validation": "full"})
            await broker.schemas.register("t-value", NAMED)
            partition = await broker.partition("t", 0)
            good, bad = framed(1, b'{"name":"a"}'), framed(1, b'{"name":5}')
            fine = batches.encode([record(good), record(None), record(b"{}")])
            with pytest.raises(InvalidRecord, match="nobody did"):
                broker.append(partition, fine)
            await broker.check_schemas(partition, fine)
            broker.append(partition, fine, is_checked=True)
            wrong = batches.encode([record(good), record(bad), record(b"[]"), record(good)])
            with pytest.raises(SchemaViolation, match="at /name: 5 is not of type") as caught:
                await broker.check_schemas(partition, wrong)
            assert caught.value.indexes == [1, 2]
            assert caught.value.path == "/name"
            assert broker.schema_checks.counts.valid == {"t": 5}
            assert broker.schema_checks.counts.invalid == {"t": 2}

    with World(seed=1) as world:
        world.run(story(world))


def test_a_damaged_batch_is_told_from_an_invalid_one():
    async def story(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            for mode in ("id", "full"):
                await broker.create_topic(mode, settings={"goqueue.schema.validation": mode})
                await broker.schemas.register(f"{mode}-value", NAMED)
                partition = await broker.partition(mode, 0)
                for place in range(batches.HEADER_BYTES, len(batches.encode([record(GOOD)]))):
                    damaged = batches.encode([record(GOOD)])
                    damaged[place] ^= 0x55
                    with pytest.raises(CorruptBatch):
                        await produce(broker, partition, damaged)
            assert broker.schema_dead_letters.written == {}

    with World(seed=1) as world:
        world.run(story(world))


def test_what_a_value_names_is_looked_up_once():
    async def story(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            await broker.create_topic("t", settings={"goqueue.schema.validation": "full"})
            settings = broker.topic("t").settings
            await broker.schemas.register("t-value", MESSAGE)

            async def find(value: bytes, *headers: tuple[str, bytes]) -> str | None:
                checks = broker.schema_checks
                problem = await checks.find_problem("t", settings, record(value, *headers))
                return None if problem is None else problem.rule

            assert await find(framed(1, b"\x00\x0a\x01x")) is None
            assert await find(b"\x0a\x01x", ("schema-id", b"1")) is None
            assert await find(b"\x0a\x01x") is None
            assert broker.schema_directory.cached == 1
            assert await find(framed(9, b"")) == "no schema has the id 9"
            assert await find(b"", ("schema-id", b"x")) == "the header schema-id is no number"
            await broker.schemas.register("other", NAMED)
            assert await find(framed(2, b"{}")) == "schema 2 is not registered under 't-value'"

    with World(seed=2) as world:
        world.run(story(world))


def test_records_of_several_schemas_in_one_batch_are_each_checked_with_their_own():
    async def story(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            await broker.create_topic("t", settings={"goqueue.schema.validation": "full"})
            await broker.schemas.set_level("t-value", Level.NONE)
            await broker.schemas.register("t-value", NAMED)
            await broker.schemas.register("t-value", MESSAGE)
            await broker.schemas.register("other", SchemaText('"int"'))
            partition = await broker.partition("t", 0)
            good, message = framed(1, b'{"name":"a"}'), framed(2, b"\x00\x0a\x01x")
            fine = [good, good, message, message, good]
            await broker.check_schemas(partition, batches.encode([record(each) for each in fine]))
            wrong = [good, good, framed(1, b"[]"), message, framed(2, b"\x00\x0a\x05x")]
            wrong += [framed(3, b"\x02"), framed(3, b"\x02"), b"\x00\x00", good]
            data = batches.encode([record(each) for each in wrong])
            with pytest.raises(SchemaViolation) as caught:
                await broker.check_schemas(partition, data)
            assert caught.value.indexes == [2, 4, 5, 6, 7]

    with World(seed=3) as world:
        world.run(story(world))
