"""The machine of schedules: which there are, and which of their runs are planned and published.

    ScheduleSet ──> next_at ──(due)──> RunPlanned ──(in the topic)──> RunPublished ──> next_at …
                        │  ^
                        └──┴── RunsSkipped: missed, and not made up for

A schedule is an idempotent producer: each run is a batch with an epoch of its own, one at a time.
The plan is durable before the batch is appended.  So whoever runs the machine after a crash knows
which run may be in the topic, and finds out whether it is (`goqueue.broker.schedules`).

Times of runs are computed when a decision is made, and written down: a replay computes none.
"""

import bisect
from collections.abc import Generator, Iterable, Sequence
from typing import Final

import msgspec

from goqueue.model.ids import Offset, Timestamp
from goqueue.model.machine import Decision
from goqueue.schedules.errors import (
    ScheduleChanged,
    ScheduleExists,
    ScheduleFinished,
    ScheduleNotFound,
    TooManySchedules,
)
from goqueue.schedules.missed import Due
from goqueue.schedules.records import (
    RunPlanned,
    RunPublished,
    RunRequested,
    RunsSkipped,
    ScheduleDeleted,
    SchedulePaused,
    ScheduleRecord,
    ScheduleResumed,
    ScheduleSet,
    decode,
    encode,
)
from goqueue.schedules.schedule import REQUESTS_MAX, Definition, Plan, Run, Schedule

BYTES_MAX: Final = 256 * 1024 * 1024  # of the messages of all schedules

_change = msgspec.structs.replace


class Published(msgspec.Struct, frozen=True):
    """Where the batch of a plan is."""

    name: str
    plan: Plan
    offset: Offset


class Planned(msgspec.Struct, frozen=True):
    """A run that is to be planned: as it was when its place was looked for."""

    schedule: Schedule
    due: Due | None  # None: the run that is planned gets another place
    plan: Plan


