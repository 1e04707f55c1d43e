"""What exactly-once costs: `python -m bench.transactions [--producers N] [--flush never]`.

librdkafka producers write the same messages plainly, idempotently, and in transactions of a
thousand, in turns; all with acks=all.  A transaction waits for the disk three times, one after the
other (records, decision, markers), while plain batches are pipelined: so one producer alone shows
the disk's latency, several at once or `--flush never` the broker.  Beside the rate stands the
broker's CPU time, which other work on the machine disturbs less.  Everything is read back with
read_committed and counted.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
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
    options.add_argument("--producers", type=int, default=1)
    options.add_argument("--flush", choices=("commit", "interval", "never"), default="commit")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        broker = Broker(Path(directory))
        try:
            _measure(broker, given)
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


def _measure(broker: Broker, given: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {mode: [] for mode in MODES}
    costs: dict[str, list[float]] = {mode: [] for mode in MODES}
    for mode in MODES:
        _pass(broker, mode, given, given.messages // 10)  # a warm-up
    for _ in range(given.repeats):
        for mode in MODES:
            seconds, cpu = _pass(broker, mode, given, given.messages)
            rates[mode].append(given.messages / seconds)
            costs[mode].append(cpu / given.messages * 1e6)
    plain = statistics.median(rates["plain"])
    print(
        f"{given.messages} messages of {given.size} bytes, {given.producers} producer(s),"
        f" acks=all, flush={given.flush}, median of {given.repeats}"
    )
    print(f"{'':14} {'msg/s':>9} {'of plain':>9} {'best':>9} {'broker CPU s/M':>15}")
    for mode in MODES:
        rate = statistics.median(rates[mode])
        cost = statistics.median(costs[mode])
        best = max(rates[mode])
        print(f"{mode:14} {rate:9.0f} {rate / plain:9.0%} {best:9.0f} {cost:15.2f}")


def _pass(
    broker: Broker, mode: str, given: argparse.Namespace, messages: int
) -> tuple[float, float]:
    topic, value = f"bench-{os.urandom(4).hex()}", os.urandom(given.size)
    admin = AdminClient({"bootstrap.servers": broker.address})
    made = NewTopic(topic, PARTITIONS, 1, config={"flush": given.flush})
    admin.create_topics([made])[topic].result(20)
    producers = [_started(broker, mode, topic, value, each) for each in range(given.producers)]
    cpu, began = broker.cpu_seconds(), time.perf_counter()
    with ThreadPoolExecutor(given.producers) as threads:
        share = messages // given.producers
        done = [threads.submit(_send, each, topic, value, share, mode) for each in producers]
        for each in done:
            each.result()
    taken = time.perf_counter() - began, broker.cpu_seconds() - cpu
    assert _count(broker, topic) >= share * given.producers
    admin.delete_topics([topic])[topic].result(20)
    return taken


def _started(broker: Broker, mode: str, topic: str, value: bytes, number: int) -> Any:
    settings = dict(MODES[mode])
    if mode == "transactional":
        settings["transactional.id"] = f"bench-{number}"
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.address,
            "acks": "all",
            "linger.ms": 5,
            "max.in.flight": 5,  # what idempotence demands, and the Java client's default
            "queue.buffering.max.messages": 200_000,
        }
        | settings
    )
    if mode == "transactional":
        producer.init_transactions(20)
    else:  # so that it has its connections, and its id
        producer.produce(topic, value)
        assert producer.flush(20) == 0
    return producer


def _send(producer: Any, topic: str, value: bytes, messages: int, mode: str) -> None:
    transactional = mode == "transactional"
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
