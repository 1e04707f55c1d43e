"""A message on its way in and on its way out, and its shape in JSON.

JSON has text only.  A message whose key, value and headers are all UTF-8 travels as text; any
other travels whole in base64 and says so (`"encoding": "base64"`).
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from goqueue.api.dlq import DeadLetterBody
from goqueue.api.groups import GroupMessage
from goqueue.api.messages import MessageBody
from goqueue.api.queues import PeekedMessage, QueueMessage
from goqueue.model.times import TimeText

BASE64: Final = "base64"
Payload = str | bytes | None
JsonValue = dict[str, Any] | list[Any]
HeaderInput = Mapping[str, Payload] | Sequence[tuple[str, Payload]]
NO_TIME: Final = -1


class Message(msgspec.Struct, frozen=True):
    """What to publish.  Texts stand for their UTF-8 bytes; a value of None is a tombstone."""

    value: Payload | JsonValue
    """A dictionary or a list is written as JSON."""
    key: Payload = None
    headers: HeaderInput = ()
    """By name; or pairs, where order or repeated names matter."""
    partition: int | None = None
    """Where it goes; None: by its key, or any."""
    timestamp: int | None = None
    """Wall-clock milliseconds; None: when the server gets it."""
    priority: str | int | None = None
    """In queues: critical, high, normal, low, background, or 0 to 4."""
    ttl_ms: int | None = None
    """How long queues deliver it; None: as the group says."""
    delay_ms: int | None = None
    """Deliver it so much later; it is kept until then."""
    deliver_at: int | str | None = None
    """Deliver it then: wall-clock milliseconds, or RFC 3339."""

    @property
    def size_bytes(self) -> int:
        """About what it takes on the way."""
        size = len(self.key or b"") + len(_payload(self.value) or b"")
        return size + sum(len(name) + len(value or b"") for name, value in self.header_pairs)

    @property
    def header_pairs(self) -> Sequence[tuple[str, Payload]]:
        return list(self.headers.items()) if isinstance(self.headers, Mapping) else self.headers


Publishable = Message | str | bytes | dict[str, Any]


Publishables = Publishable | Iterable[Publishable]


def as_messages(given: Publishables) -> list[Message]:
    """One message, or several: texts, bytes, dictionaries for JSON, and `Message` for the rest."""
    if isinstance(given, Message | str | bytes | dict):
        given = [given]
    return [each if isinstance(each, Message) else _plain_message(each) for each in given]


def _plain_message(value: str | bytes | dict[str, Any]) -> Message:
    if not isinstance(value, str | bytes | dict):
        raise TypeError(
            f"a message is a text, bytes, a dictionary or a goqueue.Message, not {value!r}"
        )
    return Message(value)


class Received(msgspec.Struct, frozen=True):
    """A message as it lies in the log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


# --- to JSON --------------------------------------------------------------------------------------


def to_wire(message: Message) -> dict[str, Any]:
    headers = message.header_pairs
    content = _payload(message.value)
    payloads = (message.key, content, *(value for _, value in headers))
    is_text = all(_is_text(each) for each in payloads)
    write = _as_text if is_text else _as_base64
    wire: dict[str, Any] = {"value": write(content)}
    if message.key is not None:
        wire["key"] = write(message.key)
    if headers:
        wire["headers"] = [{"name": name, "value": write(value)} for name, value in headers]
    if message.partition is not None:
        wire["partition"] = message.partition
    if message.timestamp is not None:
        wire["timestamp"] = message.timestamp
    if message.priority is not None:
        wire["priority"] = message.priority
    if message.ttl_ms is not None:
        wire["ttl"] = message.ttl_ms
    if message.delay_ms is not None:
        wire["delay"] = message.delay_ms
    if message.deliver_at is not None:
        wire["deliver_at"] = message.deliver_at
    if not is_text:
        wire["encoding"] = BASE64
    return wire


def payload_bytes(value: Payload | JsonValue) -> bytes | None:
    payload = _payload(value)
    return payload.encode() if isinstance(payload, str) else payload


def _payload(value: Payload | JsonValue) -> Payload:
    return msgspec.json.encode(value) if isinstance(value, dict | list) else value


def _is_text(payload: Payload) -> bool:
    if not isinstance(payload, bytes):
        return True
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_text(payload: Payload) -> str | None:
    return payload.decode() if isinstance(payload, bytes) else payload


def _as_base64(payload: Payload) -> str | None:
    if payload is None:
        return None
    data = payload.encode() if isinstance(payload, str) else payload
    return base64.b64encode(data).decode()


# --- from JSON ------------------------------------------------------------------------------------


AnyMessage = MessageBody | GroupMessage | QueueMessage | PeekedMessage | DeadLetterBody


def from_wire(wire: AnyMessage, topic: str) -> Received:
    read = from_base64 if wire.encoding == BASE64 else _from_text
    return Received(
        topic=topic,
        partition=wire.partition,
        offset=wire.offset,
        timestamp=milliseconds(wire.timestamp),
        key=read(wire.key),
        value=read(wire.value),
        headers=tuple((header.name, read(header.value)) for header in wire.headers),
    )


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def milliseconds(time: TimeText) -> int:
    match time:
        case None:
            return NO_TIME
        case int():
            return time
        case str():
            return round(datetime.fromisoformat(time).timestamp() * 1000)
