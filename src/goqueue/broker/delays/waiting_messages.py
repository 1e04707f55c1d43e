"""The bodies of waiting messages, read from the delay log shortly before they are due.

Messages are due in another order than they were published in, and each read gives a whole batch.
So what is due within the next seconds is read ahead, in the order of the log: each batch once.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from goqueue.broker.storage.partition import Partition
from goqueue.model import batch as batches
from goqueue.model import bodies
from goqueue.model.ids import Offset

READ_BYTES: Final = 256 * 1024
AHEAD_BYTES_MAX: Final = 64 * 1024 * 1024  # of all partitions together


class AheadBudget:
    """How much is read ahead, by all who share it."""

    def __init__(self, bytes_max: int = AHEAD_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0


class WaitingMessages:
    def __init__(self, messages: Partition, budget: AheadBudget) -> None:
        self._messages = messages
        self._budget = budget
        self._ahead: dict[int, bytes] = {}

    async def read_ahead(self, offsets: Iterable[int]) -> None:
        """Have these ready, as far as there is room; those that are not among them may go."""
        wanted = set(offsets)
        for offset in [each for each in self._ahead if each not in wanted]:
            self._drop(offset)
        missing = sorted(wanted - self._ahead.keys())
        while missing and self._budget.used < self._budget.bytes_max:
            found, behind = await self._read(missing)
            for offset, body in found.items():
                self._keep(offset, body)
            missing = missing[bisect_left(missing, behind) :]

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
        missing.sort()
        while missing:
            some, behind = await self._read(missing)
            found |= some
            missing = missing[bisect_left(missing, behind) :]
        return found

    def close(self) -> None:
        for offset in list(self._ahead):
            self._drop(offset)

    def _keep(self, offset: int, body: bytes) -> None:
        if offset not in self._ahead:
            self._budget.used += len(body)
            self._ahead[offset] = body

    def _drop(self, offset: int) -> bytes | None:
        body = self._ahead.pop(offset, None)
        if body is not None:
            self._budget.used -= len(body)
        return body

    async def _read(self, missing: list[int]) -> tuple[dict[int, bytes], int]:
        """Those of the ascending offsets that are in the next batches, and what is behind them."""
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
