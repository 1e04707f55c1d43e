"""What a snapshot of a large state costs those who are served meanwhile.

    python -m bench.snapshots [offsets | leases | retries …] [--count 1000000] [--rate 1000]

A machine is filled, on a log on disk, and one snapshot is taken while decisions go on at a steady
rate all over the state; then it is read again.

    offsets    committed offsets, in groups of 1,000 partitions
    leases     messages in flight in 3 partitions, ten to a hand-out, each tenth extended by itself
    retries    messages that failed and wait for their retry, in 3 partitions

The longest stall is what the event loop did without a pause, as CPU time of its thread and as time
on the clock: other processes of the machine and the threads that write show in the latter alone.
Python's garbage collector may run at any time in any program with so many objects; what it took is
told apart.
"""

import argparse
import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from goqueue.broker import MachineHost, Partition
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.cluster.replication import Leader
from goqueue.groups import GroupMachine
from goqueue.groups.records import CommittedOffset, OffsetsCommitted
from goqueue.log import open_log
from goqueue.model.ids import (
    Epoch,
    GroupId,
    NodeId,
    Offset,
    PartitionId,
    Timestamp,
    TopicId,
    TopicName,
)
from goqueue.model.machine import Decision
from goqueue.model.settings import topic_settings
from goqueue.queue import GroupTable, QueueMachine, Where
from goqueue.queue.lanes import LANES
from goqueue.queue.records import Extended, Finished, Leased, Opened, Returned
from goqueue.runtime import RealClock, RealDisk

GROUP_PARTITIONS = 1_000
LEASE_MESSAGES = 10
NOW = Timestamp(1_750_000_000_000)
LATER = Timestamp(NOW + 3_600_000)
TOPIC, WORKERS = TopicName("orders"), GroupId("workers")
WHERE = Where(WORKERS, TOPIC, 0)

Change = Callable[[int], Any]  # the n-th record that is decided while the snapshot is written


class Figures(msgspec.Struct):
    state: str
    count: int
    longest_cpu_ms: float  # without Python's garbage collector
    collector_cpu_ms: float  # its longest run
    longest_ms: float
    seconds: float
    snapshot_mib: float
    state_mib: float
    extra_mib: float  # memory at its peak, over what it was before
    decided: int  # meanwhile
    commit_ms: float  # median wait of a decision meanwhile, one at a time
    commit_p99_ms: float
    load_seconds: float


# --- the states -----------------------------------------------------------------------------------


def offsets(count: int) -> tuple[GroupMachine, Iterable[Any], Change]:
    groups = count // GROUP_PARTITIONS

    def committed(number: int, offset: int, partitions: range) -> OffsetsCommitted:
        some = (CommittedOffset(TOPIC, each, Offset(offset)) for each in partitions)
        return OffsetsCommitted(GroupId(f"group-{number}"), tuple(some))

    everything = (committed(each, 12_345_678, range(GROUP_PARTITIONS)) for each in range(groups))
    return GroupMachine(), everything, lambda n: committed(n * 7 % groups, n, range(3))


