"""Publishes the runs of schedules when they are due, each exactly once, also across crashes.

    due ── RunPlanned, durable ──> append to the topic, durable ──> RunPublished
                  ^                        │
                  └── topic is gone ───────┴── after a crash or an error: is the batch there?

Each run is one batch, with a producer id and epoch that no other batch has; so after a crash, or
when the topic's leader did not answer, the headers behind the end of the partition at the time of
the plan tell whether it was written (`move_target`).  What may have been written is only ever
written again under the same epoch.

The node that leads `__schedules` does this.  Runs for the same partition share a lane: one that
hangs or refuses holds up nobody else.  A run that fails is tried again with growing delays, and
whenever a topic or the schedule is changed.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from goqueue.broker.dlq.move_target import MoveTarget, move_target
from goqueue.broker.dlq.redrive import MAYBE_WRITTEN
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.schedules.term import Failure, Term
from goqueue.broker.schedules.work import Work, find_work, place_of
from goqueue.broker.services import BrokerServices
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    NotCoordinator,
    ShuttingDown,
    TopicNotFound,
)
from goqueue.model.ids import PRODUCER_EPOCH_MAX, Offset, Timestamp, TopicPartition
from goqueue.queue import Move
from goqueue.queue.dead_letter import encode_batch
from goqueue.runtime.tasks import owned_tasks
from goqueue.schedules import Plan, Planned, Published, Run, Schedule, ScheduleMachine

TAKEN_MAX: Final = 200  # schedules that are looked at without a pause
LANE_MAX: Final = 100  # runs that are planned together
LOOK_SECONDS: Final = 1.0  # after which the wall clock is looked at again: it may have been set
CLOCK_STEP_MS: Final = 1_000  # back, that is noticed


class Totals(msgspec.Struct):
    """Since this node started."""

    runs: int = 0
    failures: int = 0
    missed: int = 0


class SchedulePublisher:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._clock = services.environment.clock
        self._term: Term | None = None
        self._wanted = asyncio.Event()
        self._last_look = Timestamp(0)
        self.totals = Totals()
        self.observe_lateness: Callable[[float], None] = lambda _: None

    # --- life -------------------------------------------------------------------------------------

    def lead(self, host: MachineHost[ScheduleMachine]) -> None:
        """This node leads `__schedules`: what was planned and not noted is looked for."""
        self._term = Term(host)
        self._wanted.set()

    def resign(self) -> None:
        if self._term is not None:
            for lane in self._term.lanes.values():
                lane.clear()
        self._term = None

    @property
    def term(self) -> Term:
        if self._term is None:
            raise NotCoordinator("this node does not run the schedules")
        return self._term

    def note_changed(self, name: str) -> None:
        """Somebody changed it, or wants a run."""
        if self._term is not None:
            self._term.retry(name)
            self._wanted.set()

    def retry(self) -> None:
        """A topic was changed, say: what failed may work now."""
        if self._term is not None:
            for name in list(self._term.failures):
                self._term.retry(name)
            self._wanted.set()

    def failure(self, name: str) -> Failure | None:
        return None if self._term is None else self._term.failures.get(name)

    @property
    def failing_count(self) -> int:
        return 0 if self._term is None else len(self._term.failures)

    # --- looking for what is due ------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        async with owned_tasks() as tasks:
            while True:
                self._wanted.clear()
                term, now = self._term, self._look_at_clock()
                names = [] if term is None else term.due.take(now, TAKEN_MAX)
                for name in names:
                    assert term is not None
                    self._queue(tasks, term, name, now)
                if names:
                    await asyncio.sleep(0)
                else:
                    await self._wait(term, now)

    def _look_at_clock(self) -> Timestamp:
        now = self._clock.now()
        if now < self._last_look - CLOCK_STEP_MS:
            self.retry()  # what was to be tried again later would be so much later
        self._last_look = now
        return now

    async def _wait(self, term: Term | None, now: Timestamp) -> None:
        at = None if term is None else term.due.next_at
        seconds = None if at is None else min(LOOK_SECONDS, max(0, at - now) / 1e3)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()

    def _queue(self, tasks: asyncio.TaskGroup, term: Term, name: str, now: Timestamp) -> None:
        """Into the lane of where its run goes."""
        schedule = term.find(name)
        if schedule is None:
            return
        try:
            place = place_of(self._services, term, schedule, now)
        except GoQueueError as error:
            self._fail(term, name, error)
            return
        term.take_up(name)
        lane = term.lanes.get(place)
        if lane is None:
            lane = term.lanes[place] = deque()
            tasks.create_task(self._run_lane(term, place, lane))
        lane.append(name)

    def _fail(self, term: Term, name: str, error: GoQueueError) -> None:
        if term is self._term and not isinstance(error, ShuttingDown):
            self.totals.failures += 1
            term.note_failure(name, error, self._clock.now())
        term.arm(name)

    # --- one lane ---------------------------------------------------------------------------------

    async def _run_lane(self, term: Term, place: TopicPartition, lane: deque[str]) -> None:
        try:
            while lane and term is self._term:
                names = [lane.popleft() for _ in range(min(LANE_MAX, len(lane)))]
                try:
                    await self._publish(term, place, self._find_works(term, place, names))
                finally:
                    for name in names:
                        term.release(name)
                self._wanted.set()
        finally:
            term.lanes.pop(place, None)

    def _find_works(self, term: Term, place: TopicPartition, names: Sequence[str]) -> list[Work]:
        """What is to be written there now; what has changed meanwhile is looked at again."""
        found: list[Work] = []
        now = self._clock.now()
        for name in names:
            schedule = term.find(name)
            if schedule is None:
                continue
            try:
                work = find_work(self._services, term, schedule, now)
                if isinstance(work, Work) and work.place == place:
                    found.append(work)
                elif work is not None and not isinstance(work, Work):
                    term.host.write_through(
                        lambda machine, schedule=schedule, work=work: machine.skip_runs(  # type: ignore[misc]
                            schedule, work
                        )
                    )
                    self.totals.missed += work.skipped
            except GoQueueError as error:
                self._fail(term, name, error)
        return found

    async def _publish(self, term: Term, place: TopicPartition, works: Sequence[Work]) -> None:
        if not works:
            return
        try:
            target = await move_target(self._services, place.topic, place.partition)
            if target.topic_id != works[0].topic_id:
                raise TopicNotFound(f"topic {place.topic!r} was deleted meanwhile")
            planned = await self._plan(term, target, works)
        except GoQueueError as error:
            for work in works:
                self._fail(term, work.name, error)
            return
        offsets = await asyncio.gather(*(self._try(term, target, each) for each in planned))
        self._note(
            term,
            [
                (work, offset)
                for work, offset in zip(planned, offsets, strict=True)
                if offset is not None
            ],
        )

    async def _plan(self, term: Term, target: MoveTarget, works: Sequence[Work]) -> list[Work]:
        """Those that are planned, durably."""
        fresh = [each for each in works if each.plan is None]
        planned = [each for each in works if each.plan is not None]
        if not fresh:
            return planned
        behind = await target.find_end()
        wanted = [
            Planned(each.schedule, each.due, await self._make_plan(each, behind)) for each in fresh
        ]
        taken = await term.host.submit(lambda machine: machine.plan_runs(wanted))
        plans = {each.schedule.definition.name: each.plan for each in taken}
        for each in fresh:
            plan = plans.get(each.name)
            if plan is not None:
                term.unwritten.add(each.name)
                term.superseded.discard(each.name)
                self.totals.missed += 0 if each.due is None else each.due.skipped
                planned.append(msgspec.structs.replace(each, plan=plan))
        return planned

    async def _make_plan(self, work: Work, behind: Offset) -> Plan:
        producer_id, epoch = await self._next_producer(work.schedule)
        return Plan(
            work.number,
            work.scheduled_at,
            work.schedule.definition.topic,
            work.topic_id,
            work.partition,
            behind,
            producer_id,
            epoch,
            work.is_manual,
        )

    async def _next_producer(self, schedule: Schedule) -> tuple[int, int]:
        """Never the same twice; an epoch is enough, as long as there are any."""
        producer_id, epoch = schedule.producer_id, schedule.producer_epoch + 1
        if producer_id < 0 or epoch >= PRODUCER_EPOCH_MAX - 1:
            return await self._services.reserve_producer_id(), 0
        return producer_id, epoch

    # --- writing ----------------------------------------------------------------------------------

    async def _try(self, term: Term, target: MoveTarget, work: Work) -> Offset | None:
        try:
            return await self._write(term, target, work)
        except GoQueueError as error:
            self._fail(term, work.name, error)
            return None

    async def _write(self, term: Term, target: MoveTarget, work: Work) -> Offset:
        """Where the run is, durably: it is written unless it is there."""
        plan = work.plan
        assert plan is not None, "it is planned"
        move = _move(plan)
        if work.name not in term.unwritten:
            found = await target.find(move)
            if found is not None:
                return found
        term.unwritten.discard(work.name)  # until it is said that it is not
        producer = plan.producer_id, plan.producer_epoch, 0
        now = self._clock.now()
        try:
            offset, committed = await target.append(encode_batch([work.record(now)], now, producer))
        except MAYBE_WRITTEN:
            raise
        except InvalidProducerEpoch:  # another batch of the schedule is there
            found = await target.find(move)
            if found is not None:
                return found
            term.superseded.add(work.name)
            raise
        except GoQueueError:
            term.unwritten.add(work.name)
            raise
        if committed is not None:
            await committed
        return offset

    def _note(self, term: Term, done: Sequence[tuple[Work, Offset]]) -> None:
        if not done:
            return
        now = self._clock.now()
        published = [
            Published(work.name, work.plan, offset)
            for work, offset in done
            if work.plan is not None
        ]
        try:
            term.host.write_through(lambda machine: machine.note_published(published, now))
        except GoQueueError as error:  # it is in the topic, and is looked for there
            for work, _ in done:
                self._fail(term, work.name, error)
            return
        self.totals.runs += len(done)
        for each in published:
            term.note_success(each.name)
            if not each.plan.is_manual:
                self.observe_lateness(max(0, now - each.plan.scheduled_at) / 1e3)
            term.tell(each.name, _run(each, now))


def _move(plan: Plan) -> Move:
    return Move(
        (),
        plan.topic,
        plan.topic_id,
        plan.partition,
        plan.producer_id,
        plan.producer_epoch,
        plan.behind,
    )


def _run(published: Published, now: Timestamp) -> Run:
    plan = published.plan
    return Run(
        plan.number,
        plan.scheduled_at,
        now,
        plan.topic,
        plan.partition,
        published.offset,
        plan.is_manual,
    )
