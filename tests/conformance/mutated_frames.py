"""Requests of every API and version, and the same requests damaged.  One seed decides it all.

A frame here is what follows the four bytes of its size.  Its correlation id is left alone: the
sender writes its own number there, to know which frames were answered.
"""

import io
import random
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from crc32c import crc32c
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from goqueue.model import batch as batches
from goqueue.model.record import Record
from goqueue.server.kafka.handlers import HANDLERS
from goqueue.wire.apis import VERSIONS, ApiKey, is_flexible
from goqueue.wire.codec import FieldSchema, schema_of
from goqueue.wire.messages import request_class

CORRELATION_ID: Final = slice(4, 8)
HEADER_BYTES: Final = 8
NASTY: Final = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
NASTY_LENGTHS: Final = (
    *(b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\xff\xff"),
    *(b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x80", b"\x7f\xff"),
)

# Where things lie in a record batch.
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_FROM: Final = 21


class Target(NamedTuple):
    """What sound requests are about."""

    topic: str
    topic_id: UUID


# The topic that the other requests are about must stay.
TOPIC_LIFE: Final = (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS)
TIMES: Final = {ApiKey.PRODUCE: 40, ApiKey.FETCH: 15}


# --- sound requests ---------------------------------------------------------------------------


def sound_frames(target: Target, chance: random.Random) -> list[bytes]:
    """Some of every API and version: most of those that do something."""
    found = []
    for api, versions in VERSIONS.items():
        about = Target("doomed", UUID(int=1)) if api in TOPIC_LIFE else target
        for version in range(versions.min, versions.max + 1):
            request = request_class(api, version)
            for _ in range(TIMES.get(api, 5 if api in HANDLERS else 1)):
                found.append(_frame(api, version, _entity(request, about, chance)))
    return found


def _frame(api: ApiKey, version: int, entity: Any) -> bytes:
    body = io.BytesIO()
    entity_writer(type(entity))(body, entity)
    head = struct.pack(">hhih", api, version, 0, 4) + b"fuzz"
    return head + (b"\x00" if is_flexible(api, version) else b"") + body.getvalue()


def _entity(cls: type[Any], target: Target, chance: random.Random) -> Any:
    return cls(
        **{name: _value(name, field, target, chance) for name, field in schema_of(cls).items()}
    )


def _value(name: str, field: FieldSchema, target: Target, chance: random.Random) -> Any:
    may_be_null = field.is_nullable and field.tag is None and field.kafka_type != "uuid"
    if may_be_null and chance.random() < 0.2:
        return None
    if field.is_array:
        return tuple(_one(name, field, target, chance) for _ in range(chance.choice((0, 1, 1, 2))))
    return _one(name, field, target, chance)


def _one(name: str, field: FieldSchema, target: Target, chance: random.Random) -> Any:
    if field.nested is not None:
        return _entity(field.nested, target, chance)
    match field.kafka_type:
        case "string":
            return _text(name, target, chance)
        case "records":
            return _batch(chance)
        case "bytes":
            return chance.randbytes(chance.randrange(20))
        case "uuid":
            return chance.choice((None, target.topic_id, UUID(int=chance.getrandbits(128))))
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.random()
        case "error_code":
            return chance.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=chance.choice((0, 1, 10, 6000)))
        case "datetime_i64":
            return datetime.fromtimestamp(chance.randrange(2**31), UTC)
        case _:
            return _number(name, chance)


def _text(name: str, target: Target, chance: random.Random) -> str:
    if "topic" in name or name == "name":
        return target.topic
    if "group" in name:
        return f"fuzz-group-{chance.randrange(4)}"
    return chance.choice(("", "x", "consumer", "range", target.topic, "retention.ms", "1000"))


def _number(name: str, chance: random.Random) -> int:
    if "bytes" in name:
        return chance.choice((0, 1, 100, 100))
    return chance.choice((-1, 0, 0, 1, 2, 100))


def _batch(chance: random.Random) -> bytes:
    records = [Record(0, 1, b"key", chance.randbytes(20)) for _ in range(chance.randrange(1, 4))]
    producer = chance.choice(((-1, -1, -1), (chance.randrange(9), 0, chance.randrange(3))))
    codec = chance.choice((0, 0, 1, 2, 3, 4))
    return bytes(batches.encode(records, codec=codec, producer=producer))


# --- damage -----------------------------------------------------------------------------------

Mutation = Callable[[bytearray, random.Random], None]


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """The frame with one to four things wrong; sometimes none."""
    data = bytearray(frame)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        mutation = chance.choice(MUTATIONS)
        mutation(data, chance)
    return bytes(data.ljust(1, b"\x00"))


def _flip_a_bit(data: bytearray, chance: random.Random) -> None:
    if at := _place(data, chance):
        data[at] ^= 1 << chance.randrange(8)


def _set_a_nasty_byte(data: bytearray, chance: random.Random) -> None:
    if at := _place(data, chance):
        data[at] = chance.choice(NASTY)


def _write_a_nasty_length(data: bytearray, chance: random.Random) -> None:
    if at := _place(data, chance):
        length = chance.choice(NASTY_LENGTHS)
        data[at : at + len(length)] = length


def _cut_the_end_off(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _take_bytes_out(data: bytearray, chance: random.Random) -> None:
    if at := _place(data, chance):
        del data[at : at + chance.randrange(1, 9)]


def _put_bytes_in(data: bytearray, chance: random.Random) -> None:
    if at := _place(data, chance):
        data[at:at] = chance.randbytes(chance.randrange(1, 9))


def _repeat_a_part(data: bytearray, chance: random.Random) -> None:
    if at := _place(data, chance):
        data[at:at] = data[at : at + 50] * chance.randrange(1, 20)


def _ask_another_api(data: bytearray, chance: random.Random) -> None:
    if len(data) >= HEADER_BYTES:
        data[0:2] = chance.choice((chance.randrange(100), chance.getrandbits(16))).to_bytes(2)


def _ask_another_version(data: bytearray, chance: random.Random) -> None:
    if len(data) >= HEADER_BYTES:
        data[2:4] = chance.choice((chance.randrange(20), chance.getrandbits(16))).to_bytes(2)


def _damage_a_batch(data: bytearray, chance: random.Random) -> None:
    """Change something in it and, more often than not, make the checksum right again."""
    start = data.find(b"\xff\xff\xff\xff\x02") - 12  # leader epoch and magic of what we encode
    if start < 0 or len(data) < start + 61:
        return
    length = int.from_bytes(data[start + 8 : start + 12])
    end = min(len(data), start + 12 + length)
    at = chance.choice((MAGIC_AT, CRC_AT, 21, 22, 23, 26, 43, 51, 57, 60, chance.randrange(8, 80)))
    if start + at < end:
        data[start + at] = chance.choice((*NASTY, chance.getrandbits(8)))
    if chance.random() < 0.7:
        crc = crc32c(bytes(data[start + CRC_FROM : end]))
        data[start + CRC_AT : start + CRC_FROM] = crc.to_bytes(4)


def _place(data: bytearray, chance: random.Random) -> int:
    """Anywhere behind the correlation id; 0 when there is no such place."""
    return chance.randrange(HEADER_BYTES, len(data)) if len(data) > HEADER_BYTES else 0


MUTATIONS: Final[tuple[Mutation, ...]] = (
    _flip_a_bit,
    _flip_a_bit,
    _set_a_nasty_byte,
    _set_a_nasty_byte,
    _write_a_nasty_length,
    _cut_the_end_off,
    _take_bytes_out,
    _put_bytes_in,
    _repeat_a_part,
    _ask_another_api,
    _ask_another_version,
    _damage_a_batch,
    _damage_a_batch,
)


def damaged_frames(target: Target, seed: int) -> Iterator[bytes]:
    """Without end."""
    chance = random.Random(seed)
    sound = sound_frames(target, chance)
    while True:
        yield damaged(chance.choice(sound), chance)


def wrong_size(frame: bytes, chance: random.Random) -> bytes:
    """The frame behind a size that is not its own."""
    size = chance.choice(
        (0, -1, -(2**31), 2**31 - 1, 104_857_601, 104_857_600, len(frame) + 1, len(frame) - 1)
    )
    return struct.pack(">i", size) + frame
