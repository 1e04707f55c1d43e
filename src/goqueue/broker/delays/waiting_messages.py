"""The bodies of waiting messages, read from the delay log shortly before they are due.

Messages are due in another order than they were published in, and each read gives a whole batch.
So what is due within the next seconds is read ahead, in the order of the log: each batch once.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from typing import Final

from goqueue.broker.storage.partition import Partition
from goqueue.model import batch as batches
from goqueue.model import bodies
from goqueue.model.ids import Offset

READ_BYTES: Final = 256 * 1024
NOTHING_IN_USE: Final = Offset(2**63 - 1)
AHEAD_BYTES_MAX: Final = 64 * 1024 * 1024  # of all partitions together


class AheadBudget:
    """How much is read ahead, by all who share it."""

    def __init__(self, bytes_max: int = AHEAD_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0


class WaitingMessages:
    """Bodies by the offsets that messages are known by; `place_of` says where they are."""

    def __init__(
        self, messages: Partition, budget: AheadBudget, place_of: Callable[[int], int]
    ) -> None:
        self._messages = messages
        self._budget = budget
        self._place_of = place_of
        self._ahead: dict[int, bytes] = {}
        self.lowest_in_use = NOTHING_IN_USE  # the log must not be cut above it

    async def read_ahead(self, offsets: Iterable[int]) -> None:
        """Have these ready, as far as there is room; those that are not among them may go."""
        wanted = set(offsets)
        for offset in [each for each in self._ahead if each not in wanted]:
            self._drop(offset)
        if self._budget.used < self._budget.bytes_max:
            await self._read_all(wanted - self._ahead.keys(), self._keep_all)

    async def take(self, offsets: Iterable[int]) -> dict[int, bytes]:
        """The bodies; what is missing is gone from the log."""
        found = dict[int, bytes]()
        missing = []
        for offset in offsets:
            body = self._drop(offset)
            if body is None:
                missing.append(offset)
            else:
                found[offset] = body

        def note(some: dict[int, bytes]) -> bool:
            found.update(some)
            return True

        await self._read_all(missing, note)
        return found

    def close(self) -> None:
        for offset in list(self._ahead):
            self._drop(offset)

    def _keep_all(self, found: dict[int, bytes]) -> bool:
        """Whether there is room for more."""
        for offset, body in found.items():
            if offset not in self._ahead:
                self._budget.used += len(body)
                self._ahead[offset] = body
        return self._budget.used < self._budget.bytes_max

    def _drop(self, offset: int) -> bytes | None:
        body = self._ahead.pop(offset, None)
        if body is not None:
            self._budget.used -= len(body)
        return body

    async def _read_all(
        self, offsets: Collection[int], note: Callable[[dict[int, bytes]], bool]
    ) -> None:
        """In the order of the log, until `note` wants no more.

        What is moved meanwhile is still read where it was.
        """
        at = {self._place_of(offset): offset for offset in offsets}
        missing = sorted(at)
        try:
            while missing:
                self.lowest_in_use = Offset(missing[0])
                found, behind = await self._read(missing)
                if not note({at[place]: body for place, body in found.items()}):
                    break
                missing = missing[bisect_left(missing, behind) :]
        finally:
            self.lowest_in_use = NOTHING_IN_USE

    async def _read(self, missing: list[int]) -> tuple[dict[int, bytes], int]:
        """Those of the ascending places that are in the next batches, and what is behind them."""
        log, first = self._messages.log, missing[0]
        if first < log.start_offset:
            return {}, log.start_offset
        if first >= log.high_watermark:
            return {}, missing[-1] + 1
        chunk = await self._messages.read(Offset(first), READ_BYTES, log.high_watermark)
        found = dict[int, bytes]()
        for header in batches.headers(chunk.data):
            start = bisect_left(missing, header.base_offset)
            wanted = missing[start : bisect_left(missing, header.next_offset)]
            if wanted and not header.is_control:
                block = batches.record_block(chunk.data, header)
                found |= bodies.take_bodies(
                    block, header.count, header.base_offset, frozenset(wanted)
                )
        return found, chunk.next_offset
