"""Pages of a partition: how much they hold, and where they end."""

import pytest

from goqueue.broker import Broker, Partition
from goqueue.broker.messages.read import count_read, read, read_page
from goqueue.model.errors import OffsetOutOfRange, TopicNotFound
from goqueue.model.ids import Offset
from tests.unit.broker.brokers import play, publish


async def numbers(broker: Broker) -> Partition:
    await broker.create_topic("t", partitions=1)
    for first in range(0, 9, 3):
        await publish(broker, "t", *(str(first + each) for each in range(3)))
    return await broker.partition("t", 0)


def test_a_page_holds_no_more_than_was_asked_for_and_says_where_to_go_on():
    async def story(broker: Broker) -> None:
        partition = await numbers(broker)
        page = await read_page(partition, Offset(2), limit=4, bytes_max=1 << 20)
        assert [each.offset for each in page.records] == [2, 3, 4, 5]
        assert (page.next_offset, page.at_end) == (6, False)
        page = await read_page(partition, page.next_offset, limit=4, bytes_max=1 << 20)
        assert [each.offset for each in page.records] == [6, 7, 8]
        assert (page.next_offset, page.at_end) == (9, True)

    play(story)


def test_a_page_ends_before_the_end_that_was_asked_for():
    async def story(broker: Broker) -> None:
        partition = await numbers(broker)
        page = await read(partition, Offset(0), limit=9, bytes_max=1 << 20, end=Offset(4))
        assert [each.offset for each in page.records] == [0, 1, 2, 3]
        assert page.at_end
        assert (partition.messages_out, partition.bytes_out) == (4, 4)

    play(story)


def test_a_page_has_one_record_at_least_however_few_bytes_are_allowed():
    async def story(broker: Broker) -> None:
        partition = await numbers(broker)
        page = await read_page(partition, Offset(0), limit=9, bytes_max=1)
        assert [each.offset for each in page.records] == [0]

    play(story)


def test_offsets_outside_the_log_and_deleted_topics_are_refused():
    async def story(broker: Broker) -> None:
        partition = await numbers(broker)
        with pytest.raises(OffsetOutOfRange, match="offset 10 is outside 0 to 9 of 't'"):
            await read_page(partition, Offset(10), limit=1, bytes_max=1)
        await broker.delete_topic("t")
        with pytest.raises(TopicNotFound):
            await read_page(partition, Offset(0), limit=1, bytes_max=1)

    play(story)


def test_what_readers_get_is_counted():
    async def story(broker: Broker) -> None:
        partition = await numbers(broker)
        page = await read_page(partition, Offset(0), limit=9, bytes_max=1 << 20)
        assert partition.messages_out == 0
        count_read(partition, page.records)
        assert (partition.messages_out, partition.bytes_out) == (9, 9)

    play(story)
