"""What tracing costs: the same load on a server that traces and on one that does not, in turns.

    python -m bench.tracing [--passes 5] [--messages 300000] [--queue-messages 6000]

Stream: confluent-kafka produces messages of 100 bytes with acks=all and reads them back.  Queue: a
batch is published over HTTP, received and acked by fifty.  Passes alternate, so that both have the
same machine; ratios are of the medians.  The servers' CPU time is told beside: it does not depend
on who else is there.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition

COMMAND = "from goqueue.cli.main import main; main()"
READY = re.compile(r"kafka=(\S+) http=(\S+)")
BATCH = 50


class Server:
    def __init__(self, directory: str, *, traces: bool) -> None:
        arguments = ["server", "--data-dir", directory, "--kafka", "127.0.0.1:0"]
        arguments += ["--http", "127.0.0.1:0", "--log-level", "warning"]
        arguments += ["--set", f"traces.enabled={str(traces).lower()}"]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", COMMAND, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        found = READY.search(self.process.stdout.readline())
        assert found, "it did not start"
        self.kafka, self.http = found.groups()

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def stream(server: Server, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": server.kafka, "acks": "all", "linger.ms": 5,
                         "queue.buffering.max.messages": count + 1, "log_level": 0})  # fmt: skip
    value = b"x" * 100
    for number in range(count):
        producer.produce(topic, value, partition=0)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": topic, "log_level": 0,
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = 0
    while seen < count:
        seen += len(consumer.consume(10_000, 1))
    consumer.close()


def queue(server: Server, topic: str, count: int) -> None:
    with httpx.Client(base_url=server.http, trust_env=False, timeout=60) as client:

        def post(path: str, **body: Any) -> Any:
            reply = client.post(path, json=body)
            assert reply.status_code == 200, reply.text
            return reply.json()

        for _ in range(count // BATCH):
            post(f"/topics/{topic}/messages", messages=[{"value": "x" * 100}] * BATCH)
            found = post(f"/queues/{topic}/receive", group="g", consumer="w", max_messages=BATCH)
            receipts = [each["receipt_handle"] for each in found["messages"]]
            post("/messages/ack", receipt_handles=receipts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--queue-messages", type=int, default=6_000)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as off_dir, tempfile.TemporaryDirectory() as on_dir:
        servers = {"off": Server(off_dir, traces=False), "on": Server(on_dir, traces=True)}
        try:
            report = {
                "stream": measure(servers, stream, wanted.messages, wanted.passes),
                "queue": measure(servers, queue, wanted.queue_messages, wanted.passes),
                "memory_mb": {name: round(each.resident_mb()) for name, each in servers.items()},
            }
        finally:
            for each in servers.values():
                each.process.kill()
                each.process.wait()
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


def measure(servers: dict[str, Server], load: Any, count: int, passes: int) -> dict[str, Any]:
    rates: dict[str, list[float]] = {name: [] for name in servers}
    cpu: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(passes + 1):
        order = sorted(servers.items(), reverse=bool(number % 2))
        for name, server in order:
            topic = f"{load.__name__}-{number}"
            httpx.post(f"{server.http}/topics", json={"name": topic, "partitions": 1})
            began, used = time.monotonic(), server.cpu_seconds()
            load(server, topic, count)
            if number:  # the first pass warms up
                rates[name].append(count / (time.monotonic() - began))
                cpu[name].append((server.cpu_seconds() - used) / count * 1e6)
    rate = {name: statistics.median(each) for name, each in rates.items()}
    used = {name: statistics.median(each) for name, each in cpu.items()}
    return {
        "messages_per_second": {name: round(each) for name, each in rate.items()},
        "cpu_us_per_message": {name: round(each, 3) for name, each in used.items()},
        "throughput_cost_percent": round((1 - rate["on"] / rate["off"]) * 100, 1),
        "cpu_cost_percent": round((used["on"] / used["off"] - 1) * 100, 1),
    }


if __name__ == "__main__":
    main()
