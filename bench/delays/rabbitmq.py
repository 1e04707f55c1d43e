"""RabbitMQ: a time to live of each message, and a dead-letter exchange.

Messages are persistent and confirmed, one at a time as its Python client does, and are published in
the order of their due times: only the head of a queue expires.
"""

import importlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.delays.figures import (
    Burst,
    Reader,
    due_times,
    enough_lead_ms,
    now_ms,
    to_burst,
    to_value,
)
from bench.queues.peers import Missing, RabbitMq


def measure(directory: Path, count: int, lead_ms: int, seconds_max: float) -> Burst:
    try:
        pika: Any = importlib.import_module("pika")
    except ImportError:
        raise Missing("its client is not installed: pip install pika") from None
    broker = RabbitMq(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for place in (directory.parent, directory):
        place.chmod(0o777)
    before = os.umask(0)  # Debian's script runs it as a user of its own
    try:
        broker.start()
        link = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = link.channel()
        channel.queue_declare("ready", durable=True)
        waits = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ready"}
        channel.queue_declare("waiting", durable=True, arguments=waits)
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2)

        def probe(some: int) -> None:
            for _ in range(some):
                channel.basic_publish("", "probe", b"x" * 100, properties)

        channel.queue_declare("probe", durable=True)
        due = due_times(count, now_ms() + enough_lead_ms(count, lead_ms, probe))
        started = time.monotonic()
        for number in range(count):
            properties = pika.BasicProperties(
                delivery_mode=2, expiration=str(max(1, due[number] - now_ms()))
            )
            channel.basic_publish("", "waiting", to_value(number, due[number]), properties)
        seconds = time.monotonic() - started
        reader = Reader(count)
        for method, _, value in channel.consume("ready", inactivity_timeout=seconds_max):
            if method is None:
                break
            reader.note(value)
            channel.basic_ack(method.delivery_tag)
            if reader.is_done:
                break
        resident = broker.usage().resident_bytes_peak
        link.close()
        return to_burst("rabbitmq", seconds, reader.verify(), resident)
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(str(error)) from error
    finally:
        os.umask(before)
        broker.stop()