class ScheduleMachine:
    def __init__(self, count_max: int = 100_000, runs_kept: int = 20) -> None:
        self._count_max = count_max
        self._runs_kept = runs_kept
        self._schedules: dict[str, Schedule] = {}
        self._names: list[str] = []  # sorted
        self._bytes = 0  # of their messages
        self.paused_count = 0

    # --- looking ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._schedules)

    def all(self) -> Iterable[Schedule]:
        return self._schedules.values()

    def find(self, name: str) -> Schedule | None:
        return self._schedules.get(name)

    def schedule(self, name: str) -> Schedule:
        """Raises `ScheduleNotFound`."""
        found = self._schedules.get(name)
        if found is None:
            raise ScheduleNotFound(f"there is no schedule {name!r}")
        return found

    def page(self, *, after: str = "", count: int) -> list[Schedule]:
        """So many by name, later than that."""
        begin = bisect.bisect_right(self._names, after)
        return [self._schedules[name] for name in self._names[begin : begin + count]]

    # --- changing ---------------------------------------------------------------------------------

    def create(
        self, definition: Definition, now: Timestamp, *, is_paused: bool = False
    ) -> Decision[ScheduleRecord, None]:
        name = definition.name
        if name in self._schedules:
            raise ScheduleExists(f"there is a schedule {name!r} already")
        if len(self._schedules) >= self._count_max:
            raise TooManySchedules(
                f"there are {len(self._schedules)} schedules, as many as the server's setting"
                " schedules.count_max allows"
            )
        self._check_room(definition.message.size)
        return self._set(definition, None, now, is_paused=is_paused)

    def replace(
        self, definition: Definition, now: Timestamp, version: int | None = None
    ) -> Decision[ScheduleRecord, None]:
        """With a `version`: only if that is the newest."""
        old = self.schedule(definition.name)
        if version is not None and version != old.version:
            raise ScheduleChanged(
                f"schedule {definition.name!r} has version {old.version}, not {version}: read it"
                " and change it again"
            )
        self._check_room(definition.message.size - old.definition.message.size)
        return self._set(definition, old, now, is_paused=old.is_paused)

    def _check_room(self, size: int) -> None:
        if self._bytes + size > BYTES_MAX:
            raise TooManySchedules(
                f"the messages of all schedules have {self._bytes} bytes, {BYTES_MAX} allowed"
            )

    def _set(
        self, definition: Definition, old: Schedule | None, now: Timestamp, *, is_paused: bool
    ) -> Decision[ScheduleRecord, None]:
        timing = definition.timing
        anchor, handled = timing.start or now, now
        if old is not None and old.definition.timing == timing:
            anchor, handled = old.anchor, old.handled
        next_at = timing.next_after(handled, anchor)
        count, most = 0 if old is None else old.run_count, definition.max_runs
        if most is not None and count >= most:
            next_at = None
        version = 1 if old is None else old.version + 1
        record = ScheduleSet(definition, version, now, anchor, handled, next_at, is_paused)
        return Decision((record,), None)

    def pause(self, name: str, now: Timestamp) -> Decision[ScheduleRecord, None]:
        if self.schedule(name).is_paused:
            return Decision((), None)
        return Decision((SchedulePaused(name, now),), None)

    def resume(self, name: str) -> Decision[ScheduleRecord, None]:
        if not self.schedule(name).is_paused:
            return Decision((), None)
        return Decision((ScheduleResumed(name),), None)

    def delete(self, name: str) -> Decision[ScheduleRecord, None]:
        self.schedule(name)
        return Decision((ScheduleDeleted(name),), None)

    def request_run(self, name: str, now: Timestamp) -> Decision[ScheduleRecord, Timestamp]:
        """A run beside the usual ones; gives its time, which tells it apart."""
        found = self.schedule(name)
        most, waiting = found.definition.max_runs, len(found.requests)
        if most is not None and found.run_count + waiting >= most:
            raise ScheduleFinished(f"schedule {name!r} has had all its {most} runs")
        if waiting >= REQUESTS_MAX:
            raise TooManySchedules(f"{waiting} runs of {name!r} wait already: see its error")
        at = Timestamp(max(now, found.last_request + 1))
        return Decision((RunRequested(name, at),), at)

    # --- runs -------------------------------------------------------------------------------------

    def skip_runs(self, schedule: Schedule, due: Due) -> Decision[ScheduleRecord, bool]:
        """Unless it has changed meanwhile."""
        name = schedule.definition.name
        if self._schedules.get(name) is not schedule:
            return Decision((), False)
        return Decision((RunsSkipped(name, due.handled, due.next_at, due.skipped),), True)

    def plan_runs(self, wanted: Sequence[Planned]) -> Decision[ScheduleRecord, list[Planned]]:
        """Gives those that are planned now: the others have changed meanwhile."""
        taken = [
            each for each in wanted if self.find(each.schedule.definition.name) is each.schedule
        ]
        return Decision([_plan_record(each) for each in taken], taken)

    def note_published(
        self, published: Sequence[Published], now: Timestamp
    ) -> Decision[ScheduleRecord, None]:
        """Those whose schedule is deleted meanwhile are forgotten."""
        return Decision(
            [
                RunPublished(
                    each.name, each.plan.producer_id, each.plan.producer_epoch, each.offset, now
                )
                for each in published
                if self._plans(each.name, each.plan.producer_id, each.plan.producer_epoch)
            ],
            None,
        )

    def _plans(self, name: str, producer_id: int, epoch: int) -> bool:
        found = self._schedules.get(name)
        plan = None if found is None else found.plan
        return plan is not None and (plan.producer_id, plan.producer_epoch) == (producer_id, epoch)

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, record: ScheduleRecord) -> None:
        match record:
            case ScheduleSet():
                self._put(self._apply_set(record))
            case SchedulePaused(name=name, at=at):
                self._put(_change(self._schedules[name], paused_at=at))
            case ScheduleResumed(name=name):
                self._put(_change(self._schedules[name], paused_at=None))
            case ScheduleDeleted(name=name):
                self._remove(name)
            case RunRequested(name=name, at=at):
                found = self._schedules[name]
                self._put(_change(found, requests=(*found.requests, at), last_request=at))
            case RunsSkipped():
                self._put(_apply_skipped(self._schedules[record.name], record))
            case RunPlanned():
                self._put(_apply_planned(self._schedules[record.name], record))
            case RunPublished():
                self._put(self._apply_published(self._schedules[record.name], record))
            case Schedule():
                self._put(record)

    def _put(self, schedule: Schedule) -> None:
        name = schedule.definition.name
        if name in self._schedules:
            self._count(self._schedules[name], -1)
        else:
            bisect.insort(self._names, name)
        self._schedules[name] = schedule
        self._count(schedule, 1)

    def _remove(self, name: str) -> None:
        self._count(self._schedules.pop(name), -1)
        del self._names[bisect.bisect_left(self._names, name)]

    def _count(self, schedule: Schedule, step: int) -> None:
        self._bytes += step * schedule.definition.message.size
        self.paused_count += step * schedule.is_paused

    def _apply_set(self, record: ScheduleSet) -> Schedule:
        paused_at = record.at if record.is_paused else None
        old = self._schedules.get(record.definition.name)
        if old is None:
            return Schedule(
                record.definition,
                record.version,
                record.at,
                record.at,
                record.anchor,
                record.handled,
                record.next_at,
                paused_at=paused_at,
            )
        return _change(
            old,
            definition=record.definition,
            version=record.version,
            updated_at=record.at,
            anchor=record.anchor,
            handled=record.handled,
            next_at=record.next_at,
        )

    def _apply_published(self, found: Schedule, record: RunPublished) -> Schedule:
        plan = found.plan
        assert plan is not None, "what is published was planned"
        run = Run(
            plan.number,
            plan.scheduled_at,
            record.at,
            plan.topic,
            plan.partition,
            record.offset,
            plan.is_manual,
        )
        runs = (*found.runs, run)[-self._runs_kept :] if self._runs_kept else ()
        return _change(found, plan=None, runs=runs)

    # --- writing down -----------------------------------------------------------------------------

    def snapshot(self) -> Generator[ScheduleRecord, None, None]:
        """A schedule is never changed in place, so a list of them is the state of this moment."""
        return _write_down(list(self._schedules.values()))

    def encode(self, record: ScheduleRecord) -> bytes:
        return encode(record)

    def decode(self, data: bytes) -> ScheduleRecord:
        return decode(data)

    # --- time: who publishes looks for what is due ------------------------------------------------

    def next_deadline(self) -> Timestamp | None:
        return None

    def on_deadline(self, now: Timestamp) -> Decision[ScheduleRecord, None]:
        return Decision((), None)


