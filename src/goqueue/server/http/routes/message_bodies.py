"""Messages as JSON, both ways.

A message that is published:

    {"value": "hello", "key": "k", "headers": {"trace": "abc"}, "partition": 0,
     "timestamp": "2026-01-31T12:00:00Z", "priority": "high", "ttl": "1h", "delay": "30m",
     "encoding": "text"}

`value` is required.  A string is taken byte for byte as UTF-8, `null` is a null value (which
deletes the key in a compacted topic), and any other JSON value is kept as compact JSON text.
With `"encoding": "base64"`, said for the request or a message, key, value and header values are
base64.  Headers are an object, or a list of `{"name", "value"}` where order or repeated names
matter.

A message that is read has `partition`, `offset`, `timestamp`, `key`, `value`, `headers` (always a
list) and `priority`.  `"encoding": "base64"` is there when it was asked for, or when any of key,
value and header values is not UTF-8: it then holds for all of them.  So what was read can be
published again as it is.
"""

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from goqueue.api.messages import (
    MESSAGES_MAX,
    Encoding,
    HeaderBody,
    MessageBody,
    MessageInput,
    PlainRequest,
    PublishRequest,
    ReadEncoding,
)
from goqueue.api.parsing import parse_time, parse_wait
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.errors import InvalidRequest
from goqueue.model.record import Headers, Record
from goqueue.model.times import time_text
from goqueue.server.http.body_errors import BODY, empty_body, field_text, not_json, split_place

HEADERS_MAX: Final = 1_000  # of one message
PRIORITY_HEADER: Final = "gq-priority"
PRIORITIES: Final = ("critical", "high", "normal", "low", "background")
TTL_HEADER: Final = "gq-ttl-ms"
DELAY_HEADER: Final = "gq-delay-ms"
DELIVER_AT_HEADER: Final = "gq-deliver-at"
DEFAULT_PRIORITY: Final = "normal"
_FIELD_OF: Final = {
    PRIORITY_HEADER: "priority",
    TTL_HEADER: "ttl",
    DELAY_HEADER: "delay",
    DELIVER_AT_HEADER: "deliver_at",
}


Body = TypeVar("Body")

_QUOTE: Final = 0x22
_string_decoder = msgspec.json.Decoder(str)


# --- what comes in ------------------------------------------------------------------------------


_request_decoder = msgspec.json.Decoder(PublishRequest)
_plain_decoder = msgspec.json.Decoder(PlainRequest)


