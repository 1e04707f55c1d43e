"""Order by key against none: the same backlog, workers and random nacks.

With order, each key's messages must be acked in the order in which they were published.
"""

import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import msgspec

from bench.brokers import GoQueue
from bench.process import Failed
from bench.queues.crew import started, together
from bench.queues.doors import TOPIC, HttpWorker, Link, configure, prepare
from goqueue.client.kafka import KafkaClient
from goqueue.model.batch import encode
from goqueue.model.ids import TopicPartition
from goqueue.model.partitioner import murmur2_partition
from goqueue.model.record import Record

PARTITIONS = 3
BATCH = 1_000
IDLE_TAKES_MAX = 60
NACKS = 0.01


class Options(msgspec.Struct, frozen=True):
    messages: int
    keys: int
    workers: int
    batch: int


class Figures(msgspec.Struct, frozen=True):
    ordering: str
    rate: float
    broker_cpu_us: float
    nacks: int


def run(directory: Path, goqueue: str, options: Options, rounds: int) -> list[Figures]:
    """Rounds of both kinds in turn, each by a group of its own."""
    broker = started(directory, goqueue)
    try:
        prepare(broker, PARTITIONS)
        publish(broker.kafka, options)
        return [
            worked_off(broker, options, f"{ordering}-{turn}", ordering)
            for turn in range(rounds)
            for ordering in ("none", "key")
        ]
    finally:
        broker.stop()


def publish(address: str, options: Options) -> None:
    """Values are numbers: the message's place among those of its key."""
    chance = random.Random(1)
    places: dict[bytes, int] = defaultdict(int)
    records: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    now = time.time_ns() // 1_000_000
    for _ in range(options.messages):
        key = b"key-%d" % chance.randrange(options.keys)
        value = b"%d" % places[key]
        records[murmur2_partition(key, PARTITIONS)].append(Record(0, now, key, value))
        places[key] += 1
    with KafkaClient(address) as client:
        for partition, some in enumerate(records):
            for first in range(0, len(some), BATCH):
                batch = encode(some[first : first + BATCH])
                client.produce({TopicPartition(TOPIC, partition): [batch]})


class Progress:
    """What is acked so far."""

    def __init__(self, messages: int, *, is_ordered: bool) -> None:
        self.left = messages
        self.nacks = 0
        self._is_ordered = is_ordered
        self._acked: dict[str, int] = defaultdict(int)  # of each key
        self._lock = threading.Lock()

    def ack(self, key: str, place: int) -> None:
        if self._is_ordered and self._acked[key] != place:
            raise Failed(f"{key}: message {place} came when {self._acked[key]} were acked")
        self._acked[key] += 1

    def note(self, acked: int, nacked: int) -> None:
        with self._lock:
            self.left -= acked
            self.nacks += nacked


def worked_off(broker: GoQueue, options: Options, group: str, ordering: str) -> Figures:
    link = Link(broker.http)
    configure(link, group, ordering=ordering, max_failures=1_000, visibility_ms=600_000)
    link.close()
    progress = Progress(options.messages, is_ordered=ordering == "key")
    workers = [HttpWorker(broker.http, group) for _ in range(options.workers)]

    def work(number: int) -> None:
        worker, chance, idle = workers[number], random.Random(number), 0
        while progress.left > 0:
            worker.taken = []
            idle = 0 if worker.take(options.batch) else idle + 1
            if idle > IDLE_TAKES_MAX:
                raise Failed(f"{progress.left} messages did not arrive")
            settle(worker, progress, chance)

    before, begun = broker.usage().cpu_seconds, time.perf_counter()
    together(*[lambda number=number: work(number) for number in range(options.workers)])
    seconds = time.perf_counter() - begun
    cpu_seconds = broker.usage().cpu_seconds - before
    for worker in workers:
        worker.close()
    return Figures(
        ordering=ordering,
        rate=round(options.messages / seconds),
        broker_cpu_us=round(cpu_seconds / options.messages * 1e6, 1),
        nacks=progress.nacks,
    )


def settle(worker: HttpWorker, progress: Progress, chance: random.Random) -> None:
    acks, nacks = [], []
    for each in worker.taken:
        if chance.random() < NACKS:
            nacks.append(each.receipt_handle)
            continue
        progress.ack(each.key or "", int(each.value))
        acks.append(each.receipt_handle)
    worker.settle("nack", nacks, delay=0)
    worker.settle("ack", acks)
    worker.taken = []
    progress.note(len(acks), len(nacks))
