"""Record headers that queues read: time to live, ordering key, fairness, priority."""

from typing import Final

from crc32c import crc32c

from goqueue.model.record import Record

TTL_HEADER: Final = "gq-ttl-ms"
TTL_MARK: Final = TTL_HEADER.encode()
ORDERING_HEADER: Final = "gq-ordering-key"

_TTL_DIGITS_MAX: Final = 15


def is_outdated(record: Record, ttl_ms: int, now: int) -> bool:
    """Whether the message is past its time to live, its own or else the one given.

    Without a timestamp it has no age.
    """
    for name, value in record.headers:
        if name == TTL_HEADER and value and value.isdigit() and len(value) <= _TTL_DIGITS_MAX:
            ttl_ms = int(value)
    return 0 < ttl_ms <= now - record.timestamp and record.timestamp >= 0


def ordering_key(record: Record) -> int | None:
    """A number for the message's key; None when it has none, and so no order.

    Two keys with one number wait for each other now and then, which is all that happens.
    """
    key = record.key
    if record.headers:
        for name, value in record.headers:
            if name == ORDERING_HEADER:
                key = value
    return None if key is None else crc32c(key)


def header_value(record: Record, wanted: str) -> bytes | None:
    for name, value in record.headers:
        if name == wanted:
            return value
    return None
