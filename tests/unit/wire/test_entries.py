"""A request with very many entries is refused before they are read."""

import pytest
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseTopic
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData

from goqueue.wire import primitives
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import CLIENT_VERSIONS, decode_body
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.fetch import decode_fetch
from goqueue.wire.messages import build, decode_request, encode_response
from goqueue.wire.primitives import STRING_BYTES_MAX, TAGGED_FIELDS_MAX, uvarint
from goqueue.wire.produce import decode_produce
from tests.unit.wire.kio_side import kio_encode

ENTRIES_MAX = 100


@pytest.fixture(autouse=True)
def few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives, "REQUEST_ENTRIES_MAX", ENTRIES_MAX)


def fetch(topics: int, partitions: int) -> memoryview:
    asked = tuple(build(FetchPartition, partition=index) for index in range(partitions))
    topic = build(FetchTopic, topic="t", partitions=asked)
    return memoryview(kio_encode(build(FetchRequest, topics=(topic,) * topics)))


def produce(topics: int, partitions: int) -> memoryview:
    asked = tuple(build(PartitionProduceData, index=index) for index in range(partitions))
    topic = build(TopicProduceData, name="t", partition_data=asked)
    return memoryview(kio_encode(build(ProduceRequest, topic_data=(topic,) * topics)))


def metadata(topics: int) -> bytes:
    topic = build(MetadataRequestTopic, name="t")
    return kio_encode(build(MetadataRequest, topics=(topic,) * topics))


def offset_commit(topics: int, partitions: int) -> bytes:
    asked = (build(OffsetCommitRequestPartition),) * partitions
    topic = build(OffsetCommitRequestTopic, name="t", partitions=asked)
    return kio_encode(build(OffsetCommitRequest, group_id="g", topics=(topic,) * topics))


@pytest.mark.parametrize(("topics", "partitions"), [(1, 99), (50, 1), (100, 0)])
def test_as_many_entries_as_are_allowed_are_read(topics: int, partitions: int):
    assert len(decode_fetch(12, fetch(topics, partitions)).topics) == topics
    assert len(decode_produce(9, produce(topics, partitions)).topics) == topics
    commit = decode_request(ApiKey.OFFSET_COMMIT, 8, offset_commit(topics, partitions))
    assert len(commit.topics) == topics


@pytest.mark.parametrize(("topics", "partitions"), [(1, 100), (51, 1), (101, 0)])
def test_one_more_is_refused(topics: int, partitions: int):
    for read in (
        lambda: decode_fetch(12, fetch(topics, partitions)),
        lambda: decode_produce(9, produce(topics, partitions)),
        lambda: decode_request(ApiKey.OFFSET_COMMIT, 8, offset_commit(topics, partitions)),
    ):
        with pytest.raises(MalformedRequest, match="more than 100 entries"):
            read()


def test_each_request_is_counted_anew():
    for _ in range(3):
        assert len(decode_request(ApiKey.METADATA, 13, metadata(ENTRIES_MAX)).topics) == 100
    with pytest.raises(MalformedRequest, match="entries"):
        decode_request(ApiKey.METADATA, 13, metadata(ENTRIES_MAX + 1))
    assert len(decode_request(ApiKey.METADATA, 13, metadata(1)).topics) == 1


def test_responses_may_be_longer_than_requests():
    topics = (build(MetadataResponseTopic, name="t"),) * (2 * ENTRIES_MAX)
    version = CLIENT_VERSIONS[ApiKey.METADATA]
    body = encode_response(ApiKey.METADATA, version, build(MetadataResponse, topics=topics))
    assert len(decode_body(ApiKey.METADATA, memoryview(body)).topics) == 2 * ENTRIES_MAX


def test_strings_are_no_longer_than_kafkas():
    def named(size: int) -> bytes:
        topic = build(MetadataRequestTopic, name="t" * size)
        return kio_encode(build(MetadataRequest, topics=(topic,)))

    request = decode_request(ApiKey.METADATA, 13, named(STRING_BYTES_MAX))
    assert len(request.topics[0].name) == 0x7FFF
    with pytest.raises(MalformedRequest, match="string of 32768 bytes"):
        decode_request(ApiKey.METADATA, 13, named(STRING_BYTES_MAX + 1))


def test_tagged_fields_that_nobody_knows_are_bounded():
    def tagged(count: int) -> bytes:
        return (
            metadata(1)[:-1]
            + uvarint(count)
            + b"".join(uvarint(tag) + b"\x00" for tag in range(count))
        )

    decode_request(ApiKey.METADATA, 13, tagged(TAGGED_FIELDS_MAX))
    with pytest.raises(MalformedRequest, match="65 tagged fields"):
        decode_request(ApiKey.METADATA, 13, tagged(TAGGED_FIELDS_MAX + 1))