def _plan_record(wanted: Planned) -> RunPlanned:
    schedule, due = wanted.schedule, wanted.due
    name = schedule.definition.name
    if due is None:
        handled, next_at, accepted = schedule.handled, schedule.next_at, schedule.accepted
        return RunPlanned(name, wanted.plan, handled, next_at, 0, accepted)
    return RunPlanned(name, wanted.plan, due.handled, due.next_at, due.skipped, due.accepted)


def _apply_skipped(found: Schedule, record: RunsSkipped) -> Schedule:
    return _change(
        found,
        handled=record.handled,
        next_at=record.next_at,
        missed_count=found.missed_count + record.count,
    )


def _apply_planned(found: Schedule, record: RunPlanned) -> Schedule:
    plan = record.plan
    is_new = found.plan is None  # else it has another place now
    requests = found.requests[1:] if plan.is_manual and is_new else found.requests
    return _change(
        found,
        plan=plan,
        run_count=plan.number,
        handled=record.handled,
        next_at=record.next_at,
        accepted=record.accepted,
        missed_count=found.missed_count + record.skipped,
        requests=requests,
        producer_id=plan.producer_id,
        producer_epoch=plan.producer_epoch,
    )


def _write_down(schedules: list[Schedule]) -> Generator[ScheduleRecord, None, None]:
    yield from schedules
