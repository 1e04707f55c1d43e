"""Which partition a run goes to, and what its message says."""

import pytest

from goqueue.broker import Broker
from goqueue.broker.schedules.work import Work, choose_partition, find_work, place_of
from goqueue.model.errors import PartitionNotFound
from goqueue.model.ids import Timestamp
from goqueue.model.partitioner import murmur2_partition
from goqueue.schedules import Message, Timing
from tests.unit.broker.brokers import play
from tests.unit.broker.schedules.scheduling import TOPIC, definition


def test_a_partition_is_named_or_the_keys_or_in_turn():
    async def story(broker: Broker) -> None:
        topic = await broker.create_topic(TOPIC, partitions=3)
        assert choose_partition(Message(b"", partition=2), topic, 1) == 2
        assert choose_partition(Message(b"", b"k"), topic, 9) == murmur2_partition(b"k", 3)
        assert [choose_partition(Message(b""), topic, number) for number in (1, 2, 3, 4)] == [
            *(0, 1, 2, 0)
        ]
        with pytest.raises(PartitionNotFound):
            choose_partition(Message(b"", partition=3), topic, 1)

    play(story)


def test_a_key_with_placeholders_chooses_by_what_it_says_then():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC, partitions=3)
        message = Message(b"{{run}}", b"{{scheduled_at_ms}}")
        timing = Timing("0 0 1 1 *")
        created = await broker.schedules.create(definition(message=message, timing=timing))
        assert created.next_at is not None
        now, term = Timestamp(created.next_at + 5), broker.schedules.publisher.term
        work = find_work(broker, term, created, now)
        assert isinstance(work, Work)
        assert work.message.key == str(created.next_at).encode()
        assert work.partition == murmur2_partition(str(created.next_at).encode(), 3)
        assert place_of(broker, term, created, now) == work.place
        record = work.record(now)
        assert record.value == b"1"
        assert dict(record.headers)["gq-schedule"] == b"s"
        assert dict(record.headers)["gq-schedule-run"] == b"1"
        assert find_work(broker, term, created, Timestamp(created.next_at - 1)) is None

    play(story)
