"""GoQueue: messages with `gq-deliver-at` from a Kafka client, read by another."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.brokers import GoQueue
from bench.delays.figures import (
    Arrivals,
    Burst,
    Fact,
    Reader,
    due_times,
    now_ms,
    quantiles,
    to_burst,
    to_value,
)
from bench.process import Failed
from goqueue.client import Client

TOPIC = "delayed"
PARTITIONS = 3
HOUR_MS = 3_600_000
SETTINGS = {"goqueue.delayed.messages.max": "100000000"}
ORDINARY_SECONDS = 10
ORDINARY_RATE = 1_000  # delayed messages a second, beside as many plain ones


@contextlib.contextmanager
def running(directory: Path, executable: str) -> Iterator[GoQueue]:
    broker = GoQueue(directory, executable)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def create(broker: GoQueue, topic: str = TOPIC, settings: dict[str, str] | None = None) -> None:
    with Client(broker.http) as client:
        client.create_topic(topic, partitions=PARTITIONS, settings=settings or SETTINGS)


def schedule(broker: GoQueue, dues: Sequence[int], topic: str = TOPIC) -> float:
    """Seconds until all are accepted, durably."""
    producer = Producer(
        {
            "bootstrap.servers": broker.kafka,
            "linger.ms": 20,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "log_level": 0,
        }
    )
    problems: list[Any] = []

    def note(error: Any, _: Any) -> None:
        if error is not None:
            problems.append(error)

    started = time.monotonic()
    for number, due in enumerate(dues):
        headers: list[tuple[str, str | bytes | None]] = [("gq-deliver-at", str(due))]
        while True:
            try:
                producer.produce(topic, to_value(number, due), headers=headers, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left or problems:
        raise Failed(f"{left} were not accepted, {len(problems)} were refused: {problems[:1]}")
    return time.monotonic() - started


def consume(broker: GoQueue, count: int, seconds_max: float, topic: str = TOPIC) -> Arrivals:
    settings = {"bootstrap.servers": broker.kafka, "group.id": "bench", "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    reader, deadline = Reader(count), time.monotonic() + seconds_max
    while not reader.is_done and time.monotonic() < deadline:
        first = consumer.poll(0.2)  # and what is there with it: `consume` waits until it has all
        if first is None:
            continue
        for message in (first, *consumer.consume(1_000, 0)):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            reader.note(message.value() or b"")
    consumer.close()
    return reader.verify()


def measure_burst(directory: Path, executable: str, count: int, lead_ms: int) -> Burst:
    with running(directory, executable) as broker:
        create(broker)
        return burst(broker, count, lead_ms)[0]


def burst(broker: GoQueue, count: int, lead_ms: int, topic: str = TOPIC) -> tuple[Burst, str]:
    """Also the 99th percentile that the broker's own histogram tells."""
    before = lateness_counts(broker)
    seconds = schedule(broker, due_times(count, now_ms() + lead_ms), topic)
    arrivals = consume(broker, count, lead_ms / 1000 + 120, topic)
    bound = bound_of(before, lateness_counts(broker), 0.99)
    resident = broker.usage().resident_bytes_peak
    return to_burst("goqueue", seconds, arrivals, resident), bound


def lateness_counts(broker: GoQueue) -> dict[str, float]:
    """Of the histogram `goqueue_delayed_message_lateness_seconds`, by upper bound."""
    text = httpx.get(f"{broker.http}/metrics", timeout=30).text
    name = "goqueue_delayed_message_lateness_seconds_bucket"
    lines = [line for line in text.splitlines() if line.startswith(name)]
    return {line.split('le="')[1].split('"')[0]: float(line.split()[-1]) for line in lines}


def bound_of(before: dict[str, float], after: dict[str, float], part: float) -> str:
    grown = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    total = grown.get("+Inf", 0.0)
    found = next((bound for bound, count in grown.items() if count >= part * total), "+Inf")
    return f"<= {float(found) * 1000:g} ms" if found != "+Inf" else "more"


def measure_facts(directory: Path, executable: str, pending: int, due: int) -> Iterator[Fact]:
    """Schedule many, start with them, and then let some more be due within a second."""
    with running(directory, executable) as broker:
        create(broker)
        before = broker.usage()
        begin = now_ms() + HOUR_MS
        seconds = schedule(broker, [begin + number % HOUR_MS for number in range(pending)])
        time.sleep(2)  # the rest of the indexing
        after = broker.usage()
        spent = after.cpu_seconds - before.cpu_seconds
        rates = f"{pending / seconds:,.0f}/s, {pending / spent:,.0f} a CPU second of the server"
        yield Fact(f"schedule {pending:,}", rates, "100,000/s")
        grown = (after.resident_bytes_peak - before.resident_bytes) / 1e6
        text = f"{after.resident_bytes_peak / 1e6:.0f} MB at most, {grown:+.0f} MB"
        yield Fact(f"memory, {pending:,} pending", text, "200 MB")
        broker.stop()
        broker.start()
        with Client(broker.http) as client:
            found = client.delay_stats().total.pending
        if found != pending:
            raise Failed(f"{found} of {pending} wait after the start")
        cpu = broker.usage().cpu_seconds
        text = f"{broker.ready_seconds:.2f} s, {cpu:.2f} s of CPU"
        yield Fact(f"start with {pending:,} pending", text, "3 s")
        create(broker, "burst")
        found_burst, bound = burst(broker, due, 5_000 + due // 20, "burst")
        late = found_burst.lateness_ms
        text = f"p99 {late['p99']:.0f} ms at the reader, {bound} in the broker's histogram"
        yield Fact(f"{due:,} due within 1 s, {pending:,} pending", text, "50 ms")
        yield from measure_ordinary(broker)


def measure_ordinary(broker: GoQueue) -> Iterator[Fact]:
    create(broker, "ordinary")
    before = lateness_counts(broker)
    begin, count = now_ms() + 2_000, ORDINARY_RATE * ORDINARY_SECONDS
    dues = [begin + number * 1_000 // ORDINARY_RATE for number in range(count)]
    schedule(broker, dues, "ordinary")
    other = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 5, "log_level": 0})
    with Client(broker.http) as client:
        client.create_topic("plain", partitions=PARTITIONS)
    with _producing(other):
        arrivals = consume(broker, count, 120, "ordinary")
    late = quantiles(max(0, came - due) for due, came in arrivals.values())
    bound = bound_of(before, lateness_counts(broker), 0.99)
    text = f"p99 {late['p99']:.0f} ms at the reader, {bound} in the broker's histogram"
    yield Fact(f"{ORDINARY_RATE:,}/s due, beside as many plain ones", text, "20 ms")


@contextlib.contextmanager
def _producing(producer: Producer) -> Iterator[None]:
    """Plain messages at the ordinary rate, meanwhile."""
    done = threading.Event()

    def produce() -> None:
        while not done.wait(0.01):
            for _ in range(ORDINARY_RATE // 100):
                producer.produce("plain", b"x" * 100)
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        producer.flush(10)
