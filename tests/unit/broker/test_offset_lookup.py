"""Offsets by time and position."""

from goqueue.broker import Broker
from goqueue.model import batch as batches
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record
from tests.unit.broker.brokers import play


def test_offsets_are_found_by_time_and_the_newest_is_the_one_with_the_latest_time():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        partition = await broker.partition("t", 0)
        for at in (1_000, 3_000, 2_000):
            data = batches.encode([Record(0, at, None, b"x")])
            broker.append(partition, data)
        found = await broker.offset_for_time(partition, Timestamp(1_500), committed_only=True)
        newest = await broker.newest_record(partition, committed_only=True)
        assert found is not None
        assert newest is not None
        assert (found.offset, newest.offset) == (1, 1)
        assert (
            await broker.offset_for_time(partition, Timestamp(9_000), committed_only=True) is None
        )
        assert (await broker.latest_offset(partition, committed_only=True)).offset == 3

    play(story)
