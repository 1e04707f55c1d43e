"""The envelope: headers in, headers out."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1 import RequestHeader as HeaderV1
from kio.schema.request_header.v2 import RequestHeader as HeaderV2
from kio.schema.response_header.v0 import ResponseHeader as ResponseHeaderV0
from kio.schema.response_header.v1 import ResponseHeader as ResponseHeaderV1

from goqueue.wire.apis import VERSIONS, ApiKey, is_flexible
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frames import encode_frame, parse_header
from goqueue.wire.messages import build
from tests.unit.wire.kio_side import kio_decode, kio_encode

ANY_SUPPORTED = st.sampled_from(ApiKey).flatmap(
    lambda api: st.tuples(st.just(api), st.integers(VERSIONS[api].min, VERSIONS[api].max))
)


@given(
    ANY_SUPPORTED,
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=20),
    st.binary(max_size=20),
)
def test_a_header_of_kio_is_read_and_the_body_is_the_rest(
    supported, correlation_id, client_id, body
):
    api, version = supported
    header_class = HeaderV2 if is_flexible(api, version) else HeaderV1
    sent = build(
        header_class,
        request_api_key=int(api),
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    header = parse_header(memoryview(bytearray(kio_encode(sent) + body)))
    assert (header.api_key, header.api_version) == (api, version)
    assert (header.correlation_id, header.client_id) == (correlation_id, client_id)
    assert header.flexible == is_flexible(api, version)
    assert header.body == body
    assert not header.body.readonly


@given(st.binary(max_size=40))
def test_garbage_is_malformed_and_nothing_else(garbage):
    with suppress(MalformedRequest):
        parse_header(memoryview(garbage))


def test_an_unknown_api_keeps_its_correlation_id():
    header = parse_header(memoryview(struct.pack(">hhih", 9999, 7, 42, -1)))
    assert (header.api_key, header.correlation_id, header.client_id) == (9999, 42, None)


@pytest.mark.parametrize("size", [-2, 5, 32_767])
def test_a_client_id_longer_than_the_frame_is_malformed(size):
    with pytest.raises(MalformedRequest):
        parse_header(memoryview(struct.pack(">hhih", 0, 7, 42, size) + b"abcd"))


def test_unknown_tagged_fields_of_a_header_are_skipped():
    tagged = b"\x02\x00\x03abc\x07\x00"
    header = parse_header(memoryview(struct.pack(">hhih", 3, 12, 1, -1) + tagged + b"body"))
    assert bytes(header.body) == b"body"


@given(st.integers(-(2**31), 2**31 - 1), st.booleans(), st.lists(st.binary(max_size=9), max_size=4))
def test_a_frame_is_its_size_a_header_and_the_parts_themselves(correlation_id, flexible, parts):
    head, *rest = encode_frame(correlation_id, flexible, parts)
    assert all(part is given_part for part, given_part in zip(rest, parts, strict=True))
    (size,) = struct.unpack_from(">i", head)
    assert size == len(head) - 4 + sum(map(len, rest))
    header_class = ResponseHeaderV1 if flexible else ResponseHeaderV0
    assert kio_decode(header_class, bytes(head[4:])).correlation_id == correlation_id
