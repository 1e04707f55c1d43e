"""Messages to publish, from arguments, files and pipes, in batches.

A pipe may be slow (`tail -f`): what has come is sent when nothing more follows at once, and not
only when a batch is full.
"""

import io
import os
import select
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final

import msgspec

from goqueue.cli.failures import UsageFailure
from goqueue.client.http.messages import BASE64, Message, from_base64, milliseconds

BATCH_MESSAGES: Final = 1000
# The keyless messages of a request go to one partition, and each request to the next one.  So the
# first requests are small: a short input is spread too.
FIRST_BATCHES: Final = 20
FIRST_BATCH_MESSAGES: Final = 50
BATCH_BYTES: Final = 1024 * 1024
READ_BYTES: Final = 256 * 1024
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
LINGER_SECONDS: Final = 0.02

Maker = Callable[[bytes], Message]  # of one line


class Defaults(msgspec.Struct, frozen=True):
    """What a message has that does not say otherwise."""

    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


# --- lines ----------------------------------------------------------------------------------------


def lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """The stream's lines without their ends; None where no more follows at once."""
    rest = b""
    while chunk := _read(stream):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > LINE_BYTES_MAX:
            raise UsageFailure(f"a line of more than {LINE_BYTES_MAX} bytes: is this text?")
        if not _more_soon(stream):
            yield None
    if rest:
        yield rest


def _read(stream: BinaryIO) -> bytes:
    if isinstance(stream, io.BufferedReader):
        return stream.read1(READ_BYTES)
    return stream.read(READ_BYTES)


def _more_soon(stream: BinaryIO) -> bool:
    try:
        ready, _, _ = select.select([stream.fileno()], [], [], LINGER_SECONDS)
    except (OSError, ValueError, io.UnsupportedOperation):  # not a pipe: it never pauses
        return True
    return bool(ready)


def is_terminal(stream: BinaryIO) -> bool:
    try:
        return os.isatty(stream.fileno())
    except (OSError, io.UnsupportedOperation):
        return False


# --- messages -------------------------------------------------------------------------------------


def message_maker(form: str, key_separator: str | None, defaults: Defaults) -> Maker:
    """How a line becomes a message."""
    if form == "json":
        return lambda line: _from_json(line, defaults)
    if form != "raw":
        raise UsageFailure(f"--format {form}: must be raw or json")
    separator = None if key_separator is None else key_separator.encode()
    return lambda line: _from_raw(line, separator, defaults)


def _from_raw(line: bytes, separator: bytes | None, defaults: Defaults) -> Message:
    key: str | bytes | None = defaults.key
    if separator:
        before, found, after = line.partition(separator)
        if found:
            key, line = before, after
    return Message(line, key, defaults.headers, defaults.partition, defaults.timestamp)


class JsonHeader(msgspec.Struct, frozen=True):
    name: str
    value: str | None = None


class JsonLine(msgspec.Struct, frozen=True):
    """A message as `consume --format json` writes it; what else is in the line is passed over."""

    value: msgspec.Raw
    key: str | None = None
    headers: dict[str, str | None] | list[JsonHeader] | None = None
    partition: int | None = None
    timestamp: int | str | None = None
    encoding: str | None = None

    def header_pairs(self) -> list[tuple[str, str | None]]:
        if isinstance(self.headers, dict):
            return list(self.headers.items())
        return [(each.name, each.value) for each in self.headers or ()]


_decoder = msgspec.json.Decoder(JsonLine)


def _from_json(line: bytes, defaults: Defaults) -> Message:
    try:
        given = _decoder.decode(line)
        to_bytes = from_base64 if given.encoding == BASE64 else _utf8
        value = to_bytes(_value(given.value))
        key = defaults.key if given.key is None else to_bytes(given.key)
        headers = [(name, to_bytes(each)) for name, each in given.header_pairs()]
        timestamp = None if given.timestamp is None else milliseconds(given.timestamp)
    except ValueError as error:
        shown = line[:80].decode(errors="replace")
        raise UsageFailure(f"not a message in JSON: {error}: {shown}") from error
    return Message(
        value,
        key,
        [*defaults.headers, *headers],
        defaults.partition if given.partition is None else given.partition,
        defaults.timestamp if timestamp is None else timestamp,
    )


def _value(raw: msgspec.Raw) -> str | None:
    """A text or null; anything else as compact JSON."""
    value = msgspec.json.decode(raw)
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.format(bytes(raw), indent=-1).decode()


def _utf8(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


# --- batches --------------------------------------------------------------------------------------


def batches(messages: Iterable[Message | None]) -> Iterator[list[Message]]:
    """As full as the limits allow, and cut short at every None."""
    made = 0
    batch: list[Message] = []
    size = 0
    for message in messages:
        if batch and (message is None or size + message.size_bytes > BATCH_BYTES):
            yield batch
            made, batch, size = made + 1, [], 0
        if message is None:
            continue
        batch.append(message)
        size += message.size_bytes
        if len(batch) >= (FIRST_BATCH_MESSAGES if made < FIRST_BATCHES else BATCH_MESSAGES):
            yield batch
            made, batch, size = made + 1, [], 0
    if batch:
        yield batch


def messages_of(stream: BinaryIO, make: Maker) -> Iterator[Message | None]:
    return (None if line is None else make(line) for line in lines(stream))
