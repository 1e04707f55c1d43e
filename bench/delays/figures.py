"""What is measured, and how it is told."""

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from bench.process import Failed

PROBE_MESSAGES = 200

Arrivals = dict[int, tuple[int, int]]  # by a message's number: when it was due, and came; in ms


class Burst(msgspec.Struct, frozen=True):
    """Messages that are all due within one second."""

    broker: str
    messages: int
    rate: float
    """Accepted a second, durably."""
    lateness_ms: dict[str, float]
    """From due to the arrival at a reader that waits."""
    resident_mb: float
    """The most that the broker held."""


class Fact(msgspec.Struct, frozen=True):
    """One figure of GoQueue, with what is asked of it."""

    what: str
    found: str
    goal: str = ""


def to_burst(name: str, seconds: float, arrivals: Arrivals, resident_bytes: int) -> Burst:
    late = [max(0, came - due) for due, came in arrivals.values()]
    count = len(arrivals)
    return Burst(name, count, count / seconds, quantiles(late), resident_bytes / 1e6)


def quantiles(late_ms: Iterable[float]) -> dict[str, float]:
    late = sorted(late_ms)
    places = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: float(late[min(len(late) - 1, int(len(late) * part))])
        for name, part in places.items()
    }


def due_times(count: int, begin_ms: int) -> list[int]:
    """Over one second, in order."""
    return [begin_ms + number * 1_000 // count for number in range(count)]


def enough_lead_ms(count: int, lead_ms: int, publish_some: Callable[[int], None]) -> int:
    """So long before the first is due that all can be accepted until then: a slow peer is tried."""
    started = time.monotonic()
    publish_some(PROBE_MESSAGES)
    taken_ms = (time.monotonic() - started) * 1000
    return lead_ms + int(2 * taken_ms / PROBE_MESSAGES * count)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def to_value(number: int, due: int) -> bytes:
    """100 bytes."""
    return b"%d %d " % (number, due) + b"x" * (98 - len(str(number)) - len(str(due)))


def read_value(value: bytes) -> tuple[int, int]:
    number, due, *_ = value.split()
    return int(number), int(due)


class Reader:
    """Notes what arrives, and verifies that each message came once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._doubles = 0
        self.arrivals: Arrivals = {}

    @property
    def is_done(self) -> bool:
        return len(self.arrivals) >= self._count

    def note(self, value: bytes) -> None:
        number, due = read_value(value)
        self._doubles += number in self.arrivals
        self.arrivals[number] = due, now_ms()

    def verify(self) -> Arrivals:
        if sorted(self.arrivals) != list(range(self._count)) or self._doubles:
            came = len(self.arrivals)
            raise Failed(f"{came} of {self._count} arrived, {self._doubles} came again")
        return self.arrivals


def show(console: Console, bursts: Sequence[Burst], facts: Sequence[Fact]) -> None:
    if bursts:
        table = Table("broker", "messages", "accepted/s", "p50 ms", "p99 ms", "max ms", "peak MB")
        for each in bursts:
            late = [f"{each.lateness_ms[name]:.0f}" for name in ("p50", "p99", "max")]
            row = each.broker, f"{each.messages:,}", f"{each.rate:,.0f}", *late
            table.add_row(*row, f"{each.resident_mb:.0f}")
        table.title = "due within one second: from due to arrival"
        console.print(table)
    if facts:
        table = Table("goqueue", "found", "goal")
        for fact in facts:
            table.add_row(fact.what, fact.found, fact.goal)
        console.print(table)
