"""Bytes that are not a request: they raise `MalformedRequest`, nothing else, and cost nothing."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.fetch import decode_fetch
from goqueue.wire.messages import decode_request, request_class
from goqueue.wire.produce import decode_produce
from tests.unit.wire.kio_side import entities, kio_encode, label

every_api = pytest.mark.parametrize("api", VERSIONS, ids=label)

# Bytes that lengths are made of: the largest, the negative, the unfinished.
NASTY = st.sampled_from([0x00, 0x01, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)


def decoder(api: ApiKey, version: int) -> Callable[[bytes], Any]:
    if api is ApiKey.PRODUCE:
        return lambda raw: decode_produce(version, memoryview(raw))
    if api is ApiKey.FETCH:
        return lambda raw: decode_fetch(version, memoryview(raw))
    return lambda raw: decode_request(api, version, raw)


def versions_of(api: ApiKey) -> range:
    return range(VERSIONS[api].min, VERSIONS[api].max + 1)


@every_api
@settings(max_examples=25)
@given(data=st.data())
def test_a_damaged_request_is_malformed_or_another_request(api, data):
    version = data.draw(st.sampled_from(versions_of(api)))
    raw = bytearray(kio_encode(data.draw(entities(request_class(api, version)))))
    edits = data.draw(st.lists(st.tuples(st.integers(0, 2**16), NASTY), min_size=1, max_size=8))
    for place, byte in edits:
        if raw:
            raw[place % len(raw)] = byte
        with suppress(MalformedRequest):
            decoder(api, version)(bytes(raw))


@every_api
@settings(max_examples=5)
@given(data=st.data())
def test_every_proper_beginning_of_a_request_is_malformed(api, data):
    version = data.draw(st.sampled_from(versions_of(api)))
    raw = kio_encode(data.draw(entities(request_class(api, version))))
    decode = decoder(api, version)
    decode(raw)
    for size in range(min(len(raw), 300)):
        with pytest.raises(MalformedRequest):
            decode(raw[:size])


@every_api
@settings(max_examples=25)
@given(garbage=st.binary(max_size=64) | st.lists(NASTY, max_size=64).map(bytes))
def test_garbage_is_malformed_or_a_request(api, garbage):
    for version in versions_of(api):
        with suppress(MalformedRequest):
            decoder(api, version)(garbage)


@every_api
def test_a_huge_count_in_a_small_body_costs_nothing(api):
    """A reader that trusts a count of two thousand million asks for gigabytes at once."""
    for version in versions_of(api):
        decode = decoder(api, version)
        with suppress(MalformedRequest):
            decode(b"")  # imports and compiles the codec
        assert _peak_bytes(decode) < 200_000


def _peak_bytes(decode: Callable[[bytes], Any]) -> int:
    tracemalloc.start()
    try:
        for start in range(20):
            for count in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07"):
                with suppress(MalformedRequest):
                    decode(bytes(start) + count + bytes(20))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "varint", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 20]
)
def test_a_varint_over_32_bits_is_malformed(varint):
    with pytest.raises(MalformedRequest):
        decode_request(ApiKey.METADATA, 12, varint + bytes(20))


def test_text_that_is_not_utf8_is_malformed():
    with pytest.raises(MalformedRequest):
        decode_request(ApiKey.FIND_COORDINATOR, 0, b"\x00\x02\xff\xfe")
