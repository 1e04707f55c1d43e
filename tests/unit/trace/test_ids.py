import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.trace.events import Place
from goqueue.trace.ids import (
    derived_id,
    is_trace_id,
    parse_derived,
    parse_refused,
    parse_traceparent,
    refused_id,
    span_id,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@given(
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**24 - 1),
    st.integers(0, 2**56 - 1),
    st.integers(0, 1),
)
def test_a_derived_id_names_the_place(topic_id: bytes, partition: int, offset: int, space: int):
    trace_id = derived_id(Place(topic_id, partition, offset, space))
    assert is_trace_id(trace_id)
    assert parse_derived(trace_id) == (topic_id[:4], partition, offset, space)
    assert parse_refused(trace_id) is None


@given(st.integers(0, 2**24 - 1), st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1))
def test_the_id_of_a_refused_message_names_its_event(node: int, boot: int, number: int):
    trace_id = refused_id(node, boot, number)
    assert is_trace_id(trace_id)
    assert parse_refused(trace_id) == (node, boot, number)
    assert parse_derived(trace_id) is None


def test_a_traceparent_is_read_by_the_rules_of_w3c():
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-01".encode()) == (TRACE, SPAN, True)
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-00".encode()) == (TRACE, SPAN, False)
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01-more".encode()) == (TRACE, SPAN, True)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"00",
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN}-01-more".encode(),
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE}-{SPAN}".encode(),
    ],
)
def test_what_is_no_traceparent_is_not_believed(value: bytes | None):
    assert parse_traceparent(value) is None


def test_a_span_id_depends_on_all_of_its_parts():
    assert span_id(1, 2, 3) == span_id(1, 2, 3) != span_id(1, 23)
    assert len(span_id("x")) == 16
