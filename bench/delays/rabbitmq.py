"""RabbitMQ: a time to live of each message, and a dead-letter exchange.

Messages are persistent and confirmed, a thousand confirms under way at a time, and are published in
the order of their due times: only the head of a queue expires.
"""

import asyncio
import importlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.delays.figures import (
    Arrivals,
    Burst,
    Reader,
    due_times,
    now_ms,
    to_burst,
    to_value,
)
from bench.queues.peers import Missing, RabbitMq

CONFIRMS_AT_ONCE = 1_000
WAITS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ready"}


def measure(directory: Path, count: int, lead_ms: int, seconds_max: float) -> Burst:
    try:
        aio_pika: Any = importlib.import_module("aio_pika")
    except ImportError:
        raise Missing("its client is not installed: pip install aio-pika") from None
    broker = RabbitMq(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for place in (directory.parent, directory):
        place.chmod(0o777)
    before = os.umask(0)  # Debian's script runs it as a user of its own
    try:
        broker.start()
        seconds, arrivals = asyncio.run(_run(aio_pika, broker.url, count, lead_ms, seconds_max))
        return to_burst("rabbitmq", seconds, arrivals, broker.usage().resident_bytes_peak)
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(str(error)) from error
    finally:
        os.umask(before)
        broker.stop()


async def _run(
    aio_pika: Any, url: str, count: int, lead_ms: int, seconds_max: float
) -> tuple[float, Arrivals]:
    """Seconds until all were confirmed, and when each came."""
    link = await aio_pika.connect(url)
    async with link:
        channel = await link.channel()
        await channel.set_qos(prefetch_count=CONFIRMS_AT_ONCE)
        ready = await channel.declare_queue("ready", durable=True)
        await channel.declare_queue("waiting", durable=True, arguments=WAITS)
        await channel.declare_queue("probe", durable=True)

        async def publish(queue: str, value: bytes, due: int) -> None:
            message = aio_pika.Message(
                value,
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                expiration=max(1, due - now_ms()) / 1000,
            )
            await channel.default_exchange.publish(message, routing_key=queue)

        async def publish_all(queue: str, dues: list[int]) -> float:
            started = time.monotonic()
            for numbers in _parts(len(dues)):
                values = ((to_value(number, dues[number]), dues[number]) for number in numbers)
                await asyncio.gather(*(publish(queue, value, due) for value, due in values))
            return time.monotonic() - started

        some = 2 * CONFIRMS_AT_ONCE
        taken = await publish_all("probe", [now_ms() + 3_600_000] * some)
        lead_ms += int(2 * 1000 * taken / some * count)
        due = list(due_times(count, now_ms() + lead_ms))
        seconds = await publish_all("waiting", due)
        reader, deadline = Reader(count), time.monotonic() + lead_ms / 1000 + seconds_max
        async with ready.iterator(no_ack=True, timeout=seconds_max) as messages:
            async for message in messages:
                reader.note(message.body)
                if reader.is_done or time.monotonic() > deadline:
                    break
        return seconds, reader.verify()


def _parts(count: int) -> Iterator[range]:
    for first in range(0, count, CONFIRMS_AT_ONCE):
        yield range(first, min(count, first + CONFIRMS_AT_ONCE))
