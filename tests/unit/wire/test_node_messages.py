"""Messages between nodes: each one there and back, refusals, and bytes that are none of them."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import GoQueueError, NotLeader, TopicExists
from goqueue.model.markers import Marker
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frames import parse_header
from goqueue.wire.node_messages import (
    REQUESTS,
    TEXT_BYTES_MAX,
    AdmitToTransaction,
    AskController,
    EndTransaction,
    FindOrphans,
    Forward,
    Hello,
    HttpCall,
    HttpLeave,
    HttpMore,
    MetadataEnd,
    MetadataFollow,
    NodeApi,
    NodeHeartbeat,
    NodeRequest,
    NodeVerb,
    Nothing,
    Prove,
    Refusal,
    RegisterNode,
    decode_answer,
    decode_node_request,
    encode_done,
    encode_node_request,
    encode_refusal,
    error_of,
)

NOTHING = msgspec.Raw(msgspec.msgpack.encode(None))
MESSAGES: list[NodeRequest[Any]] = [
    Hello(1, 2, "cluster", b"nonce"),
    Prove(b"proof"),
    MetadataFollow(3, 4000, 5, 6),
    MetadataEnd(),
    RegisterNode(2, "directory", 7, {"kafka": "a:1"}),
    NodeHeartbeat(2, 3, 4),
    Forward("verb", NOTHING),
    AskController(3),
    AdmitToTransaction("id", 7, 1, "t", 0, adds=True),
    EndTransaction("t", 0, Marker(7, 2, 3, commits=True, is_bumped=True)),
    FindOrphans("orders", 1, [(7, 0, -1)], [0, 3]),
    HttpCall(1, "GET", "/topics", b"", [(b"host", b"a")], b"", ("a", 1), "http", "", ("b", 2)),
    HttpMore(1),
    HttpLeave(1),
    NodeVerb("verb", NOTHING),
]


def as_answer(parts: list[Any]) -> bytearray:
    return bytearray(b"\x00\x00\x00\x01" + b"".join(bytes(part) for part in parts))


@pytest.mark.parametrize("request_", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_request_is_read_as_it_was_written(request_: NodeRequest[Any]):
    frame = encode_node_request(7, request_)
    header = parse_header(memoryview(frame)[4:])
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert (header.api_key, header.correlation_id) == (request_.api, 7)
    assert decode_node_request(header.api_key, header.body) == request_


def test_every_number_has_a_request():
    assert set(REQUESTS) == set(NodeApi) == {each.api for each in MESSAGES}


def test_fields_that_a_newer_node_adds_are_skipped():
    body = msgspec.msgpack.encode({"proof": b"p", "unheard_of": [1, 2]})
    assert decode_node_request(NodeApi.PROVE, body) == Prove(b"p")


@given(st.sampled_from(list(REQUESTS)), st.binary(max_size=60))
def test_bytes_that_are_no_request_are_refused(api: int, data: bytes):
    with contextlib.suppress(MalformedRequest):
        assert isinstance(decode_node_request(api, data), REQUESTS[api])


def test_a_refusal_keeps_its_kind():
    with pytest.raises(TopicExists, match="there already"):
        decode_answer(as_answer(encode_refusal(TopicExists("there already"))), Nothing)
    with pytest.raises(NotLeader, match="elsewhere"):
        decode_answer(as_answer(encode_refusal(NotLeader("elsewhere", (3, 4)))), Nothing)
    assert decode_answer(as_answer(encode_done(Nothing())), Nothing) == Nothing()


def test_a_refusal_of_an_unknown_kind_keeps_its_text():
    error = error_of(Refusal("of_the_future", "something"))
    assert (type(error), str(error)) == (GoQueueError, "something")


def test_a_refusal_has_a_bound():
    parts = encode_refusal(GoQueueError("ä" * 10_000))
    assert sum(map(len, parts)) < TEXT_BYTES_MAX + 100
