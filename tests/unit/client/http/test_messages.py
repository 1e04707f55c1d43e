"""Messages survive the way through JSON, whatever bytes they are."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.api.messages import MessageBody
from goqueue.client.http.messages import (
    Message,
    Publishables,
    as_messages,
    from_wire,
    milliseconds,
    to_wire,
)

payloads = st.none() | st.binary(max_size=20) | st.text(max_size=20)


def as_bytes(payload: str | bytes | None) -> bytes | None:
    return payload.encode() if isinstance(payload, str) else payload


@given(payloads, payloads, st.lists(st.tuples(st.text(max_size=5), payloads), max_size=3))
def test_what_is_published_can_be_read_back(key, value, headers):
    sent = msgspec.json.encode(to_wire(Message(value, key, headers)))
    stored = {
        **{"partition": 2, "offset": 7, "timestamp": "1970-01-01T00:00:01.500Z"},
        **{"key": None, "headers": [], "priority": "normal"},
        **msgspec.json.decode(sent),
    }
    read = from_wire(msgspec.convert(stored, MessageBody), "t")
    assert (read.key, read.value) == (as_bytes(key), as_bytes(value))
    assert read.headers == tuple((name, as_bytes(each)) for name, each in headers)
    assert (read.topic, read.partition, read.offset, read.timestamp) == ("t", 2, 7, 1500)


def test_text_travels_as_text():
    wire = to_wire(Message("häuser", "k", {"a": "1"}, partition=3, timestamp=5))
    assert wire == {
        "value": "häuser",
        "key": "k",
        "headers": [{"name": "a", "value": "1"}],
        "partition": 3,
        "timestamp": 5,
    }


def test_a_message_that_is_not_text_travels_whole_in_base64():
    assert to_wire(Message(b"\xff", "k")) == {"value": "/w==", "key": "aw==", "encoding": "base64"}


def test_a_message_without_a_time_or_beyond_all_calendars_has_a_number():
    assert milliseconds(None) == -1
    assert milliseconds(2**60) == 2**60


def test_a_size_counts_everything():
    assert Message(b"12", "345", {"6": b"78"}).size_bytes == 8


# --- what can be published ------------------------------------------------------------------------


def test_texts_bytes_dictionaries_and_messages_can_be_published():
    given: Publishables = ["text", b"bytes", {"a": 1}, Message({"b": [2]}, key="k"), Message([3])]
    assert [to_wire(each) for each in as_messages(given)] == [
        {"value": "text"},
        {"value": "bytes"},
        {"value": '{"a":1}'},
        {"value": '{"b":[2]}', "key": "k"},
        {"value": "[3]"},
    ]


@pytest.mark.parametrize("one", ["text", b"bytes", {"a": 1}, Message("m")])
def test_one_message_needs_no_list(one: Publishables):
    assert len(as_messages(one)) == 1


def test_what_is_no_message_is_refused_by_name():
    with pytest.raises(TypeError, match=r"goqueue\.Message, not 7"):
        as_messages([7])  # type: ignore[list-item]


def test_the_size_of_json_is_that_of_its_text():
    assert Message({"a": 1}).size_bytes == len('{"a":1}')
