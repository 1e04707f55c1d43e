"""Receipts: the text by which a consumer names one delivery of one message.

    topic:partition:offset:attempt:lease-epoch.group

`lease` is the number of the delivery, unique in the partition's ledger: it fences a delivery even
from another one of the same attempt.  `epoch` is that of the partition's leader, and always 0 where
nodes have no peers.  Both are hexadecimal.  The group comes last, for its name may hold anything.

A receipt from before partitions had ledgers has no epoch.  Its lease was unique for the broker; the
ledgers count on from there, so it is as good as it was.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from goqueue.model.ids import GroupId, TopicName
from goqueue.queue.errors import ReceiptMalformed
from goqueue.queue.records import Where

LENGTH_MAX = 1_000

NO_PEERS_EPOCH = 0  # of the leader of a partition that only this node has
_DIGITS_MAX = 19
STEP_MAX = 256  # receipts that are written at once, to be compared


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
    """What all receipts of one delivery share; a large one has thousands."""
    return f"{topic}:{partition}:", f":{lease_id:x}-{NO_PEERS_EPOCH}.{group_id}"


def read_receipts(texts: Sequence[str]) -> tuple[Claims, dict[int, ReceiptMalformed]]:
    """The claims by ledger and lease, and what is no receipt by its place in `texts`."""
    claims: Claims = {}
    malformed: dict[int, ReceiptMalformed] = {}
    key: tuple[Where, int] | None = None
    keyed = ("", "", "")  # receipts of one delivery come together
    texts = list(texts)
    place = 0
    while place < len(texts):
        text = texts[place]
        try:
            topic, partition, offset, attempt, nonce = text.split(":", 4)
            if len(text) > LENGTH_MAX:
                raise ValueError(text)
            if key is None or keyed != (topic, partition, nonce):
                key, keyed = _key(topic, partition, nonce), (topic, partition, nonce)
            first = _number(offset)
            size = _run_size(texts, place, f"{topic}:{partition}:", first, f":{attempt}:{nonce}")
            claim = Claim(first, first + size - 1, _number(attempt), place)
        except ValueError:
            malformed[place] = ReceiptMalformed(f"{text[:100]!r} is not a receipt")
            place += 1
            continue
        claims.setdefault(key, []).append(claim)
        place += size
    return claims, malformed


def _run_size(texts: Sequence[str], place: int, before: str, first: int, after: str) -> int:
    """How many receipts from `place` on are those of `first` and the offsets that follow it.

    What they would be is written and compared, in ever longer pieces, since that takes a quarter of
    the time that reading takes.
    """
    if place + 1 >= len(texts) or texts[place + 1] != f"{before}{first + 1}{after}":
        return 1
    size, step = 2, 2
    while place + size < len(texts):
        given = texts[place + size : place + size + step]
        offsets = range(first + size, first + size + len(given))
        expected = [f"{before}{offset}{after}" for offset in offsets]
        if given != expected:
            return size + _alike(given, expected)
        size += len(given)
        step = min(step * 2, STEP_MAX)
    return size


def _alike(given: Sequence[str], expected: Sequence[str]) -> int:
    """How many of them, from the first on."""
    for place, (one, other) in enumerate(zip(given, expected, strict=True)):
        if one != other:
            return place
    return len(expected)


def _key(topic: str, partition: str, nonce: str) -> tuple[Where, int]:
    numbers, dot, group_id = nonce.partition(".")
    lease, dash, epoch = numbers.partition("-")
    if not topic or not dot or not group_id or len(numbers) > 2 * _DIGITS_MAX:
        raise ValueError(nonce)
    if dash:
        int(epoch, 16)  # it must be one; the ledger alone says what the lease is good for
    return Where(GroupId(group_id), TopicName(topic), _number(partition)), int(lease, 16)


def _number(text: str) -> int:
    if len(text) > _DIGITS_MAX or not text.isascii() or not text.isdigit():
        raise ValueError(text)
    return int(text)
