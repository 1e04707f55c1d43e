"""Dead letters: the headers that say why a message failed, and which ones were removed again.

A dead letter is the message as it was (key, value, headers, timestamp) with these further headers:

    gq-dlq-id                 group/topic/partition/offset of the message; unique
    gq-dlq-topic, -partition, -offset      where it was
    gq-dlq-group, -consumer   whose it was last
    gq-dlq-tenant             whose users know the names in these headers as they are there: inside,
                              they begin with it and a dot; missing when it is nobody's
    gq-dlq-reason, -error     max_failures, max_timeouts, max_deliveries, rejected, expired or
                              unreadable; what a consumer said, or why it cannot be decoded
    gq-dlq-attempts, -failures, -timeouts              deliveries: all, nacked, without an answer
    gq-dlq-first-delivery, -last-delivery, -time       epoch milliseconds

An unreadable one stands for all messages of a batch from its offset on: its value is the batch, as
its producer sent it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from goqueue.model import batch as batches
from goqueue.model import records as record_blocks
from goqueue.model.ids import Offset
from goqueue.model.names import NAME_LENGTH_MAX
from goqueue.model.record import RECORD_HEADERS_MAX, Headers, Record
from goqueue.queue.ranges import Range, Ranges, RangeSet
from goqueue.queue.records import DeadMessage, Move, Where

SUFFIX: Final = ".dlq"
PREFIX: Final = "gq-dlq-"

ERROR_LENGTH_MAX: Final = 1_000
RUN_BYTES_MAX: Final = 1024 * 1024  # of dead letters that are written together


class FailureHistory(msgspec.Struct, frozen=True):
    """A dead letter's headers, read."""

    dead_letter_id: str
    topic: str
    partition: int
    offset: int
    group_id: str
    consumer: str
    reason: str
    error: str
    attempts: int
    failures: int
    first_delivery: int | None
    last_delivery: int | None
    died_at: int
    timeouts: int = 0


class DeadLetterIndex:
    """One partition of dead letters."""

    def __init__(self) -> None:
        self.floor = Offset(0)  # everything below was taken out
        self.taken = RangeSet()  # above the floor
        self.moves: list[Move] = []  # on their way, and not taken yet

    def remove(self, ranges: Ranges, floor: int, kept: Ranges = ()) -> None:
        for first, last in ranges:
            self.taken.add(first, last)
        self.floor = Offset(self.taken.after(max(self.floor, floor)))
        self.taken.forget_below(self.floor)
        staying = RangeSet(kept)
        self.moves = [
            move
            for move in self.moves
            if not (self.is_taken(move.ranges[0][0]) or move.ranges[0][0] in staying)
        ]

    def reaches(self, end: int) -> bool:
        """Whether it knows anything of `end`, or of what is behind it."""
        last = max((last for _, last in self.taken.ranges[-1:]), default=-1)
        return max(self.floor, last + 1) > end or any(
            last >= end for move in self.moves for _, last in move.ranges
        )

    def shorten(self, end: int) -> None:
        """The log lost what was from `end` on."""
        self.floor = Offset(min(self.floor, end))
        self.taken.forget_from(end)
        still = ((move, tuple(_below(move.ranges, end))) for move in self.moves)
        self.moves = [msgspec.structs.replace(move, ranges=some) for move, some in still if some]

    def is_taken(self, offset: int) -> bool:
        return offset < self.floor or offset in self.taken

    def is_free(self, offset: int) -> bool:
        """Whether it is there, and not on its way elsewhere."""
        return not self.is_taken(offset) and not any(
            first <= offset <= last for move in self.moves for first, last in move.ranges
        )

    def count(self, start: int, end: int) -> int:
        """How many messages in [start, end) were not taken out, whoever wrote them."""
        first = max(start, self.floor)
        return max(0, end - first) - self.taken.count(first, max(first, end))


def _below(ranges: Ranges, end: int) -> Iterator[Range]:
    return ((first, min(last, end - 1)) for first, last in ranges if first < end)


def dead_letter_topic(topic: str) -> str:
    return topic[: NAME_LENGTH_MAX - len(SUFFIX)] + SUFFIX


def dead_letter_id(where: Where, offset: int) -> str:
    return f"{where.group_id}/{where.topic}/{where.partition}/{offset}"


