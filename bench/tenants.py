"""Whether a tenant that floods moves another one's latency.

    python -m bench.tenants [--seconds 5] [--passes 3] [--floods 2]

A quiet tenant publishes one message after the other, acks=all, and notes how long each took: alone,
and while a tenant with the default quotas is flooded by producers that send as fast as they can.
Passes alternate, so that what else the machine does falls on both.
"""

import argparse
import multiprocessing
import os
import shutil
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

import confluent_kafka
import httpx
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.brokers import GoQueue, installed_goqueue, login_arguments

QUIET, LOUD, ROOT = "quiet", "loud", "root"
PAUSE_SECONDS = 0.005  # between messages of the quiet tenant
WAIT_SECONDS_MAX = 60.0
WARM_UP_SECONDS = 3.0  # of the flood: it logs in, makes its topic, and fills all buffers
FLOOD_BATCH = 1_000


def settings(address: str, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": user,
        "log_level": 0,
    }


def make_tenants(http: str) -> None:
    with httpx.Client(base_url=http, auth=(ROOT, ROOT), timeout=60) as client:
        for tenant in (QUIET, LOUD):
            for call in (
                client.post("/admin/tenants", json={"id": tenant}),
                client.put(f"/admin/tenants/{tenant}/users/{tenant}"),
                client.put(f"/admin/users/{tenant}", json={"password": tenant, "roles": ["admin"]}),
            ):
                call.raise_for_status()


def flood(address: str, is_over: Event) -> None:
    """As fast as the server takes it."""
    producer = confluent_kafka.Producer(
        {**settings(address, LOUD), "linger.ms": 5, "batch.num.messages": 500}
    )
    value = os.urandom(100)
    while not is_over.is_set():
        try:
            for _ in range(FLOOD_BATCH):
                producer.produce("flood", value)
        except BufferError:
            producer.poll(0.1)
    producer.purge()


def latencies_ms(address: str, seconds: float) -> list[float]:
    producer = confluent_kafka.Producer({**settings(address, QUIET), "linger.ms": 0})
    producer.produce("orders", b"first")
    producer.flush(WAIT_SECONDS_MAX)
    found, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        producer.produce("orders", b"x" * 100)
        if producer.flush(WAIT_SECONDS_MAX):
            raise TimeoutError("a message was not taken in a minute")
        found.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE_SECONDS)
    return sorted(found)


def flooded_latencies_ms(address: str, seconds: float, floods: int) -> list[float]:
    is_over = multiprocessing.Event()
    children = [
        multiprocessing.Process(target=flood, args=(address, is_over)) for _ in range(floods)
    ]
    for child in children:
        child.start()
    try:
        time.sleep(WARM_UP_SECONDS)
        return latencies_ms(address, seconds)
    finally:
        is_over.set()
        for child in children:
            child.join(20)
            child.kill()


def place(found: list[float], share: float) -> float:
    return found[min(len(found) - 1, int(share * len(found)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--floods", type=int, default=2)
    asked = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="tenants-", dir=Path.cwd()))
    broker = GoQueue(directory, installed_goqueue(), login_arguments(directory, ROOT, ROOT))
    passes: dict[str, list[list[float]]] = {"alone": [], "flooded": []}
    try:
        broker.start()
        make_tenants(broker.http)
        for _ in range(asked.passes):
            passes["alone"].append(latencies_ms(broker.kafka, asked.seconds))
            passes["flooded"].append(
                flooded_latencies_ms(broker.kafka, asked.seconds, asked.floods)
            )
        show(passes, usage(broker.http))
    finally:
        broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


def usage(http: str) -> dict[str, Any]:
    address = f"{http}/admin/tenants/{LOUD}/usage"
    found: dict[str, Any] = httpx.get(address, auth=(ROOT, ROOT), timeout=60).json()
    return found


def show(passes: dict[str, list[list[float]]], used: dict[str, Any]) -> None:
    table = Table("quiet tenant", "messages", "p50 ms", "p99 ms", title="Publish, acks=all, fsync")
    medians = {}
    for name, found in passes.items():
        p50, p99 = (median(place(each, share) for each in found) for share in (0.5, 0.99))
        medians[name] = p50, p99
        table.add_row(name, str(sum(map(len, found))), f"{p50:.2f}", f"{p99:.2f}")
    console = Console()
    console.print(table)
    ratios = [flooded / alone for alone, flooded in zip(*medians.values(), strict=True)]
    console.print(f"flooded / alone: p50 {ratios[0]:.2f}, p99 {ratios[1]:.2f} (medians of passes)")
    console.print(
        f"the loud tenant wrote {used['messages_published']} messages and was throttled"
        f" {used['throttled_requests']} times"
    )
    console.print(f"load of the machine: {machine.load_average()}")


if __name__ == "__main__":
    main()
