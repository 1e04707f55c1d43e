"""What every part of a run shares: the client, the brokers to measure, how often, and where."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench.brokers import Broker, GoQueue
from bench.client import Client
from bench.clients import NativeClient
from bench.process import TICKS_PER_SECOND, Failed

# Acks of the client and, by `Broker.topic_settings`, what a reply stands for.
ACKS_OF_MODE = {"acks=1": "1", "acks=all, fsync": "all", "acks=all, no fsync": "all"}
DURABLE = "acks=all, fsync"

NOISY = 0.25  # cores taken by others, from which on a pass counts as disturbed
QUIET_LOOK_SECONDS = 0.5


Measure = Callable[[], dict[str, Any]]


class Section(msgspec.Struct):
    """One table of the report, and the figures behind it."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[str]] = []
    notes: list[str] = []
    figures: list[dict[str, Any]] = []


class Session(msgspec.Struct):
    directory: Path
    goqueue: str
    client: Client
    peers: list[str]
    repeats: int
    retries: int
    syncs_first: bool
    quiet_wait_seconds: float
    kafka_version: str
    nodes: int  # of each broker: 1, or 3
    on_etcd: bool  # the nodes of GoQueue keep their metadata in an etcd
    tell: Callable[[str], None]

    @property
    def native(self) -> NativeClient:
        if not isinstance(self.client, NativeClient):
            raise Failed("only the C client can measure this (a C compiler and librdkafka-dev)")
        return self.client

    @property
    def names(self) -> list[str]:
        return ["goqueue", *self.peers]

    @contextlib.contextmanager
    def running(self, *names: str) -> Iterator[list[Broker]]:
        """Brokers on empty directories; ended and removed after the block.

        Together, so that passes can take turns: the speed of a shared machine drifts, and a ratio
        of figures that were taken minutes apart would drift with it.
        """
        brokers = [self.broker(name) for name in names]
        with contextlib.ExitStack() as stack:
            for broker in brokers:
                stack.callback(broker.remove)
                broker.start()
            yield brokers

    def in_turns(self, measures: list[Measure]) -> list[list[dict[str, Any]]]:
        """`repeats` passes of each, taking turns.

        Passes that others disturbed are done again, `retries` times at most, and the quietest kept.
        """
        passes: list[list[dict[str, Any]]] = [[] for _ in measures]
        for attempt in range(self.repeats + self.retries):
            for measure, done in zip(measures, passes, strict=True):
                quiet = sum(each["other_cores"] <= NOISY for each in done)
                if attempt < self.repeats or quiet < self.repeats:
                    self._wait_for_quiet()
                    done.append(measure())
        return [sorted(done, key=_disturbance)[: self.repeats] for done in passes]

    def settle(self) -> None:
        """Write out what earlier passes left in memory, or the next one pays for it."""
        if self.syncs_first:
            os.sync()

    def _wait_for_quiet(self) -> None:
        """Bounded: a machine that is never quiet is measured all the same, and the pass marked."""
        self.settle()
        deadline = time.monotonic() + self.quiet_wait_seconds
        while time.monotonic() < deadline:
            watch = Watch()
            time.sleep(QUIET_LOOK_SECONDS)
            if watch.others(0.0) <= NOISY / 2:
                return

    def broker(self, name: str) -> Broker:
        directory = self.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        if self.nodes > 1:
            return self._cluster(name, directory)
        if name == "goqueue":
            return GoQueue(directory, self.goqueue)
        from bench.kafka import Kafka

        return Kafka(directory, self.kafka_version)

    def _cluster(self, name: str, directory: Path) -> Broker:
        from bench.clusters import GoQueueCluster, KafkaCluster

        if name == "goqueue":
            return GoQueueCluster(directory, self.goqueue, on_etcd=self.on_etcd)
        return KafkaCluster(directory, self.kafka_version)


def _disturbance(figures: dict[str, Any]) -> float:
    return float(figures["other_cores"])


class Watch:
    """CPU seconds of the whole machine over a block, to see what others took meanwhile."""

    def __init__(self) -> None:
        self._busy = _busy_seconds()
        self._at = time.monotonic()

    def others(self, own_cpu_seconds: float) -> float:
        """Cores that neither client nor broker used, on average since the start."""
        busy = _busy_seconds() - self._busy
        return max(0.0, (busy - own_cpu_seconds) / (time.monotonic() - self._at))


def _busy_seconds() -> float:
    user, nice, system, _, _, interrupt, soft, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + interrupt + soft + steal) / TICKS_PER_SECOND


def middle(figures: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """The figure whose `key` is the median (the lower one of two)."""
    ordered = sorted(figures, key=lambda figure: figure[key])
    return ordered[(len(ordered) - 1) // 2]


def median_of(figures: list[dict[str, Any]], key: str) -> float:
    return float(median(figure[key] for figure in figures))


def disturbed(figures: list[dict[str, Any]]) -> list[str]:
    """A note on the passes that shared the machine."""
    noisy = sum(each["other_cores"] > NOISY for each in figures)
    if not noisy:
        return []
    return [
        f"In {noisy} of {len(figures)} passes other processes had more than {NOISY} cores:"
        " their figures are worse than they need be."
    ]


def mebibytes(count: float) -> str:
    return f"{count / 2**20:,.0f}"