def to_dead_letter(where: Where, message: DeadMessage, record: Record, tenant: str = "") -> Record:
    """The record as a dead letter: with headers that say why and when it failed.

    Readers get them as they are: they name things as the users of the tenant do.
    """
    topic, group = (
        name.removeprefix(f"{tenant}.") if tenant else name
        for name in (str(where.topic), str(where.group_id))
    )
    fields: dict[str, object] = {
        "id": f"{group}/{topic}/{where.partition}/{message.offset}",
        **({"tenant": tenant} if tenant else {}),
        "topic": topic,
        "partition": where.partition,
        "offset": message.offset,
        "group": group,
        "consumer": message.consumer,
        "reason": message.reason,
        "error": message.error,
        "attempts": message.attempts,
        "failures": message.failures,
        "timeouts": message.timeouts,
        "first-delivery": message.first_at if message.first_at >= 0 else "",
        "last-delivery": message.last_at if message.last_at >= 0 else "",
        "time": message.died_at,
    }
    headers = tuple((PREFIX + name, str(value).encode()) for name, value in fields.items())
    own = record.headers[: RECORD_HEADERS_MAX - len(headers)]  # more could not be decoded
    return msgspec.structs.replace(record, headers=(*own, *headers))


def original(record: Record) -> Record:
    """A dead letter as it was before it died."""
    return msgspec.structs.replace(record, headers=_own_headers(record.headers))


def _own_headers(headers: Headers) -> Headers:
    return tuple(header for header in headers if not header[0].startswith(PREFIX))


def read_failure_history(record: Record, topic: str = "") -> FailureHistory | None:
    """With the names as they are inside; None when the record was put there by somebody else.

    Anybody who may write to `topic`, where it was found, can have written the headers, too: they
    name a tenant only if the topic is that one's.
    """
    fields = {
        name.removeprefix(PREFIX): (value or b"").decode(errors="replace")
        for name, value in record.headers
        if name.startswith(PREFIX)
    }
    if not fields.get("id"):
        return None
    tenant = fields.get("tenant", "")
    if tenant and topic.startswith(f"{tenant}."):
        _name_inside(fields, f"{tenant}.")
    return FailureHistory(
        dead_letter_id=fields["id"],
        topic=fields.get("topic", ""),
        partition=_number(fields, "partition") or 0,
        offset=_number(fields, "offset") or 0,
        group_id=fields.get("group", ""),
        consumer=fields.get("consumer", ""),
        reason=fields.get("reason", ""),
        error=fields.get("error", ""),
        attempts=_number(fields, "attempts") or 0,
        failures=_number(fields, "failures") or 0,
        first_delivery=_number(fields, "first-delivery"),
        last_delivery=_number(fields, "last-delivery"),
        died_at=_number(fields, "time") or 0,
        timeouts=_number(fields, "timeouts") or 0,
    )


def _name_inside(fields: dict[str, str], prefix: str) -> None:
    group, topic = fields.get("group", ""), fields.get("topic", "")
    begins = f"{group}/{topic}/"
    if group and fields["id"].startswith(begins):
        fields["id"] = f"{prefix}{group}/{prefix}{topic}/{fields['id'].removeprefix(begins)}"
    for name in ("group", "topic"):
        if fields.get(name):
            fields[name] = prefix + fields[name]


def _number(fields: dict[str, str], name: str) -> int | None:
    text = fields.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def split_by_size(records: Sequence[Record], bytes_max: int) -> list[list[Record]]:
    """Runs that surely fit a batch; a record that is large by itself stands alone."""
    limit = min(bytes_max, RUN_BYTES_MAX) // 2
    found: list[list[Record]] = [[]]
    size = 0
    for record in records:
        needed = len(record.key or b"") + len(record.value or b"") + 64
        needed += sum(len(name) * 4 + len(value or b"") + 10 for name, value in record.headers)
        if found[-1] and size + needed > limit:
            found.append([])
            size = 0
        found[-1].append(record)
        size += needed
    return found


def encode_batch(
    records: Sequence[Record], now: int, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytearray:
    """Records as they were, in a batch that is as old as now, so that it is kept its whole time."""
    return batches.assemble(
        record_blocks.encode_records(records),
        base_offset=0,
        last_offset_delta=len(records) - 1,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(now, *(record.timestamp for record in records)),
        count=len(records),
        attributes=0,
        producer=producer,
    )
