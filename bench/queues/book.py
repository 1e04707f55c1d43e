"""Every message is to arrive as it was: what was sent when, and what came."""

import threading
import time

from bench import payload
from bench.process import Failed

Latencies = dict[str, float]  # ms
SLEEP_SECONDS_MIN = 0.000_05


class Book:
    """Shared by the threads of a run.

    With a `rate`, message i is due at i / rate seconds after the start, and its latency counts from
    then; those of `linger_ms` are published together.  Without one it counts from before its
    publish.
    """

    def __init__(
        self, messages: int, size: int, rate: int = 0, linger_ms: int = 0, skip: int = 0
    ) -> None:
        self.left = messages
        self.doubles = 0
        self._messages = messages
        self._size = size
        self._rate = rate
        self._together = max(1, rate * linger_ms // 1_000)
        self._skip = skip  # the first so many have no figures: everything is still warming up
        self._lock = threading.Lock()
        self._started = time.perf_counter()
        self._next = 0
        self._sent_at = [0.0] * messages
        self._seen = bytearray(messages)
        self._latencies: list[float] = []

    def start(self) -> None:
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def next_numbers(self, count: int) -> range:
        """What to publish now; waits until something is due.  Empty when all is published."""
        while True:
            with self._lock:
                end = min(self._next + count, self._messages)
                if self._rate:
                    end = min(end, int(self.seconds * self._rate))
                wanted = min(self._together, self._messages - self._next)
                if end - self._next >= wanted:
                    numbers = range(self._next, end)
                    self._next = max(self._next, end)
                    return numbers
                due = (self._next + wanted) / self._rate - self.seconds
            time.sleep(max(due, SLEEP_SECONDS_MIN))  # to poll would take the others' time

    def values(self, numbers: range) -> list[bytes]:
        now = self.seconds
        for number in numbers:
            self._sent_at[number] = number / self._rate if self._rate else now
        return [payload.message(0, number, self._size) for number in numbers]

    def arrived(self, values: list[bytes]) -> None:
        now = self.seconds
        fresh: list[int] = []
        for value in values:
            number = int(value[:16], 16)
            if value != payload.message(0, number, self._size):
                raise Failed(f"message {number} arrived as {value[:80]!r}")
            if not self._seen[number]:
                self._seen[number] = 1
                fresh.append(number)
        with self._lock:
            self.left -= len(fresh)
            self.doubles += len(values) - len(fresh)
            self._latencies += [now - self._sent_at[each] for each in fresh if each >= self._skip]

    def latency_ms(self) -> Latencies:
        return percentiles(self._latencies)


def percentiles(seconds: list[float]) -> Latencies:
    found = sorted(seconds) or [0.0]
    last = len(found) - 1
    shares = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))
    return {
        name: round(found[min(last, int(share * len(found)))] * 1e3, 2) for name, share in shares
    }
