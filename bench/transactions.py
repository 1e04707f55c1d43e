"""What exactly-once costs: `python -m bench.transactions [--messages N] [--repeats N]`.

One librdkafka producer writes the same messages plainly, idempotently, and in transactions of a
thousand, in turns; all with acks=all.  Beside the rate stands the broker's CPU time, which other
work on the machine disturbs less.  Everything is read back with read_committed and counted.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TRANSACTION_MESSAGES = 1000
PARTITIONS = 3
READY = re.compile(r"GoQueue is ready: kafka=(\S+) ")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
MODES: dict[str, dict[str, Any]] = {
    "plain": {"enable.idempotence": False},
    "idempotent": {"enable.idempotence": True},
    "transactional": {"transactional.id": "bench"},
}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, default=300_000)
    options.add_argument("--size", type=int, default=100)
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        broker = Broker(Path(directory))
        try:
            _measure(broker, given.messages, given.size, given.repeats)
        finally:
            broker.end()


class Broker:
    def __init__(self, directory: Path) -> None:
        with (directory / "stderr").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "goqueue", "server"),
                    *("--data-dir", str(directory / "data")),
                    *("--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        found = READY.match(self._process.stdout.readline())
        assert found, (directory / "stderr").read_text()
        self.address = found[1]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(20)


def _measure(broker: Broker, messages: int, size: int, repeats: int) -> None:
    rates: dict[str, list[float]] = {mode: [] for mode in MODES}
    costs: dict[str, list[float]] = {mode: [] for mode in MODES}
    _pass(broker, "plain", messages // 10, size)  # a warm-up
    for _ in range(repeats):
        for mode in MODES:
            seconds, cpu = _pass(broker, mode, messages, size)
            rates[mode].append(messages / seconds)
            costs[mode].append(cpu / messages * 1e6)
    plain = statistics.median(rates["plain"])
    print(f"{messages} messages of {size} bytes, median of {repeats}, acks=all with fsync")
    print(f"{'':14} {'msg/s':>9} {'of plain':>9} {'best':>9} {'broker CPU s/M':>15}")
    for mode in MODES:
        rate = statistics.median(rates[mode])
        cost = statistics.median(costs[mode])
        best = max(rates[mode])
        print(f"{mode:14} {rate:9.0f} {rate / plain:9.0%} {best:9.0f} {cost:15.2f}")


def _pass(broker: Broker, mode: str, messages: int, size: int) -> tuple[float, float]:
    topic = f"bench-{os.urandom(4).hex()}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(20)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.address,
            "acks": "all",
            "linger.ms": 5,
            "max.in.flight": 5,  # what idempotence demands, and the Java client's default
            "queue.buffering.max.messages": 200_000,
        }
        | MODES[mode]
    )
    if mode == "transactional":
        producer.init_transactions(20)
    value = os.urandom(size)
    cpu, began = broker.cpu_seconds(), time.perf_counter()
    _send(producer, topic, value, messages, transactional=mode == "transactional")
    taken = time.perf_counter() - began, broker.cpu_seconds() - cpu
    assert _count(broker, topic) == messages
    admin.delete_topics([topic])[topic].result(20)
    return taken


def _send(producer: Any, topic: str, value: bytes, messages: int, *, transactional: bool) -> None:
    for first in range(0, messages, TRANSACTION_MESSAGES):
        if transactional:
            producer.begin_transaction()
        for _ in range(min(TRANSACTION_MESSAGES, messages - first)):
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
        if transactional:
            producer.commit_transaction(60)
        else:
            producer.poll(0)
    assert producer.flush(60) == 0


def _count(broker: Broker, topic: str) -> int:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    count = ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                count += 1
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended += 1
    consumer.close()
    return count


if __name__ == "__main__":
    main()
