"""The verbs of schedules, for all listeners.

One node runs them: the one that leads `__schedules`; it also publishes their runs.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.schedules.publisher import SchedulePublisher
from goqueue.broker.schedules.work import choose_partition
from goqueue.broker.services import BrokerServices
from goqueue.cluster.features import DELAYS, DELAYS_LEVEL, demand_support
from goqueue.model.errors import GoQueueError, InvalidRecord, NotCoordinator
from goqueue.model.ids import Timestamp
from goqueue.model.machine import Decision
from goqueue.schedules import (
    Definition,
    Run,
    Schedule,
    ScheduleMachine,
    ScheduleRecord,
    Timing,
    check_definition,
    find_timing_mistakes,
)
from goqueue.schedules.errors import InvalidSchedule

RUN_SECONDS: Final = 5.0  # that a request for a run waits for it
PREVIEW_MAX: Final = 100


class SchedulePage(msgspec.Struct, frozen=True):
    schedules: list[Schedule]
    total: int


class Schedules:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._clock = services.environment.clock
        self._in_background = services.environment.disk.in_background
        self._host: MachineHost[ScheduleMachine] | None = None
        self.publisher = SchedulePublisher(services)

    # --- life -------------------------------------------------------------------------------------

    def new_machine(self) -> ScheduleMachine:
        config = self._services.config.schedules
        return ScheduleMachine(config.count_max, config.runs_kept)

    def attach(self, host: MachineHost[ScheduleMachine]) -> None:
        """This node runs the schedules."""
        self._host = host
        self.publisher.lead(host)

    def resign(self) -> None:
        self.publisher.resign()
        if self._host is not None:
            self._host.resign(_not_here, _not_here)
        self._host = None

    @property
    def is_coordinating(self) -> bool:
        return self._host is not None

    @property
    def host(self) -> MachineHost[ScheduleMachine]:
        """Raises `NotCoordinator` unless this node runs the schedules."""
        if self._host is None:
            raise _not_here()
        return self._host

    # --- looking ----------------------------------------------------------------------------------

    async def find(self, name: str) -> Schedule:
        return await self.host.read(lambda machine: machine.schedule(name))

    async def page(self, *, after: str = "", count: int) -> SchedulePage:
        return await self.host.read(
            lambda machine: SchedulePage(machine.page(after=after, count=count), len(machine))
        )

    async def preview(self, timing: Timing, count: int) -> list[Timestamp]:
        """The next runs of a schedule that need not be there; raises `InvalidSchedule`."""
        now = self._clock.now()
        anchor = timing.start or now

        def look() -> list[Timestamp]:
            mistakes = find_timing_mistakes(timing, now)
            if mistakes:
                raise InvalidSchedule.of(mistakes)
            return timing.runs_after(now, anchor, min(count, PREVIEW_MAX))

        return await self._in_background(look)

    async def preview_of(self, name: str, count: int) -> list[Timestamp]:
        """The next runs, as far as it may have any."""
        found, now = await self.find(name), self._clock.now()
        first, most = found.next_at, found.definition.max_runs
        if first is None:
            return []
        count = min(count, PREVIEW_MAX)
        if most is not None:
            count = min(count, most - found.run_count)
        after = Timestamp(max(now, first - 1))
        timing, anchor = found.definition.timing, found.anchor
        return await self._in_background(lambda: timing.runs_after(after, anchor, count))

    # --- changing ---------------------------------------------------------------------------------

    async def create(self, definition: Definition, *, is_paused: bool = False) -> Schedule:
        now = await self._check(definition)
        return await self._change(
            definition.name,
            lambda machine: machine.create(definition, now, is_paused=is_paused),
        )

    async def replace(self, definition: Definition, version: int | None = None) -> Schedule:
        now = await self._check(definition)
        return await self._change(
            definition.name, lambda machine: machine.replace(definition, now, version)
        )

    async def _check(self, definition: Definition) -> Timestamp:
        demand_support(self._services.metadata, DELAYS, DELAYS_LEVEL)
        now = self._clock.now()
        await self._in_background(lambda: check_definition(definition, now))
        topic = self._services.topic(definition.topic)
        choose_partition(definition.message, topic, 1)
        if topic.settings.is_compacted and definition.message.key is None:
            raise InvalidRecord(
                f"topic {topic.name!r} is compacted and takes only messages with a key"
            )
        return now

    async def pause(self, name: str) -> Schedule:
        now = self._clock.now()
        return await self._change(name, lambda machine: machine.pause(name, now))

    async def resume(self, name: str) -> Schedule:
        return await self._change(name, lambda machine: machine.resume(name))

    async def _change(
        self, name: str, decide: Callable[[ScheduleMachine], Decision[ScheduleRecord, None]]
    ) -> Schedule:
        host = self.host
        await host.submit(decide)
        self.publisher.note_changed(name)
        return await host.read(lambda machine: machine.schedule(name))

    async def delete(self, name: str) -> None:
        await self.host.submit(lambda machine: machine.delete(name))
        self.publisher.note_changed(name)

    async def run_now(self, name: str) -> tuple[Timestamp, Run | None]:
        """The time that the run has, and the run; None: it is not published yet."""
        now, term, host = self._clock.now(), self.publisher.term, self.host
        try:
            at, committed = host.submit_now(lambda machine: machine.request_run(name, now))
        except GoQueueError:
            await host.wait_settled()
            raise
        waiter = term.wait_for(name, at)
        try:
            if committed is not None:
                await committed
            self.publisher.note_changed(name)
            async with asyncio.timeout(RUN_SECONDS):
                return at, await waiter
        except TimeoutError:
            return at, None
        finally:
            term.stop_waiting(name, at)


def _not_here() -> NotCoordinator:
    return NotCoordinator("this node does not run the schedules")
