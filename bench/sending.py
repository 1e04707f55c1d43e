"""Sending with librdkafka, as fast as it takes messages."""

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

FLUSH_SECONDS_MAX = 120.0


def send_all(producer: Any, topic: str, value: bytes, messages: int) -> None:
    """Return when all of them are acknowledged."""
    send_each(producer, topic, itertools.repeat(value, messages))


def send_each(producer: Any, topic: str, values: Iterable[bytes]) -> None:
    """Return when all of them are acknowledged."""
    for value in values:
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(FLUSH_SECONDS_MAX)
    assert left == 0, f"{left} messages were not acknowledged"


def timed(work: Callable[[], None], cpu_seconds: Callable[[], float]) -> tuple[float, float]:
    """Seconds of the work, and the CPU seconds that somebody took in them."""
    cpu, began = cpu_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - began, cpu_seconds() - cpu
