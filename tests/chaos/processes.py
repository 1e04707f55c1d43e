"""A real `goqueue server` in a process of its own, and a client that remembers what it was told."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.log import open_log
from goqueue.model.settings import topic_settings
from goqueue.runtime import RealDisk
from tests.unit.log.logs import check_indexes

START_S = 120.0
SLOW_S = 20.0  # a start that takes longer is looked into
LOG_LEVEL = os.environ.get("LOG_LEVEL", "warning")
ANSWER_S = 20.0
UNANSWERED_MAX = 1000
COMMAND = "from goqueue.cli.main import main; main()"
READY = re.compile(rb"kafka=(\S+) http=(\S+)")


class Server:
    """Starts, dies and starts again on the same data."""

    def __init__(self, data_dir: Path, handles: int | None = None, **settings: object) -> None:
        self.data_dir = data_dir
        self.address = ""  # of the Kafka listener
        self.http = ""
        self.prefix: list[str] = []  # of the command that starts it
        self.environment: dict[str, str] = {}  # on top of ours
        self._settings = settings
        self._handles = handles  # how many files and connections it may have open; None: as we
        self._errors = data_dir.parent / f"{data_dir.name}.stderr"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the server was not started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        arguments = ["server", "--data-dir", str(self.data_dir), "--log-level", LOG_LEVEL]
        arguments += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        for name, value in self._settings.items():
            arguments += ["--set", f"{name.replace('__', '.')}={value}"]
        limited = f'ulimit -n {self._handles}; exec "$@"'
        limit = ["sh", "-c", limited, "sh"] if self._handles else []
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [*self.prefix, *limit, sys.executable, "-P", "-c", COMMAND, *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **self.environment},
            )
        with after(SLOW_S, self._note_stacks), after(START_S, self._process.kill):
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
        found = READY.search(line)
        assert found, f"the server did not start: {line!r}\n{self.log()}"
        self.address = found[1].decode()
        self.http = found[2].decode()

    def _note_stacks(self) -> None:
        """What it waits for, at the end of what it says."""
        with self._errors.open("ab") as errors:
            errors.write(f"not ready after {SLOW_S:g} s\n".encode())
            errors.flush()
            spy = str(Path(sys.executable).parent / "py-spy")
            command = [spy, "dump", "--pid", str(self.process.pid)]
            subprocess.run(command, stdout=errors, stderr=errors, check=False, timeout=SLOW_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(ANSWER_S)
        self._close()

    def terminate(self, within_s: float) -> int:
        """As an operator ends it; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(within_s)
        self._close()
        return code

    def log(self) -> str:
        return self._errors.read_text(errors="replace")[-5000:]

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._process = None

    @contextlib.contextmanager
    def running(self) -> Iterator["Server"]:
        self.start()
        try:
            yield self
        finally:
            if self._process is not None:
                self.kill()


@contextlib.contextmanager
def after(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Act, unless the block has ended by then."""
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Witness:
    """Writes numbered messages, and knows which of them were acked, and where."""

    def __init__(self, topic: str, partitions: int, seed: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.chance = random.Random(seed)
        self.acked: list[dict[int, int]] = [{} for _ in range(partitions)]  # offset to number
        # librdkafka takes the ack of a batch for that of those before it, and says no offset then.
        self.acked_somewhere: list[set[int]] = [set() for _ in range(partitions)]
        self.refused: dict[int, KafkaError] = {}
        self.numbers = 0
        self.acks = 0

    def create(self, server: Server, **config: str) -> None:
        admin = AdminClient({"bootstrap.servers": server.address})
        named = {name.replace("_", "."): value for name, value in config.items()}
        made = admin.create_topics([NewTopic(self.topic, self.partitions, 1, config=named)])
        made[self.topic].result(ANSWER_S)

    def producer(self, server: Server) -> Producer:
        """One that never sends anything twice: a duplicate in the log is the server's doing."""
        return Producer(
            {
                "bootstrap.servers": server.address,
                "acks": "all",
                "enable.idempotence": False,
                "message.send.max.retries": 0,
                "message.timeout.ms": int(ANSWER_S * 1000),
                "linger.ms": 1,
                "batch.num.messages": 50,
                "log_level": 0,
            }
        )

    def produce(self, producer: Producer) -> None:
        while self.numbers - self.acks - len(self.refused) >= UNANSWERED_MAX:
            producer.poll(0.01)
        number, self.numbers = self.numbers, self.numbers + 1
        producer.produce(
            self.topic,
            value_of(number),
            partition=number % self.partitions,
            on_delivery=lambda error, message: self._answered(number, error, message),
        )

    def produce_until(self, producer: Producer, acks: int) -> None:
        """Keep it busy until so many more are acked."""
        target = self.acks + acks
        while self.acks < target:
            for _ in range(20):
                self.produce(producer)
            producer.poll(0.001)

    def settle(self, producer: Producer) -> None:
        """Let what can no longer be answered fail."""
        producer.purge()
        producer.flush(ANSWER_S)

    def _answered(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused[number] = error
            return
        partition, offset = message.partition() or 0, message.offset()
        self.acks += 1
        if offset is None or offset < 0:
            self.acked_somewhere[partition].add(number)
            return
        where = self.acked[partition]
        assert offset not in where, f"messages {where[offset]} and {number} at offset {offset}"
        where[offset] = number

    def check(self, server: Server) -> int:
        """Everything acked is where it was said to be, once, in order; gives how many were read."""
        count = 0
        for index in range(self.partitions):
            found = dict(_read(server, self.topic, index))
            numbers = [number_of(value) for value in found.values()]
            assert numbers == sorted(set(numbers)), "out of order, or there twice"
            assert all(number % self.partitions == index for number in numbers)
            for offset, number in self.acked[index].items():
                assert offset in found, f"{self.topic}-{index}: acked message {number} is lost"
                assert number_of(found[offset]) == number
            lost = self.acked_somewhere[index].difference(numbers)
            assert not lost, f"{self.topic}-{index}: acked messages {sorted(lost)} are lost"
            count += len(found)
        return count


def value_of(number: int) -> bytes:
    """Bytes that tell which message it is, and whether they are all right."""
    return b"%d:" % number + (b"%d." % (number * 7919 % 10007)) * (number % 60)


def number_of(value: bytes) -> int:
    number = int(value.split(b":", 1)[0])
    assert value == value_of(number), f"message {number} has other bytes"
    return number


def _read(server: Server, topic: str, index: int) -> Iterator[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.address,
            "group.id": "witness",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(ANSWER_S)
            assert message is not None, f"nothing more from {topic}-{index}, and no end either"
            error = message.error()
            if error is None:
                yield message.offset() or 0, message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def check_stopped(data_dir: Path) -> None:
    """After a stop in good order: nothing to verify, and indexes agree with their logs."""
    disk = RealDisk()
    try:
        for directory in sorted(data_dir.glob("logs/*/*")):
            if directory.is_dir():
                log, recovery = open_log(disk, str(directory), topic_settings({}))
                assert recovery.verified_bytes == recovery.cut_bytes == 0, directory
                assert recovery.problems == [], directory
                check_indexes(log)
    finally:
        disk.close()
