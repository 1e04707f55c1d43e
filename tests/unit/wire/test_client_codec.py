"""The client's half of the wire, against kio and against our own server's half."""

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.produce.v12.request import ProduceRequest

from goqueue.wire.apis import ApiKey, has_flexible_response_header
from goqueue.wire.client_codec import (
    CLIENT_VERSIONS,
    OutgoingBatches,
    build_request,
    decode_body,
    decode_fetched,
    encode_body,
    encode_produce,
    encode_request,
    split_response,
)
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frames import encode_frame, parse_header
from goqueue.wire.messages import request_class, response_class
from tests.unit.wire.kio_side import BY_HAND, entities, kio_decode, kio_encode, label

BY_CLASS = [api for api in CLIENT_VERSIONS if api not in BY_HAND]


@pytest.mark.parametrize("api", [*BY_CLASS, ApiKey.FETCH], ids=label)
@settings(max_examples=10)
@given(data=st.data())
def test_a_question_is_what_kio_reads(api, data):
    cls = request_class(api, CLIENT_VERSIONS[api])
    asked = data.draw(entities(cls))
    assert kio_decode(cls, b"".join(encode_body(api, asked))) == asked


@pytest.mark.parametrize("api", [*BY_CLASS, ApiKey.PRODUCE], ids=label)
@settings(max_examples=10)
@given(data=st.data())
def test_an_answer_is_what_kio_wrote(api, data):
    answer = data.draw(entities(response_class(api, CLIENT_VERSIONS[api])))
    assert decode_body(api, memoryview(kio_encode(answer))) == answer


def test_a_question_is_built_from_plain_values():
    asked = build_request(ApiKey.METADATA, topics=[{"name": "a"}, {"name": "b"}])
    assert [topic.name for topic in asked.topics] == ["a", "b"]
    assert build_request(ApiKey.METADATA, topics=None).topics is None
    with pytest.raises(KeyError):
        build_request(ApiKey.METADATA, topic="a")


@settings(max_examples=30)
@given(data=st.data())
def test_fetched_records_are_what_kio_wrote(data):
    answer: Any = data.draw(entities(FetchResponse))
    code, found = decode_fetched(memoryview(kio_encode(answer)))
    assert code == answer.error_code.value
    expected = [(topic.topic, each) for topic in answer.responses for each in topic.partitions]
    for got, (topic, each) in zip(found, expected, strict=True):
        assert (got.topic, got.partition) == (topic, each.partition_index)
        assert got.error_code == each.error_code.value
        assert got.high_watermark == each.high_watermark
        assert got.last_stable_offset == each.last_stable_offset
        assert got.log_start_offset == each.log_start_offset
        assert got.records == (each.records or b"")
        assert [(a.producer_id, a.first_offset) for a in got.aborted] == [
            (a.producer_id, a.first_offset) for a in each.aborted_transactions or ()
        ]


@given(cut=st.integers(0, 200), answer=entities(FetchResponse))
def test_a_fetch_answer_that_is_cut_off_is_malformed_and_nothing_worse(cut, answer):
    whole = kio_encode(answer)
    with contextlib.suppress(MalformedRequest):
        decode_fetched(memoryview(whole)[: min(cut, len(whole) - 1)])


def test_produce_passes_batches_on_as_they_are():
    first, second = b"batch one", bytearray(b"batch two")
    parts = encode_produce(
        "tx", -1, 1000, [OutgoingBatches("a", 0, [first, second]), OutgoingBatches("b", 3, [first])]
    )
    assert any(part is second for part in parts)
    asked = kio_decode(ProduceRequest, b"".join(parts))
    assert (asked.transactional_id, asked.acks) == ("tx", -1)
    assert [
        (topic.name, each.index, each.records)
        for topic in asked.topic_data
        for each in topic.partition_data
    ] == [("a", 0, b"batch onebatch two"), ("b", 3, b"batch one")]


@pytest.mark.parametrize("api", CLIENT_VERSIONS, ids=label)
def test_our_server_understands_the_envelope_and_we_understand_its_own(api):
    frame = b"".join(encode_request(api, 7, "me", [b"body"]))
    header = parse_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version) == (api, CLIENT_VERSIONS[api])
    assert (header.correlation_id, header.client_id, bytes(header.body)) == (7, "me", b"body")
    flexible = has_flexible_response_header(api, CLIENT_VERSIONS[api])
    reply = b"".join(encode_frame(7, flexible, [b"body"]))
    correlation_id, body = split_response(api, memoryview(reply)[4:])
    assert (correlation_id, bytes(body)) == (7, b"body")


def test_every_version_spoken_is_flexible_and_names_its_topics():
    for api in CLIENT_VERSIONS:
        cls = request_class(api, CLIENT_VERSIONS[api])
        assert cls.__flexible__ or api is ApiKey.SASL_HANDSHAKE, api  # which has no such version
        assert not _has_topic_ids(cls) or api is ApiKey.METADATA, api


def _has_topic_ids(cls: type[Any]) -> bool:
    return "topic_id" in str({field.name: field.type for field in dataclasses.fields(cls)})
