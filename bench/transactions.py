"""What exactly-once costs: `python -m bench.transactions [--producers N] [--kafka] [--no-sync]`.

librdkafka producers write the same messages plainly, idempotently, and in transactions of a
thousand (`--transaction N`: of N), in turns; all with acks=all.  A transaction is a dialogue
(partitions, records, end) with a disk behind it, while plain batches are pipelined: one producer
alone shows how long that takes, several at once what the broker can do.  Beside the rate stands
the broker's CPU time, which other work on the machine disturbs less.  Everything is read back with
read_committed and counted. `--kafka` does the same with Apache Kafka, which then syncs a topic's
batches as we do, and the state of its transactions never.
"""

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import Broker, GoQueue, installed_goqueue
from bench.kafka import Kafka

PARTITIONS = 3
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
    options.add_argument("--transaction", type=int, default=1000, help="messages in each")
    options.add_argument("--no-sync", action="store_true", help="acked is in memory")
    options.add_argument("--kafka", action="store_true", help="Apache Kafka as well")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        brokers: list[Broker] = [GoQueue(Path(directory) / "goqueue", installed_goqueue())]
        if given.kafka:
            brokers.append(Kafka(Path(directory) / "kafka"))
        for broker in brokers:  # one after the other: a JVM that waits works all the same
            try:
                broker.start()
                _measure(broker, given)
            finally:
                broker.stop()


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
        f"{broker.name} {broker.version}: {given.messages} messages of {given.size} bytes,"
        f" {given.producers} producer(s), {_mode(given)}, median of {given.repeats}"
    )
    print(f"{'':14} {'msg/s':>9} {'of plain':>9} {'best':>9} {'broker CPU s/M':>15}")
    for mode in MODES:
        rate = statistics.median(rates[mode])
        cost = statistics.median(costs[mode])
        best = max(rates[mode])
        print(f"{mode:14} {rate:9.0f} {rate / plain:9.0%} {best:9.0f} {cost:15.2f}")


def _mode(given: argparse.Namespace) -> str:
    return "acks=all, no fsync" if given.no_sync else "acks=all, fsync"


def _pass(
    broker: Broker, mode: str, given: argparse.Namespace, messages: int
) -> tuple[float, float]:
    topic, value = f"bench-{os.urandom(4).hex()}", os.urandom(given.size)
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    made = NewTopic(topic, PARTITIONS, 1, config=broker.topic_settings[_mode(given)])
    admin.create_topics([made])[topic].result(20)
    producers = [_started(broker, mode, topic, value, each) for each in range(given.producers)]
    cpu, began = broker.usage().cpu_seconds, time.perf_counter()
    with ThreadPoolExecutor(given.producers) as threads:
        share = messages // given.producers
        size = given.transaction
        done = [threads.submit(_send, each, topic, value, share, mode, size) for each in producers]
        for each in done:
            each.result()
    taken = time.perf_counter() - began, broker.usage().cpu_seconds - cpu
    assert _count(broker, topic) >= share * given.producers
    admin.delete_topics([topic])[topic].result(20)
    return taken


def _started(broker: Broker, mode: str, topic: str, value: bytes, number: int) -> Any:
    settings = dict(MODES[mode])
    if mode == "transactional":
        settings["transactional.id"] = f"bench-{number}"
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.kafka,
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


def _send(producer: Any, topic: str, value: bytes, messages: int, mode: str, size: int) -> None:
    transactional = mode == "transactional"
    for first in range(0, messages, size):
        if transactional:
            producer.begin_transaction()
        for _ in range(min(size, messages - first)):
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
            "bootstrap.servers": broker.kafka,
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
