"""Dead letters at work: burying, looking at, driving back, purging."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from goqueue.broker.ground import Ground
from goqueue.model.ids import Offset
from goqueue.model.record import Record
from goqueue.queue import Story

if TYPE_CHECKING:
    from goqueue.broker.queues import Queues


class DeadLetter(msgspec.Struct, frozen=True):
    """A message in `{topic}.dlq`."""

    topic: str  # where it came from
    partition: int  # of the source and of the dead letters alike
    letter_offset: Offset  # in the dead letters
    record: Record  # as it was: offset, key, value, headers, timestamp
    story: Story | None  # None for what somebody else put there


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters; what is None does not matter."""

    partition: int | None = None
    letter_offsets: frozenset[int] | None = None  # with `partition`
    key: bytes | None = None
    reason: str | None = None
    group: str | None = None
    died_from: int | None = None  # epoch ms, included
    died_to: int | None = None  # excluded
    header: tuple[str, bytes] | None = None


class Redriven(msgspec.Struct, frozen=True):
    moved: int
    looked_at: int


class DeadLetters:
    """The verbs; `topic` is always the source topic, not `{topic}.dlq`."""

    def __init__(self, ground: Ground, queues: "Queues") -> None:
        self._ground = ground
        self._queues = queues

    async def count(self, topic: str) -> int:
        raise NotImplementedError

    async def browse(
        self,
        topic: str,
        *,
        which: LetterFilter | None = None,
        limit: int = 100,
        after: tuple[int, int] | None = None,
    ) -> list[DeadLetter]:
        """By partition and offset, behind `after` (partition, letter offset); no side effects."""
        raise NotImplementedError

    async def redrive(
        self,
        topic: str,
        *,
        which: LetterFilter | None = None,
        limit: int | None = None,
        target: str | None = None,
        rate: float | None = None,
        progress: Callable[[Redriven], None] | None = None,
    ) -> Redriven:
        """Put them back as they were: to the source, or to topic `target`; `rate` a second at most.

        Durable in the target before they leave the dead letters: a crash may bring one twice, and
        never loses one.
        """
        raise NotImplementedError

    async def purge(self, topic: str, *, which: LetterFilter | None = None) -> int:
        """Take them out for good; gives how many."""
        raise NotImplementedError
