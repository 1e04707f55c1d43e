"""What a batch from outside must pass before it is appended."""

import pytest

from goqueue.broker.storage.batch_validation import prepare
from goqueue.model import batch as batches
from goqueue.model.compression import Codec
from goqueue.model.errors import InvalidRecords, InvalidTimestamp
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from tests.unit.broker.brokers import NOW

HOUR_MS = 3_600_000
AN_HOUR = {
    "message.timestamp.before.max.ms": str(HOUR_MS),
    "message.timestamp.after.max.ms": str(HOUR_MS),
}


def batch(*keys: bytes | None, at: int = NOW, codec: int = 0) -> bytearray:
    return batches.encode([Record(0, at, key, b"value") for key in keys], codec=codec)


def prepared(data: bytearray, **settings: str) -> bytearray | memoryview:
    return prepare(data, topic_settings(settings), Timestamp(NOW))[0]


def test_what_need_not_be_changed_is_passed_on_as_it_is():
    data = batch(None, b"key", codec=Codec.GZIP)
    assert prepared(data) is data
    assert prepared(data, **{"compression.type": "gzip"}) is data


@pytest.mark.parametrize("off", [-HOUR_MS, 0, HOUR_MS])
def test_a_timestamp_may_be_as_far_off_as_the_topic_allows(off: int):
    prepared(batch(None, at=NOW + off), **AN_HOUR)


@pytest.mark.parametrize("off", [-HOUR_MS - 1, HOUR_MS + 1])
def test_a_timestamp_that_is_farther_off_is_refused(off: int):
    with pytest.raises(InvalidTimestamp, match=r"after\.max\.ms"):
        prepared(batch(None, at=NOW + off), **AN_HOUR)


def test_a_timestamp_does_not_matter_where_the_broker_stamps_itself():
    log_append_time = {"message.timestamp.type": "LogAppendTime"}
    prepared(batch(None, at=NOW + 2 * HOUR_MS), **AN_HOUR, **log_append_time)


def test_a_producer_need_not_give_a_timestamp():
    prepared(batch(None, at=-1), **AN_HOUR)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_compacted_topic_takes_only_records_with_a_key(codec: Codec):
    compacted = {"cleanup.policy": "compact"}
    prepared(batch(b"a", b"", codec=codec), **compacted)
    with pytest.raises(InvalidRecords) as refused:
        prepared(batch(b"a", None, b"c", None, codec=codec), **compacted)
    assert list(refused.value.indexes) == [1, 3]


def test_batches_get_the_codec_of_the_topic_and_lose_nothing():
    plain, packed = batch(b"1", b"2"), batch(b"3", codec=Codec.LZ4)
    data, headers = prepare(
        bytearray(plain + packed), topic_settings({"compression.type": "lz4"}), Timestamp(NOW)
    )
    assert [header.codec for header in headers] == [Codec.LZ4, Codec.LZ4]
    assert [header.position for header in headers] == [0, headers[0].end]
    assert [record.key for record in batches.decode_all(data)] == [b"1", b"2", b"3"]
    assert bytes(data[headers[1].position :]) == bytes(packed), "it had the codec"


def test_a_batch_that_is_unpacked_is_still_its_producers():
    data = batches.encode(
        [Record(0, NOW, b"key", b"value")],
        codec=Codec.GZIP,
        attributes=batches.TRANSACTIONAL,
        producer=(7, 3, 11),
    )
    _, (header,) = prepare(
        data, topic_settings({"compression.type": "uncompressed"}), Timestamp(NOW)
    )
    assert header.codec == Codec.NONE
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
