"""Dead letters: browsing, redriving and purging.

They are messages of the topic `{topic}.dlq`; `writer.py` puts them there.  One that was redriven or
purged is recorded as taken and not shown again.  Consumers of that topic may still see it until
retention, or a purge of everything, removes it.

The leader of each of its partitions is asked for its own (`partition_dead_letters.py`).
"""

from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar

from goqueue.broker.cluster.other_nodes import Verb
from goqueue.broker.dlq.partition_dead_letters import (
    REDRIVEN_AT_ONCE,
    CountDeadLetters,
    DeadLetter,
    DeadLetterFilter,
    ListTaken,
    PartitionDeadLetters,
    PurgeDeadLetters,
    ReadDeadLetters,
    RedriveDeadLetters,
    Step,
)
from goqueue.broker.services import BrokerServices
from goqueue.model.errors import GoQueueError, PartitionsMissing, Uncertain
from goqueue.model.ids import Offset
from goqueue.queue.dead_letter import dead_letter_topic
from goqueue.queue.ranges import Ranges

__all__ = ["DeadLetter", "DeadLetterFilter", "DeadLetters", "Missing"]

PAGE_MAX: Final = 10_000
ANSWER_SECONDS: Final = 60.0  # of a leader that reads or moves many

ReplyT = TypeVar("ReplyT")
Missing = dict[int, GoQueueError]  # why partitions were left out


class DeadLetters:
    """The verbs; `topic` is always the source topic, not `{topic}.dlq`.

    Who looks may give a place for what is `missing`, and gets the rest.  Else the first refusal is
    raised.
    """

    def __init__(self, services: BrokerServices, here: PartitionDeadLetters) -> None:
        self._services = services
        self._here = here

    async def count(self, topic: str, *, missing: Missing | None = None) -> int:
        """How many there are; 0 when the topic never had any."""
        total = 0
        for index in self._partitions(topic):
            total += await self._try(topic, index, CountDeadLetters(topic, index), missing) or 0
        return total

    async def count_here(self, topic: str) -> int:
        """How many there are in partitions that this node leads."""
        total = 0
        for index in self._partitions(topic):
            if self._is_here(topic, index):
                total += await self._here.carry_out(CountDeadLetters(topic, index))
        return total

    async def list_taken(
        self, topic: str, *, missing: Missing | None = None
    ) -> list[tuple[int, Offset, Ranges]]:
        """Of each partition: the offset below which all were taken out, and what was above it."""
        found: list[tuple[int, Offset, Ranges]] = []
        for index in self._partitions(topic):
            taken = await self._try(topic, index, ListTaken(topic, index), missing)
            if taken is not None:
                found.append((index, *taken))
        return found

    async def browse(
        self,
        topic: str,
        *,
        which: DeadLetterFilter | None = None,
        limit: int = 100,
        after: tuple[int, int] | None = None,
        missing: Missing | None = None,
    ) -> list[DeadLetter]:
        """By partition and offset, after `after` (partition, offset in the DLQ)."""
        found: list[DeadLetter] = []
        wanted = which or DeadLetterFilter()
        for index in self._partitions(topic, wanted.partition, after):
            step = Step()
            if after is not None and index == after[0]:
                step = Step(first=Offset(after[1] + 1))
            while not step.is_over and len(found) < limit:
                left = min(limit - len(found), PAGE_MAX)
                verb = ReadDeadLetters(topic, index, wanted, step, left)
                page = await self._try(topic, index, verb, missing)
                if page is None:
                    break
                found += page.messages
                step = page.rest
        return found

    async def redrive(
        self,
        topic: str,
        *,
        which: DeadLetterFilter | None = None,
        limit: int | None = None,
        target: str | None = None,
        rate: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Put them back as they were: to the source, or to topic `target`; gives how many.

        At most `rate` a second; `progress` is called with how many are done.  Each is moved once,
        also when a node crashes in between: whoever leads it next finishes it.  Messages that are
        dead-lettered again meanwhile stay where they are.  Raises `PartitionsMissing` at the end
        when the leaders of some partitions refused.
        """
        moved, missing = 0, Missing()
        at_once = REDRIVEN_AT_ONCE if rate is None else max(1, min(REDRIVEN_AT_ONCE, int(rate / 4)))
        wanted = which or DeadLetterFilter()
        for index in self._partitions(topic, wanted.partition):
            async for count in self._redrive(topic, index, wanted, limit, at_once, target, missing):
                moved += count
                if progress is not None and count:
                    progress(moved)
                if rate is not None:
                    await self._services.environment.clock.sleep(count / rate)
                if limit is not None:
                    limit -= count
        _raise_missing(missing, moved, "moved")
        return moved

    async def _redrive(
        self,
        topic: str,
        index: int,
        which: DeadLetterFilter,
        limit: int | None,
        at_once: int,
        target: str | None,
        missing: Missing,
    ) -> AsyncIterator[int]:
        step, left = Step(), limit
        while not step.is_over and (left is None or left > 0):
            most = at_once if left is None else min(at_once, left)
            verb = RedriveDeadLetters(topic, index, which, step, most, target)
            done = await self._try(topic, index, verb, missing)
            if done is None:
                return
            step = done.rest
            left = None if left is None else left - done.moved
            yield done.moved

    async def purge(self, topic: str, *, which: DeadLetterFilter | None = None) -> int:
        """Delete them; gives how many.  Raises as `redrive` does."""
        count, missing, wanted = 0, Missing(), which or DeadLetterFilter()
        for index in self._partitions(topic, wanted.partition):
            count += (
                await self._try(topic, index, PurgeDeadLetters(topic, index, wanted), missing) or 0
            )
        _raise_missing(missing, count, "purged")
        return count

    # --- partitions and their leaders -------------------------------------------------------------

    def _partitions(
        self, topic: str, only: int | None = None, after: tuple[int, int] | None = None
    ) -> list[int]:
        name = dead_letter_topic(topic)
        if not self._services.has_topic(name):
            self._services.topic(topic)  # or there is no such topic
            return []
        first = 0 if after is None else after[0]
        count = self._services.topic(name).partitions
        return [index for index in range(first, count) if only in (None, index)]

    def _is_here(self, topic: str, index: int) -> bool:
        others = self._services.others
        if others is None:
            return True
        found = self._services.topic(dead_letter_topic(topic))
        try:
            return others.leader(found, index) == others.node_id
        except GoQueueError:
            return False

    async def _try(
        self, topic: str, index: int, verb: Verb[ReplyT], missing: Missing | None
    ) -> ReplyT | None:
        try:
            return await self._ask(topic, index, verb)
        except GoQueueError as error:
            if missing is None or not (error.retriable or isinstance(error, Uncertain)):
                raise
            missing[index] = error
            return None

    async def _ask(self, topic: str, index: int, verb: Verb[ReplyT]) -> ReplyT:
        others = self._services.others
        if others is None:
            return await self._here.carry_out(verb)
        found = self._services.topic(dead_letter_topic(topic))
        return await others.ask(others.leader(found, index), verb, ANSWER_SECONDS)


def _raise_missing(missing: Missing, done: int, word: str) -> None:
    if len(missing) == 1 and not done:
        raise next(iter(missing.values()))
    if missing:
        raise PartitionsMissing(f"{done} dead letters were {word}, and not all", missing, done)
