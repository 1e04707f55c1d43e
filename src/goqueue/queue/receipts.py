"""Receipts: the text by which a consumer names one delivery of one message.

    topic:partition:offset:attempt:lease.group

`lease` (hexadecimal) is the number of the hand-out, unique for the broker: it fences a delivery
even from another one of the same attempt.  The group comes last, for its name may hold anything.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from goqueue.model.ids import GroupId, TopicName
from goqueue.queue.errors import ReceiptMalformed
from goqueue.queue.records import Where

LENGTH_MAX = 1_000

_DIGITS_MAX = 19


class Claim(NamedTuple):
    """One receipt, read; `place` is where it stood in the request."""

    offset: int
    attempt: int
    place: int


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
    latest: tuple[str, str, str] | None = None  # receipts of one hand-out come together
    some: list[Claim] = []
    make = tuple.__new__  # a third of the time that a named tuple takes to make itself
    for place, text in enumerate(texts):
        try:
            topic, partition, offset, attempt, nonce = text.split(":", 4)
            if not offset.isdigit() or not attempt.isdigit() or len(text) > LENGTH_MAX:
                raise ValueError(text)
            if latest != (topic, partition, nonce):
                key = _key(topic, partition, nonce)
                latest = topic, partition, nonce
                some = claims.setdefault(key, [])
            some.append(make(Claim, (int(offset), int(attempt), place)))
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
