"""How fast replicas that catch up may copy, and how fast they do.

A quota has no burst: whoever copied `size` bytes waits `size / rate` before it copies more.  So one
answer may be larger than a second's share, and the average is the rate all the same.
"""

from collections import deque
from typing import Final

from goqueue.model.ids import Instant

NANOSECONDS: Final = 1_000_000_000
WINDOW_NS: Final = 10 * NANOSECONDS
SAMPLES_MAX: Final = 256


class ReplicationQuota:
    """Of one side of a node; the rate is said each time, for it may change meanwhile."""

    __slots__ = ("_debt", "_noted_at")

    def __init__(self) -> None:
        self._debt = 0.0  # bytes that were copied and not waited for yet
        self._noted_at: Instant | None = None

    def note(self, size: int, bytes_per_second: int, now: Instant) -> None:
        self._pay_off(bytes_per_second, now)
        self._debt += size

    def delay_seconds(self, bytes_per_second: int, now: Instant) -> float:
        """How long nothing may be copied; with a rate of 0 for ever."""
        self._pay_off(bytes_per_second, now)
        if bytes_per_second <= 0:
            return float("inf")
        return self._debt / bytes_per_second

    def _pay_off(self, bytes_per_second: int, now: Instant) -> None:
        since = now if self._noted_at is None else self._noted_at
        paid = (now - since) / NANOSECONDS * bytes_per_second
        self._debt = max(0.0, self._debt - paid)
        self._noted_at = now


class CopyRate:
    """Bytes a second over the last ten seconds."""

    __slots__ = ("_began_at", "_samples", "_size")

    def __init__(self, now: Instant) -> None:
        self._samples: deque[tuple[Instant, int]] = deque()
        self._size = 0  # the sum of the samples
        self._began_at = now

    def add(self, size: int, now: Instant) -> None:
        if len(self._samples) >= SAMPLES_MAX:
            self._began_at = self._drop()
        self._samples.append((now, size))
        self._size += size

    def bytes_per_second(self, now: Instant) -> float:
        while self._samples and now - self._samples[0][0] > WINDOW_NS:
            self._began_at = self._drop()
        began = max(self._began_at, now - WINDOW_NS)
        return self._size * NANOSECONDS / (now - began) if now > began else 0.0

    def _drop(self) -> Instant:
        at, size = self._samples.popleft()
        self._size -= size
        return at
