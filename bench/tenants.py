"""Whether a tenant that floods moves another one's latency.

    python -m bench.tenants [--seconds 5] [--passes 3] [--floods 2]

A quiet tenant publishes one message after the other, acks=all, and notes how long each took:

    alone
    beside    while a tenant of another server on the same machine is flooded by producers that
              send as fast as they can, held to the default quotas
    flooded   the same flood, to a tenant of the same server

`beside` is the control: those producers, a server and its disk cost their neighbours on the machine
something, whoever takes the flood.  What sharing one server costs is `flooded` against `beside`.
Passes alternate, so that what else the machine does falls on all.  Beside the client's times stand
those of the server's flushes, of both tenants, as its histogram has them.
"""

import argparse
import multiprocessing
import os
import re
import shutil
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

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
KINDS = ("alone", "beside", "flooded")
HISTOGRAMS = {"flushes": "goqueue_fsync_latency_seconds_bucket{"}
BOUND = re.compile(r'le="([0-9.e+-]+|\+Inf)"')


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


def flooded_latencies_ms(
    address: str, flooded_address: str, seconds: float, floods: int
) -> list[float]:
    is_over = multiprocessing.Event()
    children = [
        multiprocessing.Process(target=flood, args=(flooded_address, is_over))
        for _ in range(floods)
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


class Pass(NamedTuple):
    latencies: list[float]  # milliseconds, sorted
    in_server: dict[str, float]  # p99 in milliseconds, at most


class Servers:
    """The one that is measured, and its neighbour."""

    def __init__(self, directory: Path) -> None:
        self._all = [
            GoQueue(place, installed_goqueue(), login_arguments(place, ROOT, ROOT))
            for place in (directory / "measured", directory / "neighbour")
        ]
        self.measured, self.neighbour = self._all

    def start(self) -> None:
        for each in self._all:
            each.start()
            make_tenants(each.http)

    def stop(self) -> None:
        for each in self._all:
            each.stop()

    def run(self, kind: str, seconds: float, floods: int) -> Pass:
        own, before = self.measured, counts_of(self.measured.http)
        if kind == "alone":
            found = latencies_ms(own.kafka, seconds)
        else:
            at = own if kind == "flooded" else self.neighbour
            found = flooded_latencies_ms(own.kafka, at.kafka, seconds, floods)
        return Pass(found, p99_between(before, counts_of(own.http)))


Counts = dict[str, dict[float, float]]  # by histogram and bound, how many were at most that long


def counts_of(http: str) -> Counts:
    text = httpx.get(f"{http}/metrics", auth=(ROOT, ROOT), timeout=60).text
    found: Counts = {name: {} for name in HISTOGRAMS}
    for name, begin in HISTOGRAMS.items():
        for line in text.splitlines():
            if line.startswith(begin) and (bound := BOUND.search(line)):
                found[name][float(bound[1])] = float(line.split()[1])
    return found


def p99_between(before: Counts, after: Counts) -> dict[str, float]:
    """The bound of the bucket that holds it."""
    found = {}
    for name, counts in after.items():
        grown = {bound: count - before[name].get(bound, 0) for bound, count in counts.items()}
        needed = 0.99 * max(grown.values(), default=0)
        found[name] = min((bound for bound, n in grown.items() if n >= needed), default=0) * 1000
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--floods", type=int, default=2)
    asked = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="tenants-", dir=Path.cwd()))
    servers = Servers(directory)
    passes: dict[str, list[Pass]] = {kind: [] for kind in KINDS}
    try:
        servers.start()
        for _ in range(asked.passes):
            for kind in KINDS:
                passes[kind].append(servers.run(kind, asked.seconds, asked.floods))
        show(passes, usage(servers.measured.http))
    finally:
        servers.stop()
        shutil.rmtree(directory, ignore_errors=True)


def usage(http: str) -> dict[str, Any]:
    address = f"{http}/admin/tenants/{LOUD}/usage"
    found: dict[str, Any] = httpx.get(address, auth=(ROOT, ROOT), timeout=60).json()
    return found


def show(passes: dict[str, list[Pass]], used: dict[str, Any]) -> None:
    table = Table(
        *(
            "quiet tenant",
            "messages",
            "p50 ms",
            "p99 ms",
            "p99 of each pass",
            "in the server, p99 <=",
        ),
        title="Publish, acks=all, fsync; medians of passes",
    )
    medians = {}
    for kind, found in passes.items():
        p99s = [place(each.latencies, 0.99) for each in found]
        p50, p99 = median(place(each.latencies, 0.5) for each in found), median(p99s)
        medians[kind] = p50, p99
        inside = {name: median(each.in_server[name] for each in found) for name in HISTOGRAMS}
        table.add_row(
            *(kind, str(sum(len(each.latencies) for each in found)), f"{p50:.2f}", f"{p99:.2f}"),
            " ".join(f"{each:.1f}" for each in p99s),
            ", ".join(f"{name} {each:g}" for name, each in inside.items()),
        )
    console = Console(width=140)
    console.print(table)
    for over in ("beside", "alone"):
        ratios = [a / b for a, b in zip(medians["flooded"], medians[over], strict=True)]
        console.print(f"flooded / {over}: p50 {ratios[0]:.2f}, p99 {ratios[1]:.2f}")
    console.print(
        f"the loud tenant wrote {used['messages_published']} messages and was throttled"
        f" {used['throttled_requests']} times"
    )
    console.print(f"load of the machine: {machine.load_average()}")


if __name__ == "__main__":
    main()
