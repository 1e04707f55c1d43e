"""What validation costs: `python -m bench.schemas [--messages N] [--repeats N]`.

One librdkafka producer writes the same JSON documents of about 1 KiB, framed with the id of their
schema, to topics that validate nothing (`off`), the id (`id`), and the whole payload (`full`), in
turns.  `full, open` has properties that the schema does not name, so that the complete validator
does the work.  Beside the rate stands the broker's CPU time, which other work on the machine
disturbs less.  All with acks=all and fsync; the number of messages in the topic is compared.
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import confluent_kafka
import httpx
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import GoQueue, installed_goqueue
from bench.sending import send_all, timed

SIZE = 1024
MODES = {"off": "off", "id": "id", "full": "full", "full, open": "full"}
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string", "maxLength": 100},
        "total": {"type": "number", "minimum": 0},
        "paid": {"type": "boolean"},
        "state": {"enum": ["new", "paid", "sent"]},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string"},
                    "count": {"type": "integer", "minimum": 1},
                    "price": {"type": "number"},
                },
                "required": ["sku", "count"],
            },
        },
    },
    "required": ["id", "customer"],
}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, default=300_000)
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        broker = GoQueue(Path(directory) / "goqueue", installed_goqueue())
        try:
            broker.start()
            _measure(broker, given)
        finally:
            broker.stop()


def _measure(broker: GoQueue, given: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {mode: [] for mode in MODES}
    costs: dict[str, list[float]] = {mode: [] for mode in MODES}
    for mode in MODES:
        _pass(broker, mode, given.messages // 10)  # a warm-up
    for _ in range(given.repeats):
        for mode in MODES:
            seconds, cpu = _pass(broker, mode, given.messages)
            rates[mode].append(given.messages / seconds)
            costs[mode].append(cpu / given.messages * 1e6)
    off = rates["off"]
    print(f"{given.messages} documents of {len(_document('off'))} bytes, {given.repeats} passes")
    print(f"{'':12} {'msg/s':>9} {'of off':>7} {'best':>9} {'broker CPU us':>14} {'least':>7}")
    for mode in MODES:
        share = statistics.median(a / b for a, b in zip(rates[mode], off, strict=True))
        rate, cost = statistics.median(rates[mode]), statistics.median(costs[mode])
        best, least = max(rates[mode]), min(costs[mode])
        print(f"{mode:12} {rate:9.0f} {share:7.0%} {best:9.0f} {cost:14.2f} {least:7.2f}")


def _pass(broker: GoQueue, mode: str, messages: int) -> tuple[float, float]:
    topic = f"bench-{os.urandom(4).hex()}"
    schema_id = _register(broker, topic)
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    settings = {"goqueue.schema.validation": MODES[mode]}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(20)
    value = b"\0" + schema_id.to_bytes(4) + _document(mode)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.kafka,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 100_000,
        }
    )
    producer.list_topics(topic, 20)
    taken = timed(
        lambda: send_all(producer, topic, value, messages), lambda: broker.usage().cpu_seconds
    )
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.kafka, "group.id": "bench"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 20) == (0, messages)
    consumer.close()
    admin.delete_topics([topic])[topic].result(20)
    return taken


def _register(broker: GoQueue, topic: str) -> int:
    url = f"{broker.http}/registry/subjects/{topic}-value/versions"
    reply = httpx.post(url, json={"schema": json.dumps(SCHEMA), "schemaType": "JSON"})
    reply.raise_for_status()
    return int(reply.json()["id"])


def _document(mode: str) -> bytes:
    lines = [{"sku": f"sku-{n:06d}", "count": n + 1, "price": 2.5 * n} for n in range(18)]
    found: dict[str, Any] = {
        "id": 123_456,
        "customer": "Ada Lovelace",
        "total": 512.5,
        "paid": True,
    }
    found |= {"state": "new", "note": None, "lines": lines}
    if mode == "full, open":
        found["x"] = "y"
    found["customer"] += "." * (SIZE - len(json.dumps(found)))
    return json.dumps(found).encode()


if __name__ == "__main__":
    main()
