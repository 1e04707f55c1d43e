"""A replica's half of the Fetch codec, against the server's half and against kio."""

import contextlib
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from goqueue.wire.apis import ApiKey
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
    decode_fetch,
    encode_fetch_response,
)
from goqueue.wire.messages import request_class
from goqueue.wire.nodes import LeaderAndEpoch
from goqueue.wire.replica_fetch import VERSION, decode_replica_fetch, encode_replica_fetch
from tests.unit.wire.kio_side import kio_decode

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(0, 9)
TOPICS = st.uuids()
PARTITIONS = st.builds(FetchPartition, INT32, INT32, INT64, INT32, INT64, INT32, INT64)
REQUESTS = st.builds(
    FetchRequest,
    max_wait_ms=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    isolation_level=st.integers(0, 1),
    session_id=INT32,
    session_epoch=INT32,
    topics=st.lists(st.builds(FetchTopic, TOPICS, st.lists(PARTITIONS, max_size=3)), max_size=3),
    forgotten=st.lists(st.builds(ForgottenTopic, TOPICS, st.lists(INT32, max_size=3)), max_size=2),
    replica_id=INT32,
    replica_epoch=INT64,
    fetch_number=st.integers(0, 2**63 - 1),
    interrupted=INT32,
)
RESULTS = st.builds(
    FetchPartitionResponse,
    partition=INT32,
    error_code=st.integers(-1, 130),
    high_watermark=INT64,
    last_stable_offset=INT64,
    log_start_offset=INT64,
    records=st.binary(max_size=300),
    diverging_epoch=st.none() | st.builds(DivergingEpoch, SMALL, SMALL),
    gaps_below=st.integers(0, 2**40),
    beside=st.integers(0, 7),
)


@settings(max_examples=60)
@given(request=REQUESTS)
def test_the_leader_reads_what_a_replica_sends(request):
    assert decode_fetch(VERSION, memoryview(encode_replica_fetch(request))) == request


@settings(max_examples=40)
@given(request=REQUESTS)
def test_a_request_is_one_of_kafkas(request):
    unnumbered = replace(request, fetch_number=-1)  # that field is none of Kafka's
    raw = bytes(encode_replica_fetch(unnumbered))
    read = kio_decode(request_class(ApiKey.FETCH, VERSION), raw)
    assert read.replica_state.replica_id == request.replica_id
    assert [topic.topic_id or UUID(int=0) for topic in read.topics] == [
        topic.topic for topic in request.topics
    ]
    assert [part.high_watermark for topic in read.topics for part in topic.partitions] == [
        part.high_watermark for topic in request.topics for part in topic.partitions
    ]


@settings(max_examples=60)
@given(
    topics=st.lists(
        st.builds(FetchTopicResponse, TOPICS, st.lists(RESULTS, max_size=3)), max_size=3
    ),
    error_code=st.integers(0, 100),
    session_id=INT32,
)
def test_a_replica_reads_what_the_leader_sends(topics, error_code, session_id):
    parts = encode_fetch_response(VERSION, topics, error_code=error_code, session_id=session_id)
    read = decode_replica_fetch(memoryview(b"".join(parts)))
    assert (read.error_code, read.session_id, read.topics) == (error_code, session_id, topics)


def test_fields_that_a_replica_does_not_need_are_passed_over():
    result = FetchPartitionResponse(
        partition=3,
        aborted_transactions=[AbortedTransaction(1, 2), AbortedTransaction(3, 4)],
        records=None,
        current_leader=LeaderAndEpoch(1, 2),
        diverging_epoch=DivergingEpoch(5, 6),
    )
    topic = UUID(int=7)
    parts = encode_fetch_response(VERSION, [FetchTopicResponse(topic, [result])])
    [read] = decode_replica_fetch(memoryview(b"".join(parts))).topics[0].partitions
    assert (read.partition, read.records, read.diverging_epoch) == (3, b"", DivergingEpoch(5, 6))


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_response_or_malformed(data):
    with contextlib.suppress(MalformedRequest):
        decode_replica_fetch(memoryview(data))


def test_a_cut_response_is_malformed():
    result = FetchPartitionResponse(partition=0, records=b"some records")
    whole = b"".join(encode_fetch_response(VERSION, [FetchTopicResponse(UUID(int=1), [result])]))
    for size in range(len(whole) - 3):
        with pytest.raises(MalformedRequest):
            decode_replica_fetch(memoryview(whole[:size]))
