"""Clients for a machine without a C compiler or librdkafka's headers: kcat, confluent-kafka.

They produce and consume, on one partition for kcat; what else a part needs, it leaves out.
"""

import hashlib
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import payload
from bench.client import LIMIT_SECONDS, Client, Run, Settings
from bench.process import Failed

CHUNK = 500


class KcatClient(Client):
    """Topics are created by their first use, with the broker's own settings; partition 0."""

    name = "kcat"

    def __init__(self, directory: Path) -> None:
        found = shutil.which("kcat") or shutil.which("kafkacat")
        if found is None:
            raise Failed("no kcat")
        self._kcat = found
        self._directory = directory

    def create(self, broker: str, topic: str, partitions: int, settings: Settings) -> Run:
        if partitions != 1 or settings:
            raise Failed("kcat creates no topics: --client native is needed for this")
        return Run(0, 0.0, 0.0, 0.0, 0.0)

    def delete(self, broker: str, topic: str) -> None:
        """It stays: the whole directory goes at the end."""

    def produce(
        self,
        broker: str,
        topic: str,
        *,
        partitions: int,
        messages: int,
        size: int,
        settings: Settings,
    ) -> Run:
        lines = self._lines(messages, size)
        flags = [flag for name, value in settings.items() for flag in ("-X", f"{name}={value}")]
        argv = [self._kcat, "-P", "-b", broker, "-t", topic, "-p", "0", "-l", str(lines), *flags]
        return _timed(messages, lambda: _checked(argv))

    def consume(self, broker: str, topic: str, *, partitions: int, messages: int, size: int) -> Run:
        digest = hashlib.blake2b()
        argv = [self._kcat, "-C", "-q", "-b", broker, "-t", topic, "-p", "0", "-o", "0"]
        run = _timed(messages, lambda: _digested([*argv, "-c", str(messages)], digest))
        expected = hashlib.blake2b(self._lines(messages, size).read_bytes())
        if digest.digest() != expected.digest():
            raise Failed(f"{topic}: what was read is not what was written")
        return run

    def _lines(self, messages: int, size: int) -> Path:
        path = self._directory / f"lines-{messages}-{size}"
        if not path.exists():
            with path.open("wb") as file:
                file.writelines(payload.message(0, i, size) + b"\n" for i in range(messages))
        return path


class ConfluentClient(Client):
    """librdkafka under Python: Python is the limit, so the broker's CPU is the figure to read."""

    name = "confluent-kafka (Python)"

    def __init__(self) -> None:
        try:
            import confluent_kafka
            import confluent_kafka.admin
        except ImportError as error:
            raise Failed("no confluent-kafka (pip install '.[dev]')") from error
        self._library: Any = confluent_kafka

    def create(self, broker: str, topic: str, partitions: int, settings: Settings) -> Run:
        admin = self._library.admin
        wanted = admin.NewTopic(topic, partitions, -1, config=dict(settings))
        client = admin.AdminClient({"bootstrap.servers": broker})
        return _timed(0, client.create_topics([wanted])[topic].result)

    def delete(self, broker: str, topic: str) -> None:
        client = self._library.admin.AdminClient({"bootstrap.servers": broker})
        client.delete_topics([topic])[topic].result()

    def produce(
        self,
        broker: str,
        topic: str,
        *,
        partitions: int,
        messages: int,
        size: int,
        settings: Settings,
    ) -> Run:
        producer = self._library.Producer(
            {"bootstrap.servers": broker, "delivery.report.only.error": True, **settings}
        )
        failed: list[object] = []
        run = _timed(
            messages,
            lambda: self._send_all(producer, topic, partitions, messages, size, failed.append),
        )
        if failed:
            raise Failed(f"{len(failed)} messages not delivered: {failed[0]}")
        return run

    def _send_all(
        self,
        producer: Any,
        topic: str,
        partitions: int,
        messages: int,
        size: int,
        note_failure: Callable[[object], None],
    ) -> None:
        numbers = [0] * partitions
        for index in range(messages):
            partition = index // CHUNK % partitions
            value = payload.message(partition, numbers[partition], size)
            numbers[partition] += 1
            while not _produced(producer, topic, value, partition, note_failure):
                producer.poll(0.01)
        producer.flush(LIMIT_SECONDS)

    def consume(self, broker: str, topic: str, *, partitions: int, messages: int, size: int) -> Run:
        consumer = self._library.Consumer(
            {"bootstrap.servers": broker, "group.id": "bench", "enable.auto.commit": False}
        )
        place = self._library.TopicPartition
        consumer.assign([place(topic, partition, 0) for partition in range(partitions)])
        try:
            return _timed(messages, lambda: _receive_all(consumer, partitions, messages, size))
        finally:
            consumer.close()


def _produced(
    producer: Any, topic: str, value: bytes, partition: int, note_failure: Callable[[object], None]
) -> bool:
    try:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: note_failure(error)
        )
    except BufferError:
        return False
    return True


def _receive_all(consumer: Any, partitions: int, messages: int, size: int) -> None:
    numbers = [0] * partitions
    deadline = time.monotonic() + LIMIT_SECONDS
    seen = 0
    while seen < messages:
        if time.monotonic() > deadline:
            raise Failed(f"{seen} of {messages} messages after {LIMIT_SECONDS} s")
        for found in consumer.consume(10_000, 1.0):
            if found.error() is not None:
                raise Failed(str(found.error()))
            partition = found.partition()
            if found.value() != payload.message(partition, numbers[partition], size):
                raise Failed(f"partition {partition} offset {found.offset()}: contents differ")
            numbers[partition] += 1
            seen += 1


def _timed(messages: int, work: Callable[[], object]) -> Run:
    started, before = time.monotonic(), _cpu()
    work()
    seconds, after = time.monotonic() - started, _cpu()
    return Run(messages, max(seconds, 1e-6), after[0] - before[0], after[1] - before[1], 0.0)


def _cpu() -> tuple[float, float]:
    """User and system time of this process and of the children it waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime for each in both), sum(each.ru_stime for each in both)


def _checked(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, timeout=LIMIT_SECONDS, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(argv)}:\n{os.fsdecode(done.stderr)}")


def _digested(argv: list[str], digest: "hashlib.blake2b") -> None:
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        while piece := child.stdout.read(1 << 20):
            digest.update(piece)
    if child.returncode != 0:
        raise Failed(f"{' '.join(argv)} ended with {child.returncode}")
