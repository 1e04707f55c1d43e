"""The record headers of delayed messages.

    gq-delay-ms        how long to wait, in milliseconds            from any client
    gq-deliver-at      until when: RFC 3339, or milliseconds since 1970
    gq-delayed-from    partition and offset in the delay log        in the message that is delivered
    gq-published-at    the message's timestamp when it was published, in milliseconds

The first two are taken out when a message is scheduled, and the others put in.  So whoever
publishes a message again, headers and all, does not delay it once more.
"""

from typing import Final

from goqueue.model.errors import InvalidRecord
from goqueue.model.header_marks import HeaderMarks
from goqueue.model.ids import Timestamp
from goqueue.model.record import Buffer, Headers, Record
from goqueue.model.times import parse_time

DELAY_HEADER: Final = "gq-delay-ms"
DELIVER_AT_HEADER: Final = "gq-deliver-at"
FROM_HEADER: Final = "gq-delayed-from"
PUBLISHED_HEADER: Final = "gq-published-at"
OURS: Final = frozenset((DELAY_HEADER, DELIVER_AT_HEADER, FROM_HEADER, PUBLISHED_HEADER))
DUE_MAX: Final = Timestamp(253_402_300_799_999)  # the end of the year 9999
NOT_DELAYED: Final = Timestamp(-1)

_DELAY_DIGITS_MAX: Final = 18
_MARKS: Final = HeaderMarks(DELAY_HEADER, DELIVER_AT_HEADER)


def due_of(headers: Headers, now: Timestamp) -> Timestamp:
    """When the message is due, as its headers say; raises `InvalidRecord` that says what is wrong.

    `NOT_DELAYED` without such a header.
    """
    due = NOT_DELAYED
    for name, value in headers:
        if name not in (DELAY_HEADER, DELIVER_AT_HEADER):
            continue
        if due != NOT_DELAYED:
            raise InvalidRecord(f"give one of the headers {DELAY_HEADER} and {DELIVER_AT_HEADER}")
        text = _text(name, value)
        due = _due_after(text, now) if name == DELAY_HEADER else _due_at(text)
        if due > DUE_MAX:
            raise InvalidRecord(f"header {name}: {text[:60]!r} is behind the year 9999")
    return due


def _text(name: str, value: bytes | None) -> str:
    try:
        return (value or b"").decode().strip()
    except UnicodeDecodeError as error:
        raise InvalidRecord(f"header {name}: it is not text: {error}") from error


def _due_after(text: str, now: Timestamp) -> Timestamp:
    if not (text.isascii() and text.isdigit()):
        raise InvalidRecord(
            f"header {DELAY_HEADER}: {text[:60]!r} is not a number of milliseconds, 0 or more"
        )
    if len(text) > _DELAY_DIGITS_MAX:
        return Timestamp(DUE_MAX + 1)
    return Timestamp(now + int(text))


def _due_at(text: str) -> Timestamp:
    try:
        return Timestamp(max(0, parse_time(text)))
    except ValueError as error:
        raise InvalidRecord(f"header {DELIVER_AT_HEADER}: {error}") from error


def waiting_record(record: Record, due: Timestamp, partition: int, offset: int) -> Record:
    """As it is kept in the delay log, at `offset`: with the headers that it is delivered with.

    Its timestamp there is when it is due.
    """
    headers = (
        *[each for each in record.headers if each[0] not in OURS],
        (FROM_HEADER, b"%d:%d" % (partition, offset)),
        (PUBLISHED_HEADER, b"%d" % record.timestamp),
    )
    return Record(offset, due, record.key, record.value, headers)


def source_offset(record: Record) -> int | None:
    """Where the delivered message was in the delay log."""
    for name, value in reversed(record.headers):
        if name == FROM_HEADER and value is not None:
            _, _, offset = value.partition(b":")
            return int(offset) if offset.isdigit() else None
    return None


def publish_time(headers: Headers) -> int:
    """The timestamp with which a waiting message was published; -1 when it had none."""
    for name, value in reversed(headers):
        if name == PUBLISHED_HEADER and value is not None and value.isdigit():
            return int(value)
    return -1


def may_hold_delays(data: Buffer) -> bool:
    """Whether a header that delays may be in the records, which are not compressed."""
    return _MARKS.may_be_in(data)
