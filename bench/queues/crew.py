"""Publishers and workers at work: a thread each, in this one process."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.brokers import GoQueue
from bench.process import Failed, Usage
from bench.queues.book import Book
from bench.queues.doors import Door

SWITCH_SECONDS = 0.000_5  # a thread with much to compare keeps the others waiting for so long
IDLE_TAKES_MAX = 60  # in a row, before messages are called lost


class Options(msgspec.Struct, frozen=True):
    messages: int
    size: int
    batch: int
    publishers: int
    workers: int
    partitions: int
    rate: int = 0  # messages a second; 0 for as many as can be
    linger_ms: int = 0  # of a publisher, when there is a rate
    warm_up: int = 0  # messages without figures
    delivery_durability: str = "sync"  # or "async": see docs/guides/queues.md


class Figures(msgspec.Struct, frozen=True):
    broker: str
    messages: int
    seconds: float
    rate: float
    broker_cpu_us: float  # a message
    client_cpu_us: float
    resident_mb: float  # the most there was
    doubles: int
    latency_ms: dict[str, float]


def started(directory: Path, executable: str) -> GoQueue:
    broker = GoQueue(directory, executable)
    broker.start()
    return broker


def measured(door: Door, options: Options) -> Figures:
    """Publish and work off at the same time, until every message was acked."""
    publishers = [door.publisher() for _ in range(options.publishers)]
    workers = [door.worker() for _ in range(options.workers)]
    book = Book(options.messages, options.size, options.rate, options.linger_ms, options.warm_up)

    def publish(number: int) -> None:
        while numbers := book.next_numbers(options.batch):
            publishers[number].publish(book.values(numbers))

    def work(number: int) -> None:
        worker, idle = workers[number], 0
        while book.left > 0:
            values = worker.take(options.batch)
            idle = 0 if values else idle + 1
            if idle > IDLE_TAKES_MAX:
                raise Failed(f"{book.left} messages did not arrive")
            book.arrived(values)
        worker.finish()

    sys.setswitchinterval(SWITCH_SECONDS)
    before, own = door.broker.usage(), time.process_time()
    book.start()
    together(
        *[lambda number=number: publish(number) for number in range(options.publishers)],
        *[lambda number=number: work(number) for number in range(options.workers)],
    )
    seconds, own = book.seconds, time.process_time() - own
    after = door.broker.usage()
    for each in (*publishers, *workers):
        each.close()
    name = f"goqueue {door.name}"
    return figures(name, options, seconds, before, after, own, book.doubles, book.latency_ms())


def figures(
    name: str,
    options: Options,
    seconds: float,
    before: Usage,
    after: Usage,
    client_cpu_seconds: float,
    doubles: int,
    latency_ms: dict[str, float],
) -> Figures:
    return Figures(
        broker=name,
        messages=options.messages,
        seconds=round(seconds, 2),
        rate=round(options.messages / seconds),
        broker_cpu_us=round((after.cpu_seconds - before.cpu_seconds) / options.messages * 1e6, 2),
        client_cpu_us=round(client_cpu_seconds / options.messages * 1e6, 2),
        resident_mb=round(after.resident_bytes_peak / 1e6),
        doubles=doubles,
        latency_ms={name: round(value, 2) for name, value in latency_ms.items()},
    )


def together(*tasks: Callable[[], None]) -> None:
    """Run each in a thread; the first failure is raised when all have ended."""
    failures: list[BaseException] = []

    def run(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # raised below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not failures:
            thread.join(0.5)
    if failures:
        raise failures[0]
