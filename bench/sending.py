"""Sending with librdkafka, as fast as it takes messages."""

import time
from collections.abc import Callable
from typing import Any

FLUSH_SECONDS_MAX = 120.0


def send_all(producer: Any, topic: str, value: bytes, messages: int) -> None:
    """Return when all of them are acknowledged."""
    for _ in range(messages):
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
