"""Where a reader may start: beginning, end, an offset, a time."""

import time
from collections.abc import Iterator
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.conformance.clients import WAIT_S, Client, Confluent, Message
from tests.conformance.server import Server

START = 1_700_000_000_000
MESSAGES = [Message(None, b"%d" % n, timestamp=START + 1000 * n) for n in range(100)]


@pytest.fixture
def filled(server: Server, topic: str) -> str:
    """A topic with one message a second, in ten batches."""
    for first in range(0, 100, 10):
        Confluent().write(server.address, topic, MESSAGES[first : first + 10])
    return topic


@pytest.fixture
def consumer(server: Server) -> Iterator[Any]:
    consumer = confluent_kafka.Consumer(
        {
            **server.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    yield consumer
    consumer.close()


def next_message(consumer: Any) -> Any:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            return message
    raise AssertionError(f"nothing came in {WAIT_S} s")


def test_reading_starts_at_any_offset(client: Client, server: Server, filled: str):
    read = client.read(server.address, filled, 37, partition=0, offset=63)
    assert [each.offset for each in read] == list(range(63, 100))
    assert [each.message.value for each in read] == [b"%d" % n for n in range(63, 100)]
    assert [each.timestamp for each in read] == [START + 1000 * n for n in range(63, 100)]


def test_watermarks_move_with_writes_and_deletes(
    admin: AdminClient, consumer: Any, server: Server, topic: str
):
    place = TopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(place, timeout=WAIT_S) == (0, 0)
    Confluent().write(server.address, topic, MESSAGES)
    assert consumer.get_watermark_offsets(place, timeout=WAIT_S) == (0, 100)
    deleted = TopicPartition(topic, 0, 30)
    admin.delete_records([deleted])[deleted].result(WAIT_S)
    assert consumer.get_watermark_offsets(place, timeout=WAIT_S) == (30, 100)


def test_offsets_for_times(consumer: Any, server: Server, filled: str):
    asked = {
        START - 1: 0,  # before the first
        START: 0,
        START + 1: 1,  # between two: the later one
        START + 50_000: 50,
        START + 98_999: 99,
        START + 99_000: 99,
    }
    for moment, offset in asked.items():
        (found,) = consumer.offsets_for_times([TopicPartition(filled, 0, moment)], timeout=WAIT_S)
        assert found.offset == offset, moment
    (after,) = consumer.offsets_for_times(
        [TopicPartition(filled, 0, START + 99_001)], timeout=WAIT_S
    )
    assert after.offset == confluent_kafka.OFFSET_END

    python = kafka.KafkaConsumer(bootstrap_servers=server.address)
    place = kafka.TopicPartition(filled, 0)
    found = python.offsets_for_times({place: START + 42_001})[place]
    assert (found.offset, found.timestamp) == (43, START + 43_000)
    assert python.offsets_for_times({place: START + 99_001})[place] is None
    assert python.beginning_offsets([place]) == {place: 0}
    assert python.end_offsets([place]) == {place: 100}
    python.close()


async def test_offsets_for_times_with_aiokafka(server: Server, filled: str):
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=server.address)
    place = aiokafka.TopicPartition(filled, 0)
    async with consumer:
        found = (await consumer.offsets_for_times({place: START + 42_001}))[place]
        assert (found.offset, found.timestamp) == (43, START + 43_000)
        assert await consumer.beginning_offsets([place]) == {place: 0}
        assert await consumer.end_offsets([place]) == {place: 100}


@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 100),
        (OffsetSpec.max_timestamp(), 99),
        (OffsetSpec.for_timestamp(START + 10_500), 11),
    ],
    ids=["earliest", "latest", "max-timestamp", "timestamp"],
)
def test_offsets_by_the_admin_client(
    admin: AdminClient, filled: str, spec: OffsetSpec, offset: int
):
    place = TopicPartition(filled, 0)
    assert admin.list_offsets({place: spec})[place].result(WAIT_S).offset == offset


def test_the_newest_message_need_not_be_the_last(admin: AdminClient, server: Server, topic: str):
    messages = [Message(None, b"%d" % n, timestamp=START + t) for n, t in enumerate((5, 900, 7))]
    for message in messages:
        Confluent().write(server.address, topic, [message])
    place = TopicPartition(topic, 0)
    newest = admin.list_offsets({place: OffsetSpec.max_timestamp()})[place].result(WAIT_S)
    assert (newest.offset, newest.timestamp) == (1, START + 900)


def test_seeking_back_and_forth(consumer: Any, filled: str):
    consumer.assign([TopicPartition(filled, 0, 90)])
    assert next_message(consumer).value() == b"90"
    for offset in (10, 99, 0, 55):
        consumer.seek(TopicPartition(filled, 0, offset))
        assert next_message(consumer).value() == b"%d" % offset


def test_a_reader_is_told_when_it_is_at_the_end(consumer: Any, filled: str):
    consumer.assign([TopicPartition(filled, 0, 99)])
    assert next_message(consumer).value() == b"99"
    assert next_message(consumer).error().code() == KafkaError._PARTITION_EOF


def test_an_offset_outside_the_log_is_an_error(consumer: Any, server: Server, filled: str):
    consumer.assign([TopicPartition(filled, 0, 5000)])
    error = next_message(consumer).error()
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    python = kafka.KafkaConsumer(
        bootstrap_servers=server.address, auto_offset_reset="none", consumer_timeout_ms=10_000
    )
    place = kafka.TopicPartition(filled, 0)
    python.assign([place])
    python.seek(place, 5000)
    with pytest.raises(kafka.errors.OffsetOutOfRangeError):
        next(python)
    python.close()


def test_a_partition_that_is_not_there_is_an_error(consumer: Any, filled: str):
    with pytest.raises(KafkaException) as caught:
        consumer.get_watermark_offsets(TopicPartition(filled, 7), timeout=WAIT_S)
    assert caught.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
