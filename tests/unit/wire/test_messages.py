"""One shape whatever the version: every API in every version, against kio."""

import subprocess
import sys
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.add_partitions_to_txn.v5 import response as add_partitions
from kio.schema.describe_groups.v6 import response as describe_groups
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse
from kio.schema.metadata.v13.response import MetadataResponse

from goqueue.model.errors import UnsupportedVersion
from goqueue.wire import shapes, upgrades
from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.codec import schema_of
from goqueue.wire.messages import (
    build,
    decode_request,
    duration,
    encode_response,
    milliseconds,
    moment,
    request_class,
    request_shape,
    response_class,
    response_shape,
    timestamp_ms,
)
from tests.unit.wire.kio_side import EVERY_VERSION, entities, kio_decode, kio_encode, label

TOPIC_ID = UUID(int=7)


def moved(table: dict[ApiKey, upgrades.Moved], api: ApiKey, version: int) -> bool:
    return api in table and version <= table[api].last_version


def assert_same_fields(older: Any, newer: Any) -> None:
    """Every field that both have is equal; a null that one cannot say is empty there."""
    shared = schema_of(type(older)).keys() & schema_of(type(newer)).keys()
    for name in shared:
        old, new = getattr(older, name), getattr(newer, name)
        if schema_of(type(older))[name].nested is None:
            assert old == new or (new is None and not old), name
        elif isinstance(old, tuple):
            for old_item, new_item in zip(old, new or (), strict=True):
                assert_same_fields(old_item, new_item)
        else:
            assert (old is None) == (new is None), name
            if old is not None:
                assert_same_fields(old, new)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=label)
@settings(max_examples=5)
@given(data=st.data())
def test_a_request_of_any_version_has_the_newest_shape(api, version, data):
    sent = data.draw(entities(request_class(api, version)))
    request = decode_request(api, version, memoryview(bytearray(kio_encode(sent))))
    assert type(request) is request_shape(api)
    for name, field in schema_of(type(request)).items():
        assert getattr(request, name) is not None or field.is_nullable
    if not moved(upgrades.REQUESTS, api, version):
        assert_same_fields(sent, request)


@pytest.mark.parametrize("api", sorted({api for api, _ in EVERY_VERSION}), ids=label)
@settings(max_examples=10)
@given(data=st.data())
def test_a_response_of_the_newest_shape_is_said_in_any_version(api, data):
    response = data.draw(entities(response_shape(api)))
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1):
        if not moved(upgrades.RESPONSES, api, version):
            raw = encode_response(api, version, response)
            assert_same_fields(kio_decode(response_class(api, version), raw), response)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=label)
def test_an_empty_response_is_said_in_any_version(api, version):
    response = build(response_shape(api), **_one_of_what_old_versions_have_one_of(api))
    raw = encode_response(api, version, response)
    answer = kio_decode(response_class(api, version), raw)
    assert kio_encode(answer) == raw


def _one_of_what_old_versions_have_one_of(api: ApiKey) -> dict[str, Any]:
    field = {
        ApiKey.OFFSET_FETCH: "groups",
        ApiKey.FIND_COORDINATOR: "coordinators",
        ApiKey.ADD_PARTITIONS_TO_TXN: "results_by_transaction",
    }.get(api)
    if field is None:
        return {}
    nested = schema_of(response_shape(api))[field].nested
    assert nested is not None
    return {field: (build(nested),)}


