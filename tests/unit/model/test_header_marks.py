import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.header_marks import SMALL_BYTES, HeaderMarks

MARKS = HeaderMarks("gq-delay-ms", "traceparent", "gq-deliver-at")
RECORDS = {"small": b"", "large": b"some text " * SMALL_BYTES}


def record_header(name: str) -> bytes:
    return struct.pack("b", 2 * len(name)) + name.encode() + b"\x02v"


@pytest.mark.parametrize("around", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("name", ["gq-delay-ms", "traceparent", "gq-deliver-at"])
def test_each_name_is_found_wherever_it_is(name: str, around: bytes) -> None:
    for data in (record_header(name) + around, around + record_header(name), record_header(name)):
        assert MARKS.may_be_in(data)
        assert MARKS.may_be_in(memoryview(bytearray(data)))


@pytest.mark.parametrize("around", RECORDS.values(), ids=RECORDS)
def test_a_name_in_a_text_or_of_another_length_is_none(around: bytes) -> None:
    assert not MARKS.may_be_in(around)
    assert not MARKS.may_be_in(around + b"traceparent gq-delay-ms")
    assert not MARKS.may_be_in(around + record_header("gq-delay-ms2"))


def test_a_byte_that_begins_many_marks_hides_none() -> None:
    assert MARKS.may_be_in(b"\x16" * 5_000 + record_header("traceparent"))
    assert not MARKS.may_be_in(b"\x16traceparen" * 5_000)


@given(st.binary(max_size=3_000), st.integers(0, 3_000), st.booleans())
def test_it_is_found_in_any_bytes(some: bytes, at: int, is_large: bool) -> None:
    data = some[:at] + record_header("gq-deliver-at") + some[at:]
    assert MARKS.may_be_in(data + os.urandom(SMALL_BYTES) if is_large else data)
