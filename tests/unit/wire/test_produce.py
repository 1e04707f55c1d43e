"""The hand-made Produce codec against kio, in every version."""

import struct
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.messages import milliseconds, request_class, response_class
from goqueue.wire.nodes import LeaderAndEpoch, NodeEndpoint
from goqueue.wire.produce import (
    ProducePartitionResponse,
    ProduceTopicResponse,
    RecordError,
    decode_produce,
    encode_produce_response,
)
from tests.unit.wire.kio_side import PRIMITIVES, entities, kio_decode, kio_encode

every_version = pytest.mark.parametrize("version", range(3, 14))

INT32, INT64 = PRIMITIVES["int32"], PRIMITIVES["int64"]
NULLABLE_TEXT = st.none() | PRIMITIVES["string"]
PARTITIONS = st.builds(
    ProducePartitionResponse,
    index=INT32,
    error_code=PRIMITIVES["error_code"].map(int),
    base_offset=INT64,
    log_append_time_ms=st.just(-1) | st.integers(0, 2**31).map(lambda seconds: seconds * 1000),
    log_start_offset=INT64,
    record_errors=st.lists(st.builds(RecordError, INT32, NULLABLE_TEXT), max_size=2),
    error_message=NULLABLE_TEXT,
    current_leader=st.none() | st.builds(LeaderAndEpoch, st.integers(0, 9), st.integers(0, 9)),
)
ENDPOINTS = st.builds(NodeEndpoint, INT32, PRIMITIVES["string"], INT32, NULLABLE_TEXT)


def test_all_served_versions_are_tested():
    assert VERSIONS[ApiKey.PRODUCE][:2] == (3, 13)


@every_version
@settings(max_examples=40)
@given(data=st.data())
def test_a_request_of_kio_is_read(version, data):
    sent = data.draw(entities(request_class(ApiKey.PRODUCE, version)))
    request = decode_produce(version, memoryview(bytearray(kio_encode(sent))))
    assert request.transactional_id == sent.transactional_id
    assert request.acks == sent.acks
    assert request.timeout_ms == milliseconds(sent.timeout)
    assert [
        (topic.topic, [(partition.index, partition.records) for partition in topic.partitions])
        for topic in request.topics
    ] == [
        (
            _key(version, topic),
            [(partition.index, partition.records) for partition in topic.partition_data],
        )
        for topic in sent.topic_data
    ]


@every_version
@settings(max_examples=40)
@given(data=st.data())
def test_a_response_is_read_by_kio(version, data):
    keys = st.uuids() if version >= 13 else PRIMITIVES["string"]
    topics = data.draw(
        st.lists(
            st.builds(ProduceTopicResponse, keys, st.lists(PARTITIONS, max_size=2)), max_size=2
        )
    )
    endpoints = data.draw(st.lists(ENDPOINTS, max_size=2))
    raw = encode_produce_response(version, topics, throttle_time_ms=7, node_endpoints=endpoints)
    answer = kio_decode(response_class(ApiKey.PRODUCE, version), raw)
    assert milliseconds(answer.throttle_time) == 7
    assert [_key(version, topic) for topic in answer.responses] == [topic.topic for topic in topics]
    for topic, sent in zip(answer.responses, topics, strict=True):
        for partition, result in zip(topic.partition_responses, sent.partitions, strict=True):
            _check_partition(version, partition, result)
    if version >= 10:
        assert [
            (node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints
        ] == [(node.node_id, node.host, node.port, node.rack) for node in endpoints]


def _check_partition(version, partition, result):
    assert (partition.index, partition.error_code) == (result.index, result.error_code)
    assert partition.base_offset == result.base_offset
    if result.log_append_time_ms == -1:
        assert partition.log_append_time is None
    else:
        time = datetime.fromtimestamp(result.log_append_time_ms / 1000, UTC)
        assert partition.log_append_time == time
    if version >= 5:
        assert partition.log_start_offset == result.log_start_offset
    if version >= 8:
        assert partition.error_message == result.error_message
        assert [
            (error.batch_index, error.batch_index_error_message)
            for error in partition.record_errors
        ] == [(error.batch_index, error.message) for error in result.record_errors]
    if version >= 10:
        leader = result.current_leader or LeaderAndEpoch(-1, -1)
        assert partition.current_leader.leader_id == leader.leader_id
        assert partition.current_leader.leader_epoch == leader.leader_epoch


def _key(version, topic):
    if version < 13:
        return topic.name
    return topic.topic_id or UUID(int=0)


def one_partition(records: bytes) -> bytearray:
    """A v7 request with one partition, whose records field is given raw."""
    head = struct.pack(">hhii", -1, -1, 1500, 1) + b"\x00\x01t" + struct.pack(">ii", 1, 0)
    return bytearray(head + records)


def test_null_records_and_empty_records_are_told_apart():
    null = decode_produce(7, memoryview(one_partition(struct.pack(">i", -1))))
    empty = decode_produce(7, memoryview(one_partition(struct.pack(">i", 0))))
    assert null.topics[0].partitions[0].records is None
    records = empty.topics[0].partitions[0].records
    assert records is not None
    assert bytes(records) == b""


def test_records_are_a_writable_window_on_the_frame():
    frame = one_partition(struct.pack(">i", 4) + b"abcd")
    request = decode_produce(7, memoryview(frame))
    records = request.topics[0].partitions[0].records
    assert records is not None
    records[0:2] = b"XY"
    assert frame.endswith(b"XYcd")


def test_bytes_after_the_request_are_ignored():
    frame = one_partition(struct.pack(">i", 0) + b"more")
    assert len(decode_produce(7, memoryview(frame)).topics) == 1


@pytest.mark.parametrize("size", [1, 2**31 - 1, -2, -(2**31)])
def test_records_longer_than_the_request_are_malformed(size):
    with pytest.raises(MalformedRequest):
        decode_produce(7, memoryview(one_partition(struct.pack(">i", size))))