def test_a_field_that_is_missing_has_the_protocols_default():
    sent = build(request_class(ApiKey.INIT_PRODUCER_ID, 0), transactional_id="t")
    request = decode_request(ApiKey.INIT_PRODUCER_ID, 0, kio_encode(sent))
    assert (request.producer_id, request.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", [14, -1])
def test_a_version_that_is_not_served_says_which_are(version):
    with pytest.raises(UnsupportedVersion, match="0 to 13"):
        decode_request(ApiKey.METADATA, version, b"")


def test_an_unknown_api_is_unsupported():
    with pytest.raises(UnsupportedVersion):
        decode_request(9999, 0, b"")


def test_bytes_after_a_request_are_ignored():
    raw = kio_encode(build(request_class(ApiKey.HEARTBEAT, 4), group_id="g"))
    assert decode_request(ApiKey.HEARTBEAT, 4, raw + b"more").group_id == "g"


def test_unknown_tagged_fields_are_skipped():
    raw = kio_encode(build(request_class(ApiKey.HEARTBEAT, 4), group_id="g"))
    assert raw.endswith(b"\x00")
    tagged = raw[:-1] + b"\x02\x05\x03abc\x90\x4e\x00"
    assert decode_request(ApiKey.HEARTBEAT, 4, tagged).group_id == "g"


# --- what moved: requests ---------------------------------------------------------------------


def request(api: ApiKey, version: int, **fields: Any) -> Any:
    return decode_request(api, version, kio_encode(build(request_class(api, version), **fields)))


def nested(cls: type[Any], name: str) -> type[Any]:
    found = schema_of(cls)[name].nested
    assert found is not None
    return found


def test_no_topics_means_all_in_metadata_v0_and_none_since():
    assert request(ApiKey.METADATA, 0, topics=()).topics is None
    assert request(ApiKey.METADATA, 1, topics=()).topics == ()
    assert request(ApiKey.METADATA, 1, topics=None).topics is None


def test_metadata_v0_creates_topics_as_it_always_did():
    topic = build(nested(request_class(ApiKey.METADATA, 0), "topics"), name="orders")
    read = request(ApiKey.METADATA, 0, topics=(topic,))
    assert [topic.name for topic in read.topics] == ["orders"]
    assert read.allow_auto_topic_creation


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_has_a_list_of_keys(version):
    fields = {"coordinator_keys": ("g",)} if version >= 4 else {"key": "g"}
    if version >= 1:
        fields["key_type"] = 1  # type: ignore[assignment]
    read = request(ApiKey.FIND_COORDINATOR, version, **fields)
    assert (read.coordinator_keys, read.key_type) == (("g",), 1 if version >= 1 else 0)


@pytest.mark.parametrize("version", range(6))
def test_leave_group_has_a_list_of_members(version):
    if version >= 3:
        member = nested(request_class(ApiKey.LEAVE_GROUP, version), "members")
        read = request(ApiKey.LEAVE_GROUP, version, members=(build(member, member_id="m"),))
    else:
        read = request(ApiKey.LEAVE_GROUP, version, member_id="m")
    assert [(member.member_id, member.group_instance_id) for member in read.members] == [
        ("m", None)
    ]


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics_has_a_list_of_names_and_ids(version):
    if version >= 6:
        topic = nested(request_class(ApiKey.DELETE_TOPICS, version), "topics")
        fields: dict[str, Any] = {"topics": (build(topic, name="orders"),)}
    else:
        fields = {"topic_names": ("orders",)}
    read = request(ApiKey.DELETE_TOPICS, version, timeout=duration(5), **fields)
    assert [(topic.name, topic.topic_id) for topic in read.topics] == [("orders", None)]
    assert milliseconds(read.timeout) == 5


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_of_one_group_is_a_list_of_one(version):
    topic = nested(request_class(ApiKey.OFFSET_FETCH, version), "topics")
    topics = (build(topic, name="orders", partition_indexes=(0, 2)),)
    (group,) = request(ApiKey.OFFSET_FETCH, version, group_id="g", topics=topics).groups
    assert (group.group_id, group.member_id, group.member_epoch) == ("g", None, -1)
    assert [(topic.name, topic.partition_indexes) for topic in group.topics] == [("orders", (0, 2))]


def test_offset_fetch_of_all_topics_has_null_topics():
    (group,) = request(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None).groups
    assert group.topics is None


@pytest.mark.parametrize("version", [9, 10])
def test_offset_commit_has_room_for_a_name_and_an_id(version):
    topic = nested(request_class(ApiKey.OFFSET_COMMIT, version), "topics")
    key = {"topic_id": TOPIC_ID} if version >= 10 else {"name": "orders"}
    read = request(ApiKey.OFFSET_COMMIT, version, topics=(build(topic, **key),))
    expected = ("", TOPIC_ID) if version >= 10 else ("orders", None)
    assert [(topic.name, topic.topic_id) for topic in read.topics] == [expected]


def test_offset_commit_for_ever_is_read():
    """Retention times went away with version 5; one of -1 or 2**63 - 1 must not disturb."""
    sent = build(request_class(ApiKey.OFFSET_COMMIT, 2), group_id="g", member_id="m")
    raw = kio_encode(sent).replace(bytes(8), (2**63 - 1).to_bytes(8), 1)
    assert decode_request(ApiKey.OFFSET_COMMIT, 2, raw).group_id == "g"


def test_join_group_v0_waits_for_rebalance_as_long_as_for_heartbeats():
    protocol = nested(request_class(ApiKey.JOIN_GROUP, 0), "protocols")
    read = request(
        ApiKey.JOIN_GROUP,
        0,
        group_id="g",
        session_timeout=duration(6000),
        protocols=(build(protocol, name="range", metadata=b"m"),),
    )
    assert milliseconds(read.rebalance_timeout) == 6000
    assert [(protocol.name, protocol.metadata) for protocol in read.protocols] == [("range", b"m")]


def test_add_partitions_of_one_transaction_is_a_list_of_one():
    topic = nested(request_class(ApiKey.ADD_PARTITIONS_TO_TXN, 3), "v3_and_below_topics")
    read = request(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=4,
        v3_and_below_producer_epoch=5,
        v3_and_below_topics=(build(topic, name="orders", partitions=(1,)),),
    )
    (transaction,) = read.transactions
    assert (transaction.transactional_id, transaction.verify_only) == ("t", False)
    assert (transaction.producer_id, transaction.producer_epoch) == (4, 5)
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("orders", (1,))]


