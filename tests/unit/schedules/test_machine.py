"""The machine of schedules: a replay, and a snapshot, give the same as what happened."""

from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.ids import Offset, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.schedules import (
    Definition,
    Message,
    Missed,
    Plan,
    Planned,
    Published,
    Schedule,
    ScheduleMachine,
    ScheduleRecord,
    Timing,
    find_due,
)
from goqueue.schedules import machine as machines
from goqueue.schedules.errors import (
    ScheduleChanged,
    ScheduleExists,
    ScheduleFinished,
    ScheduleNotFound,
    TooManySchedules,
)
from tests.unit.schedules.moments import at

NOW = at("2026-01-01T00:00")
MINUTE = 60_000
TOPIC_ID = TopicId(UUID(int=7))


def definition(name: str = "s", **changes: object) -> Definition:
    found = Definition(name, TopicName("t"), Timing("* * * * *"), Message(b"hello"))
    return msgspec.structs.replace(found, **changes)


class Live:
    """A machine and its log."""

    def __init__(self, **bounds: int) -> None:
        self.machine = ScheduleMachine(**bounds)
        self.log: list[bytes] = []
        self.epoch = 0

    def do(self, decision: Decision[ScheduleRecord, Any]) -> None:
        for record in decision.records:
            data = self.machine.encode(record)
            self.log.append(data)
            self.machine.apply(self.machine.decode(data))

    def plan(self, name: str, now: int) -> Plan | None:
        schedule = self.machine.find(name)
        if schedule is None or schedule.plan is not None:
            return None
        due = find_due(schedule, Timestamp(now))
        if due is None:
            return None
        if due.scheduled_at is None:
            self.do(self.machine.skip_runs(schedule, due))
            return None
        self.epoch += 1
        place = TopicName("t"), TOPIC_ID, 0, Offset(0)
        number = schedule.run_count + 1
        plan = Plan(number, due.scheduled_at, *place, 1, self.epoch, due.is_manual)
        self.do(self.machine.plan_runs([Planned(schedule, due, plan)]))
        return plan

    def publish(self, name: str, now: int) -> None:
        schedule = self.machine.find(name)
        if schedule is not None and schedule.plan is not None:
            done = Published(name, schedule.plan, Offset(now))
            self.do(self.machine.note_published([done], Timestamp(now)))


def state(machine: ScheduleMachine) -> list[Schedule]:
    return machine.page(count=1_000)


NAMES = st.sampled_from("ab")
WORDS = ("create", "replace", "pause", "resume", "delete", "request", "plan", "publish")
STEPS = st.lists(st.tuples(st.sampled_from(WORDS), NAMES, st.integers(1, 10)), max_size=40)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_a_replay_and_a_snapshot_give_the_same(steps: list[tuple[str, str, int]]):
    live, now = Live(runs_kept=3), int(NOW)
    for step, name, passed in steps:
        now += passed * 20_000
        play(live, step, name, now)
    for source in (live.log, [live.machine.encode(each) for each in live.machine.snapshot()]):
        other = ScheduleMachine(runs_kept=3)
        for data in source:
            other.apply(other.decode(data))
        assert state(other) == state(live.machine)
        assert len(other) == len(live.machine)
        assert other.paused_count == live.machine.paused_count
        assert other._bytes == live.machine._bytes


