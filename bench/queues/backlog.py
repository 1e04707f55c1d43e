"""Memory while very many messages wait: published through the server, and some worked off.

Every fifth message has a priority of its own, so that the lanes have something to remember.
"""

import time
from pathlib import Path

import msgspec

from bench import payload
from bench.process import Failed
from bench.queues.crew import started
from bench.queues.doors import GROUP, TOPIC, prepare
from goqueue.client.kafka import KafkaClient, QueueWorker
from goqueue.model.batch import encode
from goqueue.model.ids import TopicPartition
from goqueue.model.record import Record

BATCH = 5_000
TAKEN = 1_000
PRIORITIES = (b"critical", b"high", b"low", b"background")
SETTLE_SECONDS = 20.0  # in which the broker looks for priorities in what it was given


class Memory(msgspec.Struct, frozen=True):
    waiting: int
    publish_rate: float
    idle_mb: float  # before anything was published
    published_mb: float  # when all of it waits
    working_mb: float  # while some of it is worked off
    peak_mb: float
    worked_off: int
    work_rate: float


def run(directory: Path, goqueue: str, messages: int, size: int, worked_off: int) -> Memory:
    broker = started(directory, goqueue)
    try:
        prepare(broker, 3)
        idle = broker.usage().resident_bytes
        begun = time.perf_counter()
        publish(broker.kafka, messages, size)
        publishing = time.perf_counter() - begun
        published = broker.usage().resident_bytes
        begun = time.perf_counter()
        work_off(broker.kafka, worked_off, size)
        working = time.perf_counter() - begun
        time.sleep(SETTLE_SECONDS)
        usage = broker.usage()
    finally:
        broker.stop()
    return Memory(
        waiting=messages,
        publish_rate=round(messages / publishing),
        idle_mb=round(idle / 1e6),
        published_mb=round(published / 1e6),
        working_mb=round(usage.resident_bytes / 1e6),
        peak_mb=round(usage.resident_bytes_peak / 1e6),
        worked_off=worked_off,
        work_rate=round(worked_off / working),
    )


def publish(address: str, messages: int, size: int) -> None:
    with KafkaClient(address) as client:
        for turn, first in enumerate(range(0, messages, BATCH)):
            now = time.time_ns() // 1_000_000
            numbers = range(first, min(first + BATCH, messages))
            records = [
                Record(0, now, None, payload.message(0, number, size), headers_of(number))
                for number in numbers
            ]
            client.produce({TopicPartition(TOPIC, turn % 3): [encode(records)]})


def headers_of(number: int) -> tuple[tuple[str, bytes | None], ...]:
    if number % 5:
        return ()
    return (("gq-priority", PRIORITIES[number // 5 % len(PRIORITIES)]),)


def work_off(address: str, count: int, size: int) -> None:
    left = count
    with QueueWorker(address, TOPIC, GROUP) as worker:
        while left > 0:
            received = worker.receive(min(TAKEN, left), wait_ms=10_000)
            if not received:
                raise Failed(f"nothing comes, and {left} are missing")
            for some in received:
                for record in some.records():
                    number = int((record.value or b"")[:16], 16)
                    if record.value != payload.message(0, number, size):
                        raise Failed(f"message {number} arrived as {record.value!r}")
                left -= some.count
            worker.ack(*received)