# --- what moved: responses --------------------------------------------------------------------


def answer(api: ApiKey, version: int, response: Any) -> Any:
    return kio_decode(response_class(api, version), encode_response(api, version, response))


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_answers_one_or_many(version):
    coordinator = build(Coordinator, key="g", node_id=1, host="localhost", port=9092)
    response = build(FindCoordinatorResponse, coordinators=(coordinator,))
    read = answer(ApiKey.FIND_COORDINATOR, version, response)
    one = read.coordinators[0] if version >= 4 else read
    assert (one.node_id, one.host, one.port, one.error_code) == (1, "localhost", 9092, 0)


@pytest.mark.parametrize("version", range(6))
def test_the_error_of_the_only_member_that_left_is_the_answer(version):
    member = build(MemberResponse, member_id="m", error_code=ErrorCode.unknown_member_id)
    read = answer(ApiKey.LEAVE_GROUP, version, build(LeaveGroupResponse, members=(member,)))
    error_code = read.members[0].error_code if version >= 3 else read.error_code
    assert error_code == ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", range(1, 11))
def test_offset_fetch_answers_one_group_or_many(version):
    partition = build(shapes.OffsetFetchResponsePartition, partition_index=2, committed_offset=9)
    topic = build(
        shapes.OffsetFetchResponseTopic, name="orders", topic_id=TOPIC_ID, partitions=(partition,)
    )
    group = build(shapes.OffsetFetchResponseGroup, group_id="g", topics=(topic,))
    response = build(shapes.OffsetFetchResponse, groups=(group,))
    read = answer(ApiKey.OFFSET_FETCH, version, response)
    (topic,) = read.groups[0].topics if version >= 8 else read.topics
    assert (topic.topic_id == TOPIC_ID) if version >= 10 else (topic.name == "orders")
    assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(2, 9)]


