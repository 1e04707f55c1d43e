"""Whether compressed batches hold headers that delay: they have to be decompressed to know.

To decompress a batch takes longer than all else that is done with it, and few topics have delays.
So the search of a topic without any has a budget, a part of one core:

    the topic had a delayed message, or `goqueue.delayed.compressed=always`    every batch
    none so far                                                                within the budget

The budget covers some 100 MB a second, so nearly all brokers search completely.  In busier
ones the first delayed messages of a topic may be missed, and go out at once, until one is seen.
"""

from typing import Final

from goqueue.broker.delays.lines import DelayLines
from goqueue.broker.storage.partition import Partition
from goqueue.delay import may_hold_delays
from goqueue.model import batch as batches
from goqueue.model.compression import Codec
from goqueue.model.ids import Instant
from goqueue.runtime import Clock

SHARE: Final = 0.1  # of the time
SAVED_NS_MAX: Final = 500_000_000  # after a while without compressed batches


class HeaderSearch:
    def __init__(self, clock: Clock, lines: DelayLines) -> None:
        self._clock = clock
        self._lines = lines
        self._budget = TimeBudget(clock.instant())
        self.skipped = 0  # batches

    async def finds(self, partition: Partition, data: bytearray | memoryview) -> bool:
        """Whether one of the batches holds such headers; large ones are unfolded on a thread.

        Raises what is wrong with the batches.
        """
        is_always = partition.log.settings.goqueue_delayed_compressed == "always"
        if is_always or self._lines.has_topic(partition.topic):
            return await _find(partition, data)
        started = self._clock.instant()
        if not self._budget.has_some(started):
            self.skipped += 1
            return False
        is_found = await _find(partition, data)
        self._budget.spend(self._clock.instant() - started)
        return is_found


class TimeBudget:
    """Grows with time, by a share of it, up to a bound."""

    def __init__(self, now: Instant) -> None:
        self._left: float = SAVED_NS_MAX
        self._as_of = now

    def has_some(self, now: Instant) -> bool:
        self._left = min(SAVED_NS_MAX, self._left + SHARE * (now - self._as_of))
        self._as_of = now
        return self._left > 0

    def spend(self, nanoseconds: int) -> None:
        self._left -= nanoseconds


async def _find(partition: Partition, data: bytearray | memoryview) -> bool:
    for header in batches.headers(data):
        if header.codec and header.codec <= Codec.ZSTD:
            reader = await partition.record_reader(data, header)
            if may_hold_delays(reader.block):
                return True
    return False