def leases(count: int) -> tuple[QueueMachine, Iterable[Any], Change]:
    def everything() -> Iterable[Any]:
        yield Opened(WHERE, TopicId(UUID(int=1)), Offset(0))
        for number in range(count // LEASE_MESSAGES):
            yield _leased(number)
            first = number * LEASE_MESSAGES
            yield Extended(WHERE, (first,), NOW, LATER)

    def change(number: int) -> Finished:
        first = number * 7 % (count // LEASE_MESSAGES) * LEASE_MESSAGES
        return Finished(WHERE, ((first, first + 3),))

    return _ledger(), everything(), change


def retries(count: int) -> tuple[QueueMachine, Iterable[Any], Change]:
    def everything() -> Iterable[Any]:
        yield Opened(WHERE, TopicId(UUID(int=1)), Offset(0))
        for number in range(count // LEASE_MESSAGES):
            yield _leased(number)
            first = number * LEASE_MESSAGES
            some = tuple(range(first, first + LEASE_MESSAGES))
            yield Returned(WHERE, some, (LATER,) * len(some), "nacked", NOW, "no answer")

    def change(number: int) -> Finished:
        offset = number * 7 % count
        return Finished(WHERE, ((offset, offset),))

    return _ledger(), everything(), change


STATES = {"offsets": offsets, "leases": leases, "retries": retries}


def _ledger() -> QueueMachine:
    return QueueMachine(TOPIC, 0, GroupTable())


def _leased(number: int) -> Leased:
    first = number * LEASE_MESSAGES
    end = first + LEASE_MESSAGES
    fresh = ((first, end - 1, 2),)
    return Leased(WHERE, number, f"c{number % 100}", NOW, LATER, fresh, (), (end,) * LANES)


# --- measuring ------------------------------------------------------------------------------------


async def measure(state: str, count: int, rate: int, directory: Path) -> Figures:
    empty = _memory("VmRSS")
    machine, records, change = STATES[state](count)
    disk = RealDisk()
    host = MachineHost(machine, _journal(disk, directory), RealClock())
    await host.open()
    for record in records:
        machine.apply(record)
    gc.collect()
    full = _memory("VmRSS")
    _forget_peak()
    pulse = Pulse()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(pulse.beat())
        deciding = tasks.create_task(_decide(host, change, rate, pulse))
        waiting = tasks.create_task(_wait_for_commits(host, change, pulse))
        await asyncio.sleep(0.5)
        pulse.reset()
        started = time.perf_counter()
        await host.take_snapshot()
        seconds = time.perf_counter() - started
        await asyncio.sleep(0.01)
        watching.cancel()
        deciding.cancel()
        waiting.cancel()
    pulse.stop()
    peak = _memory("VmHWM")
    await host.wait_settled()
    stored = await _journal(disk, directory).newest_snapshot()
    assert stored is not None
    again, _, _ = STATES[state](count)
    started = time.perf_counter()
    await MachineHost(again, _journal(disk, directory), RealClock()).open()
    loaded = time.perf_counter() - started
    disk.close()
    return Figures(
        state,
        count,
        round(pulse.longest_cpu_ms, 1),
        round(pulse.collector_cpu_ms, 1),
        round(pulse.longest_ms, 1),
        round(seconds, 1),
        round(stored.bytes / 2**20, 1),
        round(full - empty),
        round(max(0.0, peak - full), 1),
        pulse.decided,
        *(round(each, 1) for each in pulse.commit_times()),
        round(loaded, 1),
    )


class Pulse:
    """How long the loop lets others wait."""

    def __init__(self) -> None:
        self.decided = 0
        self.reset()
        self._collecting_since = 0.0
        gc.callbacks.append(self._note_collection)

    def reset(self) -> None:
        self.longest_ms = 0.0
        self.longest_cpu_ms = 0.0  # without the collector
        self.collector_cpu_ms = 0.0
        self._collected_ms = 0.0  # since the last beat
        self.waits_ms: list[float] = []

    def commit_times(self) -> tuple[float, float]:
        """Median and 99th percentile."""
        waits = sorted(self.waits_ms)
        return waits[len(waits) // 2], waits[len(waits) * 99 // 100]

    def _note_collection(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since = time.thread_time()
            return
        took_ms = (time.thread_time() - self._collecting_since) * 1e3
        self._collected_ms += took_ms
        self.collector_cpu_ms = max(self.collector_cpu_ms, took_ms)

    def stop(self) -> None:
        gc.callbacks.remove(self._note_collection)

    async def beat(self) -> None:
        clock, cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0)
            before, cpu_before = clock, cpu
            clock, cpu = time.perf_counter(), time.thread_time()
            self.longest_ms = max(self.longest_ms, (clock - before) * 1e3)
            own_ms = (cpu - cpu_before) * 1e3 - self._collected_ms
            self._collected_ms = 0.0
            self.longest_cpu_ms = max(self.longest_cpu_ms, own_ms)


async def _decide(host: MachineHost[Any], change: Change, rate: int, pulse: Pulse) -> None:
    while True:
        decision = Decision((change(pulse.decided),), None)
        host.write(lambda _, decided=decision: decided)
        pulse.decided += 1
        await asyncio.sleep(1 / rate)


async def _wait_for_commits(host: MachineHost[Any], change: Change, pulse: Pulse) -> None:
    while True:
        started = time.perf_counter()
        decision = Decision((change(pulse.decided),), None)
        await host.submit(lambda _, decided=decision: decided)
        pulse.waits_ms.append((time.perf_counter() - started) * 1e3)
        pulse.decided += 1
        await asyncio.sleep(0.005)


def _journal(disk: RealDisk, directory: Path) -> PartitionJournal:
    clock, log_directory = RealClock(), str(directory / "log")
    disk.make_directory(log_directory)
    log, _ = open_log(disk, log_directory, topic_settings({"max.message.bytes": "100000000"}))
    role = Leader.alone(NodeId(1), Epoch(0))
    partition = Partition(
        "bench", None, PartitionId(0), log, role, disk, lambda _: None, _ignore, lambda _: None
    )
    return PartitionJournal(partition, disk, clock, str(directory / "snapshots"))


def _ignore(_partition: Partition, _seconds: float, _error: Exception | None) -> None:
    return


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _memory(name: str) -> float:
    """MiB, of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise LookupError(name)


def measured(state: str, count: int, rate: int) -> Figures:
    """In a process of its own, so that its memory tells."""
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(measure(state, count, rate, Path(directory)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("states", nargs="*", choices=[*STATES, []], default=[])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=1_000, help="decisions a second meanwhile")
    chosen = parser.parse_args()
    one_each = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
    with one_each as processes:
        for state in chosen.states or STATES:
            figures = processes.submit(measured, state, chosen.count, chosen.rate).result()
            print(json.dumps(msgspec.to_builtins(figures)), flush=True)


if __name__ == "__main__":
    main()
