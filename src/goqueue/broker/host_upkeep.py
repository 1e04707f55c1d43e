"""Fires the deadlines of machines and has their snapshots taken: one task for many hosts.

A node may have a machine for each of ten thousand partitions.  A timer and a task for each would
cost more than what they do, so the hosts of one kind share this.
"""

import asyncio
import contextlib
import heapq
from typing import Final, Protocol

from goqueue.model.ids import Timestamp
from goqueue.runtime import Clock

SNAPSHOT_SECONDS: Final = 300.0  # after which a snapshot is due if there is anything new
NEVER: Final = Timestamp(2**63 - 1)


class Hosted(Protocol):
    """What this needs of a host."""

    awaited: Timestamp  # the deadline that is watched for it
    records_since_snapshot: int

    def fire(self, now: Timestamp) -> None:
        """Do what is due, and `watch` the next deadline."""

    async def try_snapshot(self) -> None: ...


class HostUpkeep:
    def __init__(self, clock: Clock, *, records_min: int = 1) -> None:
        self._clock = clock
        self._records_min = records_min  # that are worth a snapshot after a while
        self._hosts: dict[Hosted, None] = {}
        self._alarms: list[tuple[Timestamp, int, Hosted]] = []  # heap of (when, number, whose)
        self._serial = 0
        self._asleep_until = Timestamp(0)
        self._woken = asyncio.Event()
        self._due: dict[Hosted, None] = {}  # whose log has grown
        self._snapshot_due = asyncio.Event()

    def add(self, host: Hosted) -> None:
        self._hosts[host] = None

    def remove(self, host: Hosted) -> None:
        """Its log is gone."""
        self._hosts.pop(host, None)
        self._due.pop(host, None)
        host.awaited = Timestamp(0)  # before all deadlines

    def watch(self, host: Hosted, deadline: Timestamp) -> None:
        """Fire it then, and not at what was watched for it before."""
        host.awaited = deadline
        self._serial += 1
        heapq.heappush(self._alarms, (deadline, self._serial, host))
        if deadline < self._asleep_until:
            self._woken.set()

    def want_snapshot(self, host: Hosted) -> None:
        self._due[host] = None
        self._snapshot_due.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_deadlines())
            tasks.create_task(self._run_snapshots())

    async def _run_deadlines(self) -> None:
        alarms = self._alarms
        while True:
            self._asleep_until = alarms[0][0] if alarms else NEVER
            seconds = None
            if alarms:
                seconds = max(0.0, (self._asleep_until - self._clock.steady()) / 1e3)
            self._woken.clear()
            await _set_within(self._woken, seconds)
            now = self._clock.steady()
            while alarms and alarms[0][0] <= now:
                deadline, _, host = heapq.heappop(alarms)
                if host.awaited == deadline:  # no other one is watched since
                    host.awaited = NEVER
                    host.fire(now)

    async def _run_snapshots(self) -> None:
        while True:
            await _set_within(self._snapshot_due, SNAPSHOT_SECONDS)
            if not self._snapshot_due.is_set():
                self._due.update(dict.fromkeys(self._find_grown()))
            self._snapshot_due.clear()
            while self._due:
                host = next(iter(self._due))
                del self._due[host]
                await host.try_snapshot()

    def _find_grown(self) -> list[Hosted]:
        least = self._records_min
        return [host for host in self._hosts if host.records_since_snapshot >= least]


async def _set_within(event: asyncio.Event, seconds: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
