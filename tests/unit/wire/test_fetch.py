"""The hand-made Fetch codec against kio, in every version."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionResponse,
    FetchTopicResponse,
    decode_fetch,
    encode_fetch_response,
)
from goqueue.wire.messages import milliseconds, request_class, response_class
from goqueue.wire.nodes import LeaderAndEpoch, NodeEndpoint
from tests.unit.wire.kio_side import PRIMITIVES, entities, kio_decode, kio_encode

every_version = pytest.mark.parametrize("version", range(4, 19))

INT32, INT64, BYTES = PRIMITIVES["int32"], PRIMITIVES["int64"], PRIMITIVES["bytes"]
SMALL = st.integers(0, 9)
PARTITIONS = st.builds(
    FetchPartitionResponse,
    partition=INT32,
    error_code=PRIMITIVES["error_code"].map(int),
    high_watermark=INT64,
    last_stable_offset=INT64,
    log_start_offset=INT64,
    aborted_transactions=st.none()
    | st.lists(st.builds(AbortedTransaction, INT64, INT64), max_size=2),
    preferred_read_replica=INT32,
    records=st.none() | BYTES | st.lists(BYTES, max_size=3),
    diverging_epoch=st.none() | st.builds(DivergingEpoch, SMALL, SMALL),
    current_leader=st.none() | st.builds(LeaderAndEpoch, SMALL, SMALL),
)
ENDPOINTS = st.builds(
    NodeEndpoint, INT32, PRIMITIVES["string"], INT32, st.none() | PRIMITIVES["string"]
)


def test_all_served_versions_are_tested():
    assert VERSIONS[ApiKey.FETCH][:2] == (4, 18)


@every_version
@settings(max_examples=40)
@given(data=st.data())
def test_a_request_of_kio_is_read(version, data):
    sent = data.draw(entities(request_class(ApiKey.FETCH, version)))
    request = decode_fetch(version, memoryview(bytearray(kio_encode(sent))))
    assert request.max_wait_ms == milliseconds(sent.max_wait)
    assert (request.min_bytes, request.max_bytes) == (sent.min_bytes, sent.max_bytes)
    assert request.isolation_level == sent.isolation_level
    assert request.session_id == getattr(sent, "session_id", 0)
    assert request.session_epoch == getattr(sent, "session_epoch", -1)
    assert request.rack_id == getattr(sent, "rack_id", "")
    replica = sent.replica_state if version >= 15 else sent
    assert request.replica_id == replica.replica_id
    assert request.replica_epoch == getattr(replica, "replica_epoch", -1)
    assert [(topic.topic, topic.partitions) for topic in request.forgotten] == [
        (_key(version, topic), list(topic.partitions))
        for topic in getattr(sent, "forgotten_topics_data", ())
    ]
    assert [topic.topic for topic in request.topics] == [
        _key(version, topic) for topic in sent.topics
    ]
    for topic, sent_topic in zip(request.topics, sent.topics, strict=True):
        for partition, wanted in zip(topic.partitions, sent_topic.partitions, strict=True):
            _check_request_partition(partition, wanted)


def _check_request_partition(partition, wanted):
    assert partition.partition == wanted.partition
    assert partition.fetch_offset == wanted.fetch_offset
    assert partition.partition_max_bytes == wanted.partition_max_bytes
    for newer in ("current_leader_epoch", "last_fetched_epoch", "log_start_offset"):
        assert getattr(partition, newer) == getattr(wanted, newer, -1)


@every_version
@settings(max_examples=40)
@given(data=st.data())
def test_a_response_is_read_by_kio(version, data):
    keys = st.uuids() if version >= 13 else PRIMITIVES["string"]
    topics = data.draw(
        st.lists(st.builds(FetchTopicResponse, keys, st.lists(PARTITIONS, max_size=3)), max_size=2)
    )
    endpoints = data.draw(st.lists(ENDPOINTS, max_size=2))
    parts = encode_fetch_response(
        version, topics, throttle_time_ms=7, error_code=3, session_id=9, node_endpoints=endpoints
    )
    answer = kio_decode(response_class(ApiKey.FETCH, version), b"".join(parts))
    assert milliseconds(answer.throttle_time) == 7
    if version >= 7:
        assert (answer.error_code, answer.session_id) == (3, 9)
    assert [_key(version, topic) for topic in answer.responses] == [topic.topic for topic in topics]
    for topic, sent in zip(answer.responses, topics, strict=True):
        for partition, result in zip(topic.partitions, sent.partitions, strict=True):
            _check_response_partition(version, partition, result)
    if version >= 16:
        assert [
            (node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints
        ] == [(node.node_id, node.host, node.port, node.rack) for node in endpoints]


def _check_response_partition(version, partition, result):
    assert (partition.partition_index, partition.error_code) == (
        result.partition,
        result.error_code,
    )
    assert partition.high_watermark == result.high_watermark
    assert partition.last_stable_offset == result.last_stable_offset
    if result.aborted_transactions is None:
        assert partition.aborted_transactions is None
    else:
        assert [
            (aborted.producer_id, aborted.first_offset)
            for aborted in partition.aborted_transactions
        ] == [
            (aborted.producer_id, aborted.first_offset) for aborted in result.aborted_transactions
        ]
    records = result.records
    assert partition.records == (b"".join(records) if isinstance(records, list) else records)
    if version >= 5:
        assert partition.log_start_offset == result.log_start_offset
    if version >= 11:
        assert partition.preferred_read_replica == result.preferred_read_replica
    if version >= 12:
        leader = result.current_leader or LeaderAndEpoch(-1, -1)
        diverging = result.diverging_epoch or DivergingEpoch(-1, -1)
        assert partition.current_leader.leader_id == leader.leader_id
        assert partition.current_leader.leader_epoch == leader.leader_epoch
        assert partition.diverging_epoch.epoch == diverging.epoch
        assert partition.diverging_epoch.end_offset == diverging.end_offset


def _key(version, topic):
    return (topic.topic_id or UUID(int=0)) if version >= 13 else topic.topic


@every_version
def test_records_are_passed_on_and_not_copied(version):
    records = memoryview(bytearray(b"batch"))
    partition = FetchPartitionResponse(partition=0, records=records)
    topic = FetchTopicResponse(UUID(int=1) if version >= 13 else "orders", [partition])
    parts = encode_fetch_response(version, [topic])
    assert any(part is records for part in parts)
