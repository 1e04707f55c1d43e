"""Records that are not what their schema says become dead letters, once; the rest is kept."""

from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker import Broker, Partition
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.config import Config
from goqueue.model.errors import OutOfOrderSequence
from goqueue.model.ids import Offset, TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.schemas import SchemaText, SchemaType
from goqueue.schemas.errors import SchemaViolation
from goqueue.testing.sim.world import World
from goqueue.txn.errors import InvalidTransactionState

NAMED = SchemaText('{"properties":{"name":{"type":"string"}},"type":"object"}', SchemaType.JSON)
SETTINGS = {"goqueue.schema.validation": "full", "goqueue.schema.invalid": "dead_letter"}
GOOD, BAD = b'{"name":"a"}', b'{"name":5}'


def encode(*values: bytes, producer: tuple[int, int, int] = (-1, -1, -1), **more: int) -> bytearray:
    records = [Record(0, 5, None, value, (("own", b"x"),)) for value in values]
    return batches.encode(records, producer=producer, **more)


async def produce(broker: Broker, data: bytearray, transactional_id: str | None = None) -> Offset:
    partition = await broker.partition("t", 0)
    left_out = await broker.check_schemas(partition, data, transactional_id=transactional_id)
    appended = broker.append(partition, data, is_checked=True, left_out=left_out)
    await partition.wait_committed(appended.last_offset)
    return appended.first_offset


async def read(broker: Broker, topic: str) -> list[Record]:
    partition: Partition = await broker.partition(topic, 0)
    log = partition.log
    found: list[Record] = []
    offset = log.start_offset
    while offset < log.stable_offset:
        chunk = await partition.read(offset, 10**6, log.stable_offset)
        found += batches.decode_all(chunk.data)
        offset = chunk.next_offset
    return found


def play(story: Callable[[Broker], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            await broker.create_topic("t", partitions=1, settings=SETTINGS)
            await broker.schemas.register("t-value", NAMED)
            await story(broker)

    with World(seed=1) as world:
        world.run(main(world))


def test_records_at_fault_say_why_and_the_rest_keeps_its_offsets():
    async def story(broker: Broker) -> None:
        await produce(broker, encode(GOOD, BAD, GOOD, b"no JSON"))
        assert [(each.offset, each.value) for each in await read(broker, "t")] == [
            (0, GOOD),
            (2, GOOD),
        ]
        first, second = await read(broker, "t.dlq")
        assert (first.value, second.value) == (BAD, b"no JSON")
        headers = dict(first.headers)
        assert headers["own"] == b"x"
        assert headers["gq-dlq-topic"] == b"t"
        assert headers["gq-dlq-partition"] == b"0"
        assert headers["gq-dlq-reason"] == b"schema_violation"
        assert headers["gq-dlq-path"] == b"/name"
        assert headers["gq-dlq-schema-id"] == b"1"
        assert b"5 is not of type" in (headers["gq-dlq-error"] or b"")
        assert broker.schema_dead_letters.written == {"t": 2}
        (shown, _) = await broker.queues.dead_letters.browse("t")
        assert shown.history is not None
        assert shown.history.reason == "schema_violation"

    play(story)


def test_a_batch_that_is_sent_again_is_written_once_at_both_places():
    async def story(broker: Broker) -> None:
        batch = encode(GOOD, BAD, producer=(7, 0, 0))
        partition = await broker.partition("t", 0)
        assert await broker.check_schemas(partition, batch)  # and then the node dies
        again = [await produce(broker, bytearray(batch)) for _ in range(2)]
        assert again == [0, 0]
        assert await produce(broker, encode(BAD, BAD, producer=(7, 0, 2))) == 2
        assert await produce(broker, encode(GOOD, producer=(7, 0, 4))) == 4
        assert [each.offset for each in await read(broker, "t")] == [0, 4]
        assert len(await read(broker, "t.dlq")) == 3
        with pytest.raises(OutOfOrderSequence):
            await produce(broker, encode(BAD, producer=(7, 0, 9)))
        assert len(await read(broker, "t.dlq")) == 3

    play(story)


@pytest.mark.parametrize("commits", [True, False])
def test_dead_letters_of_a_transaction_are_part_of_it(commits: bool):
    async def story(broker: Broker) -> None:
        who = await broker.transactions.init("tx", timeout_ms=60_000)
        batch = encode(
            GOOD, BAD, producer=(who.producer_id, who.epoch, 0), attributes=TRANSACTIONAL
        )
        with pytest.raises(InvalidTransactionState):
            await produce(broker, bytearray(batch))
        await broker.transactions.add_partitions("tx", who, [TopicPartition(TopicName("t"), 0)])
        partition = await broker.partition("t", 0)
        assert await broker.check_schemas(partition, bytearray(batch), transactional_id="tx")
        for _ in range(2):
            await produce(broker, bytearray(batch), "tx")
        assert await read(broker, "t.dlq") == []
        assert (await broker.partition("t.dlq", 0)).log.end_offset == 1
        await broker.transactions.end("tx", who, commits=commits, bumps_epoch=True)
        found = await read(broker, "t.dlq")
        assert [each.value for each in found][:1] == [BAD]
        stopped = (await broker.partition("t.dlq", 0)).log.aborted.between(Offset(0), Offset(9))
        assert bool(stopped) is not commits

    play(story)


def test_a_redrive_of_what_is_still_invalid_is_refused():
    async def story(broker: Broker) -> None:
        await produce(broker, encode(BAD))
        with pytest.raises(SchemaViolation):
            await broker.queues.dead_letters.redrive("t")
        assert await broker.queues.dead_letters.count("t") == 1

    play(story)