def play(live: Live, step: str, name: str, now: int) -> None:
    machine, time = live.machine, Timestamp(now)
    is_there = machine.find(name) is not None
    match step:
        case "create" if not is_there:
            missed = list(Missed)[now // 20_000 % 3]
            live.do(machine.create(definition(name, missed=missed, missed_max=2), time))
        case "replace" if is_there:
            timing = Timing(every_ms=MINUTE) if now % 3 else Timing("* * * * *")
            live.do(machine.replace(definition(name, timing=timing), time))
        case "pause" if is_there:
            live.do(machine.pause(name, time))
        case "resume" if is_there:
            live.do(machine.resume(name))
        case "delete" if is_there:
            live.do(machine.delete(name))
        case "request" if is_there:
            live.do(machine.request_run(name, time))
        case "plan":
            live.plan(name, now)
        case "publish":
            live.publish(name, now)
        case _:
            pass


def test_runs_are_numbered_and_follow_each_other():
    live = Live(runs_kept=2)
    live.do(live.machine.create(definition(), NOW))
    for minute in range(1, 5):
        now = NOW + minute * MINUTE + 5
        assert live.plan("s", now) is not None
        assert live.plan("s", now) is None, "one at a time"
        live.publish("s", now)
        assert live.plan("s", now) is None, "nothing more is due"
    found = live.machine.schedule("s")
    assert found.run_count == 4
    assert [each.number for each in found.runs] == [3, 4]
    assert found.next_at == NOW + 5 * MINUTE
    assert found.runs[-1].scheduled_at == NOW + 4 * MINUTE


def test_a_run_that_gets_another_place_is_the_same_run():
    live = Live()
    live.do(live.machine.create(definition(), NOW))
    live.do(live.machine.request_run("s", NOW))
    live.do(live.machine.request_run("s", NOW))
    plan = live.plan("s", NOW)
    assert plan is not None
    moved = msgspec.structs.replace(plan, topic=TopicName("u"), producer_epoch=9)
    wanted = Planned(live.machine.schedule("s"), None, moved)
    live.do(live.machine.plan_runs([wanted]))
    found = live.machine.schedule("s")
    assert (found.plan, found.run_count, len(found.requests)) == (moved, 1, 1)
    live.do(live.machine.note_published([Published("s", plan, Offset(1))], NOW))
    assert live.machine.schedule("s").plan == moved, "the older plan is over"


def test_what_has_changed_meanwhile_is_not_planned():
    live = Live()
    live.do(live.machine.create(definition(), NOW))
    before = live.machine.schedule("s")
    live.do(live.machine.replace(definition(max_runs=3), NOW))
    due = find_due(before, Timestamp(NOW + MINUTE))
    assert due is not None
    plan = Plan(1, NOW, TopicName("t"), TOPIC_ID, 0, Offset(0), 1, 1)
    assert live.machine.plan_runs([Planned(before, due, plan)]).reply == []
    assert live.machine.skip_runs(before, due).reply is False


def test_a_replaced_schedule_keeps_its_place_in_time_unless_its_times_change():
    live = Live()
    live.do(live.machine.create(definition(), NOW))
    later = Timestamp(NOW + 10 * MINUTE + 1)
    live.do(live.machine.replace(definition(max_runs=99), later))
    assert live.machine.schedule("s").next_at == NOW + MINUTE, "missed runs stay missed"
    live.do(live.machine.replace(definition(timing=Timing("0 * * * *")), later))
    found = live.machine.schedule("s")
    assert (found.next_at, found.version) == (NOW + 60 * MINUTE, 3)


def test_after_its_last_run_a_schedule_is_finished():
    live = Live()
    live.do(live.machine.create(definition(max_runs=1), NOW))
    live.plan("s", NOW + MINUTE)
    live.publish("s", NOW + MINUTE)
    found = live.machine.schedule("s")
    assert (found.status, found.wakes_at) == ("finished", None)
    with pytest.raises(ScheduleFinished, match="has had all its 1 runs"):
        live.machine.request_run("s", NOW)
    live.do(live.machine.replace(definition(max_runs=2), NOW))
    assert live.machine.schedule("s").status == "active"


def test_what_there_is_and_what_there_is_not():
    live = Live(count_max=2)
    for name in "ba":
        live.do(live.machine.create(definition(name), NOW))
    assert [each.definition.name for each in live.machine.page(count=5)] == ["a", "b"]
    assert [each.definition.name for each in live.machine.page(after="a", count=5)] == ["b"]
    with pytest.raises(ScheduleExists):
        live.machine.create(definition("a"), NOW)
    with pytest.raises(TooManySchedules, match=r"schedules\.count_max"):
        live.machine.create(definition("c"), NOW)
    with pytest.raises(ScheduleNotFound):
        live.machine.delete("c")
    with pytest.raises(ScheduleChanged, match="has version 1, not 7"):
        live.machine.replace(definition("a"), NOW, 7)
    live.do(live.machine.delete("a"))
    assert [each.definition.name for each in live.machine.page(count=5)] == ["b"]


def test_messages_of_all_schedules_have_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machines, "BYTES_MAX", 12)
    live = Live()
    live.do(live.machine.create(definition("a"), NOW))
    live.do(live.machine.create(definition("b"), NOW))
    with pytest.raises(TooManySchedules, match="10 bytes"):
        live.machine.replace(definition("a", message=Message(b"x" * 8)), NOW)


def test_runs_that_somebody_asked_for_are_told_apart_and_bounded():
    live = Live()
    live.do(live.machine.create(definition(), NOW))
    times = []
    for _ in range(100):
        decision = live.machine.request_run("s", NOW)
        times.append(decision.reply)
        live.do(decision)
    assert len(set(times)) == 100
    with pytest.raises(TooManySchedules, match="100 runs of 's' wait"):
        live.machine.request_run("s", NOW)


def test_a_paused_schedule_sleeps_but_for_who_asks():
    live = Live()
    live.do(live.machine.create(definition(), NOW, is_paused=True))
    assert live.machine.schedule("s").wakes_at is None
    live.do(live.machine.request_run("s", NOW))
    assert live.machine.schedule("s").wakes_at == 0
    assert live.plan("s", NOW) is not None
    assert live.machine.schedule("s").wakes_at == 0, "its run is under way"
    live.do(live.machine.resume("s"))
    live.publish("s", NOW)
    assert live.machine.schedule("s").wakes_at == NOW + MINUTE