def decode_request(body: bytes) -> list[OutgoingMessage]:
    """The messages of a publish request; raises `InvalidRequest` that says what is wrong where."""
    if body.count(b'"value"') > MESSAGES_MAX:  # before memory is spent on them
        raise InvalidRequest(f"more than {MESSAGES_MAX} messages in one request")
    plain = _plain_messages(body)
    if plain is not None:
        return plain
    try:
        request = _request_decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidRequest(_problem(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = not_json(str(error)) if body else empty_body(["messages"])
        raise InvalidRequest(text) from error
    return [
        to_outgoing(message, place, request.encoding)
        for place, message in enumerate(request.messages)
    ]


def _problem(text: str) -> str:
    place, what = split_place(text)
    struct = MessageInput if place.startswith("messages[") else PublishRequest
    return f"{place or BODY}: {field_text(what, struct.__struct_fields__)}"


def _plain_messages(body: bytes) -> list[OutgoingMessage] | None:
    """The messages if all are plain, in a third of the time; None, early, if not."""
    try:
        return [
            OutgoingMessage(
                None if (value := message.value) is None else value.encode(),
                None if (key := message.key) is None else key.encode(),
            )
            for message in _plain_decoder.decode(body).messages
        ]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None  # the other way says what is wrong, if anything is


def to_outgoing(message: MessageInput, place: int, encoding: Encoding) -> OutgoingMessage:
    try:
        if (message.encoding or encoding) == "base64":
            return _outgoing_base64(message)
        key = message.key
        return OutgoingMessage(
            _text_value(message.value),
            None if key is None else key.encode(),
            _extras(message, _utf8) if _has_extras(message) else (),
            message.partition,
            _timestamp(message),
        )
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"messages[{place}]: {error}") from error
    except InvalidRequest as error:
        raise InvalidRequest(f"messages[{place}].{error}") from error


def _outgoing_base64(message: MessageInput) -> OutgoingMessage:
    text = msgspec.json.decode(message.value)
    if not isinstance(text, str | None):
        raise ValueError("value: with encoding base64 it must be a string or null")
    return OutgoingMessage(
        _from_base64(text, "value"),
        _from_base64(message.key, "key"),
        _extras(message, lambda value: _from_base64(value, "headers")),
        message.partition,
        _timestamp(message),
    )


def _text_value(raw: msgspec.Raw) -> bytes | None:
    view = memoryview(raw)
    if view[0] == _QUOTE:
        return _string_decoder.decode(view).encode()
    if bytes(view[:5]) == b"null":
        return None
    compact = msgspec.json.format(view, indent=-1)
    compact.decode()  # raises when it is no UTF-8
    return compact


def _utf8(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _from_base64(text: str | None, name: str) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name}: not base64: {error}") from error


def _timestamp(message: MessageInput) -> int | None:
    if isinstance(message.timestamp, str):
        return parse_time(message.timestamp, "timestamp")
    return message.timestamp


def _has_extras(message: MessageInput) -> bool:
    given = (message.priority, message.ttl, message.delay, message.deliver_at)
    return bool(message.headers) or any(each is not None for each in given)


def _extras(message: MessageInput, to_bytes: Callable[[str | None], bytes | None]) -> Headers:
    """The headers, with the priority and the time to live among them."""
    given = message.headers
    pairs = (
        given.items()
        if isinstance(given, dict)
        else [(header.name, header.value) for header in given]
    )
    headers = [(name, to_bytes(value)) for name, value in pairs]
    if len(headers) > HEADERS_MAX:
        raise ValueError(f"headers: {len(headers)}, {HEADERS_MAX} allowed")
    names = {name for name, _ in headers}
    extras = extra_headers(message.priority, message.ttl, message.delay, message.deliver_at)
    for name, _ in extras:
        if name in names:
            raise ValueError(f"{_FIELD_OF[name]}: given as a header {name} too")
    return (*headers, *extras)


def extra_headers(
    priority: int | str | None,
    ttl: int | str | None,
    delay: int | str | None,
    deliver_at: int | str | None,
) -> list[tuple[str, bytes | None]]:
    """The headers that stand for these fields; raises ValueError for what makes no sense."""
    headers: list[tuple[str, bytes | None]] = []
    if priority is not None:
        headers.append((PRIORITY_HEADER, priority_name(priority).encode()))
    if ttl is not None:
        headers.append((TTL_HEADER, str(ttl_ms(ttl)).encode()))
    if delay is not None and deliver_at is not None:
        raise ValueError("delay: give it or deliver_at, not both")
    if delay is not None:
        wait_ms = parse_wait(delay, "delay") if isinstance(delay, str) else delay
        headers.append((DELAY_HEADER, str(wait_ms).encode()))
    if deliver_at is not None:
        time = parse_time(deliver_at, "deliver_at") if isinstance(deliver_at, str) else deliver_at
        headers.append((DELIVER_AT_HEADER, str(time).encode()))
    return headers


def ttl_ms(given: int | str) -> int:
    """Raises ValueError for what is no time to live."""
    try:
        found = parse_wait(given, "ttl") if isinstance(given, str) else given
    except InvalidRequest as error:
        raise ValueError(str(error)) from error
    if found < 1:
        raise ValueError("ttl: must be at least 1 ms")
    return found


def priority_name(given: int | str) -> str:
    """Raises ValueError for what is no priority."""
    if isinstance(given, int):
        return PRIORITIES[given]
    name = given.lower()
    if name in PRIORITIES:
        return name
    if name in ("0", "1", "2", "3", "4"):
        return PRIORITIES[int(name)]
    raise ValueError(f"priority: {given[:40]!r} is none of {', '.join(PRIORITIES)} or 0 to 4")


# --- what goes out ------------------------------------------------------------------------------


_NO_HEADERS: Final[list[HeaderBody]] = []


def make_body(
    make: Callable[..., Body], record: Record, partition: int, encoding: ReadEncoding
) -> Body:
    """What `make` gives for the fields of a `MessageBody`, in their order."""
    if encoding == "base64":
        return _base64_body(make, record, partition)
    try:
        key, value, headers = record.key, record.value, record.headers
        return make(
            partition,
            record.offset,
            time_text(record.timestamp),
            None if key is None else key.decode(),
            None if value is None else value.decode(),
            [text_header(*header) for header in headers] if headers else _NO_HEADERS,
            _priority(headers) if headers else DEFAULT_PRIORITY,
        )
    except UnicodeDecodeError:
        return _base64_body(make, record, partition)


message_body = partial(make_body, MessageBody)


def text_header(name: str, value: bytes | None) -> HeaderBody:
    return HeaderBody(name, None if value is None else value.decode())


def _base64_body(make: Callable[..., Body], record: Record, partition: int) -> Body:
    return make(
        partition,
        record.offset,
        time_text(record.timestamp),
        _to_base64(record.key),
        _to_base64(record.value),
        [HeaderBody(name, _to_base64(value)) for name, value in record.headers],
        _priority(record.headers),
        "base64",
    )


def _to_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _priority(headers: Headers) -> str:
    """By the header, where any Kafka client may have put it; what makes no sense counts as none."""
    for name, value in headers:
        if name == PRIORITY_HEADER and value is not None:
            try:
                return priority_name(value.decode())
            except ValueError:
                return DEFAULT_PRIORITY
    return DEFAULT_PRIORITY
