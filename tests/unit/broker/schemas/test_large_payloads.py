"""Large and hostile payloads hold nobody else up: bounded, or validated beside the event loop."""

import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.broker import Broker
from goqueue.broker.schemas.checks import SLICE_BYTES, SchemaChecks
from goqueue.model.config import Config
from goqueue.model.record import Record
from goqueue.schemas import Problem, SchemaText, SchemaType
from goqueue.schemas.limits import PAYLOAD_BYTES_MAX
from goqueue.testing.sim.world import World

LIST = SchemaText('{"type":"array","items":{"type":"integer"}}', SchemaType.JSON)
LONGS = SchemaText('{"type":"array","items":"long"}')
NULLS = SchemaText('{"type":"array","items":"null"}')
MANY = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2**63 - 1, as Avro counts the items of a block


def play(story: Callable[[Broker], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            await broker.create_topic("t", settings={"goqueue.schema.validation": "full"})
            await story(broker)

    with World(seed=1) as world:
        world.run(main(world))


async def find(broker: Broker, value: bytes) -> str | None:
    settings = broker.topic("t").settings
    problem = await broker.schema_checks.find_problem("t", settings, Record(0, 0, None, value))
    return None if problem is None else problem.rule


def test_a_payload_has_a_bound():
    async def story(broker: Broker) -> None:
        await broker.schemas.register("t-value", LIST)
        assert await find(broker, b"[1]" + b" " * 100_000) is None
        text = await find(broker, b"[1]" + b" " * PAYLOAD_BYTES_MAX)
        assert text is not None
        assert f"{PAYLOAD_BYTES_MAX} allowed" in text

    play(story)


@pytest.mark.parametrize(
    ("size", "weight", "is_beside"),
    [(100, 1, False), (SLICE_BYTES, 1, False), (SLICE_BYTES + 1, 1, True), (SLICE_BYTES, 8, True)],
)
def test_what_takes_long_is_validated_beside_the_event_loop(
    size: int, weight: int, is_beside: bool
):
    background: list[Any] = []

    class FakeDisk:
        async def in_background(self, work: Callable[[], Any]) -> Any:
            background.append(threading.current_thread())
            return work()

    class FakeValidator:
        def __init__(self) -> None:
            self.weight = weight

        def check(self, payload: memoryview) -> Problem | None:
            return None

    async def story(world: World) -> None:
        clock: Any = world.environment("a").clock
        disk: Any = FakeDisk()
        directory: Any = None
        checks = SchemaChecks(clock, disk, directory)
        assert await checks.validate(FakeValidator(), memoryview(bytes(size))) is None

    with World(seed=1) as world:
        world.run(story(world))
    assert bool(background) is is_beside


def test_values_without_bytes_are_bounded_by_the_payload():
    async def story(broker: Broker) -> None:
        await broker.schemas.register("t-value", NULLS)
        text = await find(broker, MANY + b"\0")
        assert text is not None
        assert "more than 20220 values in 11 bytes" in text
        assert await find(broker, b"\xd0\x0f\0") is None  # a thousand

    play(story)


def test_a_large_payload_of_the_walk_is_still_judged():
    async def story(broker: Broker) -> None:
        await broker.schemas.register("t-value", LONGS)
        count = 60_000
        head = bytes([count << 1 & 0x7F | 0x80, count << 1 >> 7 & 0x7F | 0x80, count << 1 >> 14])
        assert await find(broker, head + b"\x02" * count + b"\0") is None
        text = await find(broker, head + b"\x02" * count + b"\0\0")
        assert text is not None
        assert "1 bytes are left over" in text

    play(story)


def test_a_deep_document_is_refused_whatever_reads_it():
    async def story(broker: Broker) -> None:
        await broker.schemas.register("t-value", SchemaText("{}", SchemaType.JSON))
        assert await find(broker, json.dumps([[[1]]]).encode()) is None
        for depth in (101, 100_000):
            assert await find(broker, b"[" * depth + b"]" * depth) is not None

    play(story)
