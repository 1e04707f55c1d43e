"""Lines become messages, and messages become batches."""

import io
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli import intake
from goqueue.cli.failures import UsageFailure
from goqueue.cli.intake import Defaults, batches, lines, message_maker, messages_of
from goqueue.cli.rendering import as_json, renderer
from goqueue.client.http.messages import Message, Received


class Trickle(io.RawIOBase):
    """A stream that gives its bytes in given pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = next(self._pieces, b"")
        buffer[: len(piece)] = piece
        return len(piece)


@given(st.lists(st.binary(min_size=1, max_size=9)))
def test_lines_do_not_depend_on_how_the_bytes_arrive(pieces: list[bytes]):
    stream = io.BufferedReader(Trickle(pieces))  # type: ignore[type-var] # a raw stream in fact
    expected = b"".join(pieces).split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [line for line in lines(stream) if line is not None] == expected


def test_what_has_come_is_sent_when_a_pipe_pauses():
    source, sink = os.pipe()
    os.write(sink, b"first\n")
    with os.fdopen(source, "rb") as stream:
        found = batches(messages_of(stream, message_maker("raw", None, Defaults())))
        assert [message.value for message in next(found)] == [b"first"]
        os.write(sink, b"second\n")
        os.close(sink)
        assert [message.value for message in next(found)] == [b"second"]


def test_a_batch_is_bounded_in_messages_and_bytes():
    first = [intake.FIRST_BATCH_MESSAGES] * intake.FIRST_BATCHES
    count = sum(first) + intake.BATCH_MESSAGES * 2 + 1
    many: Iterator[Message] = (Message("x") for _ in range(count))
    assert [len(each) for each in batches(many)] == [*first, *[intake.BATCH_MESSAGES] * 2, 1]
    large = [Message("x" * (intake.BATCH_BYTES // 2)) for _ in range(3)]
    assert [len(each) for each in batches(large)] == [2, 1]
    huge = [Message("x" * (intake.BATCH_BYTES + 1)), Message("y")]
    assert [len(each) for each in batches(huge)] == [1, 1]


def test_a_line_is_the_value_or_key_and_value():
    assert message_maker("raw", None, Defaults(key="k"))(b"a:b") == Message(b"a:b", "k")
    assert message_maker("raw", ":", Defaults(key="k"))(b"a:b:c") == Message(b"b:c", b"a")
    assert message_maker("raw", ":", Defaults(key="k"))(b"plain") == Message(b"plain", "k")


def test_a_json_line_has_all_a_message_has():
    make = message_maker("json", None, Defaults(headers=(("all", "1"),), partition=9))
    made = make(
        b'{"value": {"a": [1, 2]}, "key": "k", "headers": {"h": "2"}, "offset": 5,'
        b' "timestamp": "1970-01-01T00:00:01Z"}'
    )
    assert made == Message(b'{"a":[1,2]}', b"k", [("all", "1"), ("h", b"2")], 9, 1000)


@pytest.mark.parametrize(
    "line", [b"text", b"[]", b'{"key": "k"}', b'{"value": "%", "encoding": "base64"}']
)
def test_a_line_that_is_no_message_is_shown(line: bytes):
    with pytest.raises(UsageFailure, match="not a message in JSON"):
        message_maker("json", None, Defaults())(line)


payloads = st.none() | st.binary(max_size=8)


@given(payloads, payloads, st.lists(st.tuples(st.text(max_size=3), payloads), max_size=2))
def test_what_consume_writes_as_json_produce_reads(key, value, headers):
    message = Received("t", 1, 2, 3, key, value, tuple(headers))
    line = renderer("json")(message).rstrip(b"\n")
    made = message_maker("json", None, Defaults())(line)
    assert made == Message(value, key, headers, 1, 3)
    assert b"\n" not in line
    assert as_json(message)["offset"] == 2