def test_an_error_of_the_group_is_in_each_partition_where_the_group_has_no_field():
    partition = build(shapes.OffsetFetchResponsePartition, partition_index=2)
    topic = build(shapes.OffsetFetchResponseTopic, name="orders", partitions=(partition,))
    group = build(
        shapes.OffsetFetchResponseGroup, topics=(topic,), error_code=ErrorCode.not_coordinator
    )
    response = build(shapes.OffsetFetchResponse, groups=(group,))
    (old_topic,) = answer(ApiKey.OFFSET_FETCH, 1, response).topics
    assert old_topic.partitions[0].error_code == ErrorCode.not_coordinator
    assert answer(ApiKey.OFFSET_FETCH, 2, response).error_code == ErrorCode.not_coordinator


def test_a_group_that_does_not_exist_was_once_a_dead_one():
    group = build(
        describe_groups.DescribedGroup,
        group_id="g",
        error_code=ErrorCode.group_id_not_found,
        error_message="no such group",
    )
    response = build(describe_groups.DescribeGroupsResponse, groups=(group,))
    (old,) = answer(ApiKey.DESCRIBE_GROUPS, 5, response).groups
    (new,) = answer(ApiKey.DESCRIBE_GROUPS, 6, response).groups
    assert (old.error_code, old.group_state) == (ErrorCode.none, "Dead")
    assert new.error_code == ErrorCode.group_id_not_found


@pytest.mark.parametrize("version", range(6))
def test_old_producers_know_fencing_by_the_epoch(version):
    fenced, epoch = ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch
    expected = fenced if version >= 2 else epoch
    ended = answer(ApiKey.END_TXN, version, build(EndTxnResponse, error_code=fenced))
    assert ended.error_code == expected
    result = build(add_partitions.AddPartitionsToTxnPartitionResult, partition_error_code=fenced)
    topic = build(
        add_partitions.AddPartitionsToTxnTopicResult, name="t", results_by_partition=(result,)
    )
    transaction = build(add_partitions.AddPartitionsToTxnResult, topic_results=(topic,))
    response = build(
        add_partitions.AddPartitionsToTxnResponse, results_by_transaction=(transaction,)
    )
    read = answer(ApiKey.ADD_PARTITIONS_TO_TXN, version, response)
    if version >= 4:
        (read_topic,) = read.results_by_transaction[0].topic_results
    else:
        (read_topic,) = read.results_by_topic_v3_and_below
    assert read_topic.results_by_partition[0].partition_error_code == expected


def test_a_null_that_an_old_version_cannot_say_is_empty():
    response = build(JoinGroupResponse, protocol_name=None)
    assert answer(ApiKey.JOIN_GROUP, 6, response).protocol_name == ""
    assert answer(ApiKey.JOIN_GROUP, 7, response).protocol_name is None


def test_what_only_old_versions_have_is_the_protocols_default():
    read = answer(ApiKey.METADATA, 9, build(MetadataResponse))
    assert read.cluster_authorized_operations == -(2**31)


# --- helpers ----------------------------------------------------------------------------------


def test_build_refuses_a_field_the_class_does_not_have():
    with pytest.raises(TypeError, match="nope"):
        build(MetadataResponse, nope=1)


def test_build_gives_objects_that_can_be_changed_by_replace():
    response = build(MetadataResponse, cluster_id="c")
    assert replace(response, cluster_id="d").brokers == ()


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**42))
def test_durations_and_times_are_milliseconds_both_ways(span, time):
    assert milliseconds(duration(span)) == span
    assert timestamp_ms(moment(time)) == time


def test_every_api_has_shapes():
    for api in VERSIONS:
        assert schema_of(request_shape(api)) is not None
        assert schema_of(response_shape(api))


def test_importing_the_codecs_imports_no_schema_and_no_event_loop():
    program = (
        "import sys, goqueue.wire.messages, goqueue.wire.produce, goqueue.wire.fetch;"
        "print([name for name in sys.modules if name == 'asyncio' or name.startswith("
        "('kio.schema.metadata', 'kio.serial'))])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert result.stdout.strip() == b"[]"
