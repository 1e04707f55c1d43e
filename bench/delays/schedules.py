"""Recurring schedules: many that are due in the same second, and many that only wait."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.brokers import GoQueue
from bench.delays.figures import Burst, Fact, now_ms, to_burst
from bench.delays.goqueue import TOPIC, consume, create, running
from bench.process import Failed
from goqueue.client import Client, ScheduledMessage, ScheduleInput

CLIENTS = 8
IDLE_SECONDS = 10
DAY_MS = 86_400_000


def measure_burst(directory: Path, executable: str, count: int) -> Burst:
    with running(directory, executable) as broker:
        create(broker)
        begin = (now_ms() + 20 * count + 5_000) // 1_000 * 1_000
        seconds = _create_schedules(broker, count, begin)
        arrivals = consume(broker, count, 20 * count / 1000 + 120)
        return to_burst("schedules", seconds, arrivals, broker.usage().resident_bytes_peak)


def measure_waiting(directory: Path, executable: str, count: int) -> Iterator[Fact]:
    """What many schedules cost that are not due: memory, CPU, and the next start."""
    with running(directory, executable) as broker:
        create(broker)
        before = broker.usage()
        seconds = _create_schedules(broker, count, now_ms() + DAY_MS)
        after = broker.usage()
        spent = after.cpu_seconds - before.cpu_seconds
        yield Fact(f"create {count:,} schedules", f"{count / seconds:,.0f}/s, {spent:.1f} s of CPU")
        grown = (after.resident_bytes - before.resident_bytes) / 1e6
        yield Fact(f"memory, {count:,} schedules", f"{grown:+.0f} MB")
        time.sleep(IDLE_SECONDS)
        idle = broker.usage().cpu_seconds - after.cpu_seconds
        yield Fact(f"idle, {count:,} schedules", f"{idle / IDLE_SECONDS:.1%} of a core")
        broker.stop()
        broker.start()
        with Client(broker.http) as client:
            total = client.schedules(limit=1).total
        if total != count:
            raise Failed(f"{total} of {count} schedules after the start")
        text = f"{broker.ready_seconds:.2f} s, {broker.usage().cpu_seconds:.2f} s of CPU"
        yield Fact(f"start with {count:,} schedules", text)


def _create_schedules(broker: GoQueue, count: int, begin: int) -> float:
    """Seconds, over HTTP, one request a schedule."""

    def create_some(first: int) -> None:
        with Client(broker.http) as client:
            for number in range(first, count, CLIENTS):
                message = ScheduledMessage(f"{number} {{{{scheduled_at_ms}}}}")
                given = ScheduleInput(TOPIC, message, every="1d", start=begin, max_runs=1)
                client.create_schedule(f"s{number}", given)

    started = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(create_some, range(CLIENTS)))
    return time.monotonic() - started
