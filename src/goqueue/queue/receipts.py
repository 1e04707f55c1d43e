"""Receipts: the text by which a consumer names one delivery of one message.

    topic:partition:offset:attempt:lease.group

`lease` (hexadecimal) is the number of the hand-out, unique for the broker: it fences a delivery
even from another one of the same attempt.  The group comes last, for its name may hold anything.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from goqueue.model.ids import GroupId, TopicName
from goqueue.queue.errors import ReceiptMalformed
from goqueue.queue.records import Where

LENGTH_MAX = 1_000

_DIGITS_MAX = 19


class Claim(NamedTuple):
    """Receipts of one attempt and of offsets in a row, which stood in a row in the request."""

    first: int
    last: int
    attempt: int
    place: int  # of the first in the request

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def places(self) -> slice:
        return slice(self.place, self.place + self.size)

    def each(self) -> "Iterator[Claim]":
        """The receipts one by one."""
        for step, offset in enumerate(range(self.first, self.last + 1)):
            yield Claim(offset, offset, self.attempt, self.place + step)


Claims = dict[tuple[Where, int], list[Claim]]  # by ledger and lease


def receipt(
    topic: str, partition: int, offset: int, attempt: int, lease_id: int, group_id: str
) -> str:
    before, after = frame(topic, partition, lease_id, group_id)
    return f"{before}{offset}:{attempt}{after}"


@lru_cache(maxsize=1024)
def frame(topic: str, partition: int, lease_id: int, group_id: str) -> tuple[str, str]:
    """What all receipts of one hand-out share; a large one has thousands."""
    return f"{topic}:{partition}:", f":{lease_id:x}.{group_id}"


def read_receipts(texts: Sequence[str]) -> tuple[Claims, dict[int, ReceiptMalformed]]:
    """The claims by ledger and lease, and what is no receipt by its place in `texts`."""
    claims: Claims = {}
    malformed: dict[int, ReceiptMalformed] = {}
    latest: tuple[str, str, str, str] | None = None  # receipts of one hand-out come together
    some: list[Claim] = []
    first = last = behind = -1  # the claim that is growing; the place behind it
    for place, text in enumerate(texts):
        try:
            topic, partition, number, attempt, nonce = text.split(":", 4)
            if not number.isdigit() or not attempt.isdigit() or len(text) > LENGTH_MAX:
                raise ValueError(text)
            offset = int(number)
            if latest != (topic, partition, attempt, nonce):
                some = claims.setdefault(_key(topic, partition, nonce), [])
                latest = topic, partition, attempt, nonce
                last = -1
            if offset == last + 1 and place == behind and last >= 0:
                some[-1] = Claim(first, offset, some[-1].attempt, some[-1].place)
            else:
                some.append(Claim(offset, offset, int(attempt), place))
                first = offset
            last, behind = offset, place + 1
        except ValueError:
            malformed[place] = ReceiptMalformed(f"{text[:100]!r} is not a receipt")
    return claims, malformed


def _key(topic: str, partition: str, nonce: str) -> tuple[Where, int]:
    lease, dot, group_id = nonce.partition(".")
    if not topic or not dot or not group_id or len(lease) > _DIGITS_MAX:
        raise ValueError(nonce)
    return Where(GroupId(group_id), TopicName(topic), _number(partition)), int(lease, 16)


def _number(text: str) -> int:
    if len(text) > _DIGITS_MAX or not text.isascii() or not text.isdigit():
        raise ValueError(text)
    return int(text)
